// One election on the page.
import { healthOf, heir } from './candidates.js';
import { Timeline, bad } from './timeline.js';
import { atMost, attr, el, foreign, moment, span, text, whole } from './text.js';

const few = 6; // terms that are shown until all are wanted
let cards = 0;

export class Card {
  constructor(name, act, colours) {
    this.name = name;
    this.colour = colours.of;
    this.id = `e${++cards}`;
    this.badge = el('span', 'badge');
    this.fact = {};
    const facts = el('dl', 'facts', ...['leader', 'lease', 'leads for', 'token', 'version', 'candidates'].map((k) => this.makeFact(k)));
    this.meter();
    this.actions = el('div', 'actions');
    this.actions.setAttribute('role', 'group');
    this.actions.setAttribute('aria-label', `Actions for ${name}`);
    this.buttons = {};
    for (const action of ['resign', 'transfer', 'pause', 'resume']) this.makeButton(action, act);
    this.condition = el('p', 'condition');
    this.timeline = new Timeline();
    this.roll = table('Candidates', ['candidate', 'role', 'health', 'running']);
    this.terms = table('Terms', ['leader', 'from', 'lasted', 'next after', 'end']);
    this.more = el('button', 'more');
    this.more.type = 'button';
    this.more.addEventListener('click', () => this.drawTerms(!this.all));
    this.terms.root.append(this.more);
    this.nodes = el('p', 'nodes num');
    const heading = el('h2', '', foreign(name));
    heading.id = `${this.id}-name`;
    this.root = el('section', 'card', el('div', 'head', heading, this.badge, this.actions), facts, this.condition, this.timeline.root,
      el('div', 'tables', this.roll.root, this.terms.root), this.nodes);
    this.root.id = this.id;
    this.root.setAttribute('aria-labelledby', heading.id);
  }

  makeFact(key) {
    const value = el('dd', key === 'leader' ? '' : 'num');
    this.fact[key] = value;
    return el('div', `fact ${key.replace(' ', '-')}`, el('dt', '', key), value);
  }

  meter() {
    this.fill = el('i');
    this.bar = el('span', 'meter', this.fill);
    for (const [k, v] of [['role', 'meter'], ['aria-label', `Lease of ${this.name}`], ['aria-valuemin', 0]]) this.bar.setAttribute(k, v);
    this.left = el('span', 'left');
    this.fact.lease.append(this.bar, this.left);
  }

  makeButton(action, act) {
    const b = el('button', '', action);
    b.type = 'button';
    b.hidden = true;
    b.addEventListener('click', () => act(action, this));
    this.buttons[action] = b;
    this.actions.append(b);
  }

  // --- changes ----------------------------------------------------------------

  /** What is known of the Redis nodes, whichever election it was read for; null: nothing yet. */
  onNodes(nodes) {
    const before = this.unreadable;
    this.site = nodes;
    this.unreadable = Boolean(nodes && !nodes.known);
    if (this.status) this.freeze();
    if (before === this.unreadable) return;
    if (this.status) this.onStatus(this.status); // its error stands above the table
    if (this.rollCall) this.onRoll(this.rollCall);
    if (this.history) this.drawTermsNote();
  }

  /** Writes all times anew: the zone has changed. */
  redraw() {
    if (this.status) this.onStatus(this.status);
    if (this.rollCall) this.onRoll(this.rollCall);
    if (this.history) this.drawTerms(this.all);
  }

  /** Where nothing can be read, what stands here stays as it was. */
  freeze() {
    this.frozen = Boolean(this.status.as_of || this.unreadable);
    this.root.classList.toggle('frozen', this.frozen);
  }

  onStatus(s) {
    const before = this.status;
    if (s !== before) this.receivedAt = performance.now();
    this.status = s;
    this.freeze();
    const known = s.as_of ? `as of ${moment(s.as_of)}` : s.error ? 'not known' : s.leader ? '' : 'no leader';
    const label = [known, s.blocked ? 'blocked' : '', s.conflict ? 'two may lead' : '', s.paused ? 'paused' : ''].filter(Boolean).join(', ');
    this.badge.className = `badge ${s.leader && !s.error && !s.conflict ? 'warn' : 'bad'}`;
    this.badge.hidden = !label;
    text(this.badge, label);
    this.condition.replaceChildren(...this.conditions(s));
    const l = s.leader;
    this.fact.leader.replaceChildren(...(l ? [swatch(this.colour(l.id)), foreign(l.id, 'id'), foreign(l.address ?? '', 'address')] : ['–']));
    text(this.fact.token, l ? String(l.token) : '–');
    this.drawNodes(s.nodes);
    this.drawVersion();
    this.tick();
    if (before && !s.error && before.leader?.token !== l?.token && this.rollCall) this.onRoll(this.rollCall);
  }

  conditions(s) {
    const all = [];
    if (s.error && !this.unreadable) all.push(el('span', 'bad', foreign(s.error), '. '));
    if (s.blocked) all.push(el('span', 'bad', 'No candidate can lead: ', foreign(s.blocked), '. Find out who wrote it, then remove it. '));
    if (s.conflict) all.push(el('span', 'bad', foreign(s.conflict), '. Give all candidates the same list of nodes. '));
    if (!s.paused) return all;
    const until = s.pause_left_ms ? `for ${whole(s.pause_left_ms)} more` : 'until it is resumed';
    return [...all, `Paused ${until}, no new leader will be elected: `, foreign(s.pause ?? '')];
  }

  /** What is wrong with a node for this election alone: the rest stands above the table. */
  drawNodes(nodes) {
    const down = new Set((this.site?.nodes ?? []).filter((n) => n.error).map((n) => n.name));
    const odd = nodes.filter((n) => n.abstains_ms || (n.error && !down.has(n.name)));
    this.nodes.replaceChildren(...odd.map((n) => {
      const label = n.error ? n.error : `no vote for ${span(n.abstains_ms)}: it is new, or has forgotten`;
      return el('span', 'node unhealthy', 'Redis ', foreign(n.name), ' ', foreign(label));
    }));
  }

  onRoll(r) {
    this.rollCall = r;
    this.candidates = r.candidates;
    const answered = r.candidates.filter((c) => !c.unresponsive_ms);
    const able = answered.filter((c) => c.able).length;
    const missing = r.candidates.length - answered.length;
    const well = missing === 0 && answered.every((c) => c.healthy);
    this.drawVersion();
    text(this.fact.candidates, r.error ? 'not known' : `${able}/${answered.length} can lead${missing ? `, ${missing} unresponsive` : ''}`);
    this.fact.candidates.className = r.error || (well && able) ? 'num' : 'num unhealthy';
    this.roll.body.replaceChildren(...r.candidates.flatMap((c) => this.candidateRows(c, r.now_ms)));
    const note = r.hidden ? `and ${r.hidden} more` : r.candidates.length ? '' : 'no candidate answers';
    text(this.roll.note, r.error ? this.errorNote(r.error) : note);
  }

  /** The version that leads; how many there are, while a deploy goes on. */
  drawVersion() {
    const all = new Set((this.candidates ?? []).filter((c) => c.version && !c.unresponsive_ms).map((c) => c.version));
    const led = this.leads()?.version;
    this.fact.version.replaceChildren(foreign(led || '–'), all.size > 1 ? el('span', 'warn', `${all.size} versions`) : '');
    this.fact.version.title = [...all].join(', ');
  }

  /** The candidate that leads, if it has answered. */
  leads() {
    const l = this.status?.leader;
    return l && this.candidates?.find((c) => c.id === l.id && !c.unresponsive_ms);
  }

  /** Where no majority can be read, the page has its errors above the table, once. */
  errorNote(error) {
    return this.unreadable ? 'not known' : error;
  }

  candidateRows(c, now) {
    const [kind, health] = healthOf(c);
    const where = [c.host, c.address, c.priority ? `priority ${c.priority}` : ''].filter(Boolean).join('  ');
    const led = this.leads()?.version;
    const differs = led && c.version && c.version !== led;
    const row = cells(this.roll.columns,
      [swatch(this.colour(c.id)), foreign(c.id, 'id'), where ? foreign(where, 'sub') : '', c.version ? foreign(differs ? `${c.version}, differs` : c.version, differs ? 'sub warn' : 'sub') : ''],
      [foreign(this.roleOf(c))], [el('span', kind, health)],
      [span(c.running_ms)]);
    const lines = [[c.mark, 'bad']];
    if (c.unresponsive_ms) lines.push([`no answer, last seen ${whole(c.unresponsive_ms)} before this roll call`, '']);
    else {
      if (c.rest_ms) lines.push([`rests until ${moment(now + c.rest_ms)}, after ${c.rest_reason || 'its term'}`, '']);
      lines.push([c.detail, '']);
    }
    return [row, ...lines.filter(([label]) => label).map(([label, kind]) => detail(label, this.roll.columns.length, kind))];
  }

  /** The roll is called now and then: who leads is known better. */
  roleOf(c) {
    const l = this.status?.leader;
    if (c.unresponsive_ms) return `was ${c.role}`;
    if (l && c.id === l.id) return 'leading';
    return l && c.role === 'leading' ? 'was leading' : c.role;
  }

  onTerms(t) {
    this.history = t.terms;
    this.termsError = t.error ?? '';
    this.drawTermsNote();
    this.drawTerms(this.all);
    this.tick();
  }

  drawTermsNote() {
    const some = this.history.length > 0;
    const note = this.termsError && some && this.unreadable ? 'as far as the nodes that answer know' : this.errorNote(this.termsError);
    text(this.terms.note, this.termsError ? note : some ? '' : 'no history yet');
  }

  drawTerms(all) {
    this.all = all;
    this.lasting = null;
    const n = this.history.length;
    this.terms.body.replaceChildren(...this.history.slice(0, all ? n : few).map((one) => this.termRow(one)));
    text(this.more, all ? `Only the last ${few}` : `All ${n} terms`);
    this.more.hidden = n <= few;
  }

  termRow(t) {
    const lasted = el('span', '', t.current ? whole(this.now() - t.from) : t.from && t.until ? span(t.until - t.from) : atMost(t.max_lasted_ms) || '–');
    if (t.current) this.lasting = { from: t.from, cell: lasted };
    const end = t.current ? [el('span', 'ok', 'leads')] : [foreign(t.reason ?? '', bad(t) ? 'bad' : ''), t.detail ? foreign(t.detail, 'why') : ''];
    if (t.overlaps) end.push(el('span', 'bad', ` led at the same time as token ${t.overlaps.join(', ')}`));
    return cells(this.terms.columns,
      [swatch(this.colour(t.id)), foreign(t.id, 'id'), el('span', 'sub', `token ${t.token}`)],
      [t.from ? moment(t.from) : '–'], [lasted], [t.gap_ms === undefined ? atMost(t.max_gap_ms) : span(t.gap_ms)], end);
  }

  // --- time -------------------------------------------------------------------

  /** The console's clock, as far as it is known. */
  now() {
    return this.status ? this.status.now_ms + (this.frozen ? 0 : performance.now() - this.receivedAt) : Date.now();
  }

  /** What moves between two answers. */
  tick() {
    const s = this.status;
    if (!s) return;
    const since = this.frozen ? 0 : performance.now() - this.receivedAt;
    const l = s.leader;
    const left = l ? Math.max(0, l.left_ms - since) : 0;
    const share = l && l.lease_ms ? Math.min(1, left / l.lease_ms) : 0;
    this.fill.style.transform = `scaleX(${share.toFixed(3)})`;
    attr(this.bar, 'aria-valuemax', l ? l.lease_ms / 1000 : 1);
    attr(this.bar, 'aria-valuenow', (left / 1000).toFixed(0));
    attr(this.bar, 'aria-valuetext', l ? `${(left / 1000).toFixed(0)} seconds left unless renewed` : 'no leader');
    this.bar.classList.toggle('low', share < 0.3);
    text(this.left, l ? `${(left / 1000).toFixed(1)} s` : '–');
    text(this.fact['leads for'], l?.for_ms ? whole(l.for_ms + since) : '–');
    const now = this.now();
    if (this.lasting) text(this.lasting.cell, whole(now - this.lasting.from));
    if (this.history) this.timeline.draw(this.history, now, this.colour, this.frozen);
  }

  /** Which actions make sense now. */
  allow(actions) {
    const led = Boolean(this.status?.leader);
    const paused = Boolean(this.status?.paused);
    const heirs = (this.candidates ?? []).some((c) => heir(c));
    const may = { resign: led, transfer: led && heirs, pause: !paused, resume: paused };
    for (const [action, b] of Object.entries(this.buttons)) {
      b.hidden = !actions || (action === 'pause' && paused) || (action === 'resume' && !paused);
      b.disabled = !may[action];
    }
    this.actions.hidden = !actions;
  }
}

function swatch(n) {
  const s = el('i', `swatch c${n}`);
  s.setAttribute('aria-hidden', 'true');
  return s;
}

// The roles stand in the markup too: on a phone rows are laid out as blocks, and
// browsers then forget that it is a table.
function table(caption, columns) {
  const body = el('tbody');
  body.setAttribute('role', 'rowgroup');
  const head = el('tr', '', ...columns.map((c) => role(el('th', c === 'candidate' || c === 'leader' ? 'wide' : '', c), 'columnheader')));
  role(head, 'row');
  const note = el('p', 'note');
  const t = role(el('table', caption.toLowerCase(), el('caption', '', caption), role(el('thead', '', head), 'rowgroup'), body), 'table');
  return { root: el('div', '', t, note), body, note, columns };
}

function role(e, name) {
  e.setAttribute('role', name);
  return e;
}

function cells(columns, ...contents) {
  return role(el('tr', '', ...contents.map((c, i) => {
    const td = role(el('td', i === 0 ? 'who' : `num ${columns[i].replace(' ', '-')}`, ...c), 'cell');
    td.dataset.column = columns[i]; // a phone shows no head of the table
    td.classList.toggle('empty', !td.textContent);
    return td;
  })), 'row');
}

function detail(label, columns, kind = '') {
  const td = role(el('td', 'detail', foreign(label, kind)), 'cell');
  td.colSpan = columns;
  return role(el('tr', 'detail', td), 'row');
}
