// The view by host: what the candidates of each host lead, and what they follow.
import { el, foreign, plural } from './text.js';

const few = 12; // names that are shown until all are wanted

export class Hosts {
  /** opened is called with the name of an election, drain with what is to lead no more. */
  constructor(root, opened, drain) {
    this.root = root;
    this.opened = opened;
    this.drain = drain;
    this.want = '';
    this.unfolded = new Set(); // lists of names
  }

  onHosts(list) {
    this.list = list;
    this.draw();
  }

  allow(yes) {
    if (this.allowed === yes) return;
    this.allowed = yes;
    this.draw();
  }

  filter(want) {
    this.want = want.trim().toLowerCase();
    this.draw();
  }

  holds(host) {
    const all = [host.host, ...host.lines.flatMap((l) => [l.id ?? '', l.address ?? '', ...l.leads, ...l.follows, ...(l.groups ?? []).map((g) => g.group)])];
    return all.some((s) => s.toLowerCase().includes(this.want));
  }

  draw() {
    if (!this.list || this.root.hidden) return;
    const focus = document.activeElement?.dataset.key;
    const shown = this.list.hosts.filter((h) => !this.want || this.holds(h));
    const more = this.list.hidden ? [el('p', 'note', `${this.list.hidden} more hosts are not shown.`)] : [];
    const none = shown.length ? [] : [el('p', 'note', this.list.hosts.length ? 'No host holds that.' : 'No candidate has answered yet.')];
    this.root.replaceChildren(...shown.map((h) => this.host(h)), ...none, ...more);
    if (focus) [...this.root.querySelectorAll('[data-key]')].find((e) => e.dataset.key === focus)?.focus({ preventScroll: true });
  }

  host(h) {
    const leads = h.lines.flatMap((l) => l.leads);
    const follows = h.lines.reduce((n, l) => n + l.follows.length, 0);
    const heading = el('h2', '', h.host ? foreign(h.host) : 'host not known');
    const owned = h.lines.flatMap((l) => l.groups ?? []).reduce((n, g) => n + g.shards, 0);
    const counts = el('span', 'sub', `leads ${leads.length}, follows ${follows}${owned ? `, owns ${plural(owned, 'shard', 'shards')}` : ''}`);
    const head = el('div', 'head', heading, counts);
    if (h.host) head.append(this.button({ host: h.host }, h.host, leads));
    const lines = h.lines.map((l) => this.line(h, l));
    if (!h.host) lines.push(el('p', 'note', 'They lead, and did not answer the last roll call.'));
    const section = el('section', 'card host', head, ...lines);
    section.setAttribute('aria-label', h.host || 'host not known');
    return section;
  }

  line(h, l) {
    const who = [l.pid ? `process ${l.pid}` : '', l.ids > 1 ? plural(l.ids, 'candidate', 'candidates') : '', l.address ?? '', l.version ?? ''].filter(Boolean).join('  ');
    const name = el('p', 'who', foreign(l.id ?? '', 'id'), ' ', foreign(who, 'address'));
    if (h.host && h.lines.length > 1 && l.leads.length) {
      const target = { host: h.host, pid: l.pid };
      if (l.id) target.id = l.id;
      name.append(this.button(target, l.id ?? `process ${l.pid}`, l.leads));
    }
    const unable = new Set(l.unable);
    const lists = [['leads', l.leads], ['follows', l.follows]].filter(([, all]) => all.length);
    return el('div', 'line', name, ...(l.groups ?? []).map((g) => this.owns(g)), ...lists.map(([what, all]) => this.names(`${h.host} ${l.pid} ${l.id} ${what}`, what, all, unable)));
  }

  /** How many shards of a group. */
  owns(g) {
    const link = el('a', '', foreign(g.group));
    link.href = `#${encodeURIComponent(g.group)}`;
    link.addEventListener('click', (event) => {
      event.preventDefault();
      this.opened(g.group);
    });
    return el('p', 'names', el('span', 'what', `owns ${g.shards}`), ' ', plural(g.shards, 'shard', 'shards'), ' of ', link);
  }

  names(key, what, all, unable) {
    const unfolded = this.unfolded.has(key);
    const e = el('p', `names ${what}`, el('span', 'what', `${what} ${all.length}`), ' ');
    for (const name of unfolded ? all : all.slice(0, few)) {
      const link = el('a', unable.has(name) ? 'unhealthy' : '', foreign(name));
      link.href = `#${encodeURIComponent(name)}`;
      link.dataset.key = `${key} ${name}`;
      if (unable.has(name)) link.title = 'could not be elected now';
      link.addEventListener('click', (event) => {
        event.preventDefault();
        this.opened(name);
      });
      e.append(link, ' ');
    }
    if (all.length <= few) return e;
    const more = el('button', 'more', unfolded ? `only ${few}` : `all ${all.length}`);
    more.type = 'button';
    more.dataset.key = key;
    more.setAttribute('aria-expanded', String(unfolded));
    more.addEventListener('click', () => {
      this.unfolded[unfolded ? 'delete' : 'add'](key);
      this.draw();
    });
    e.append(more);
    return e;
  }

  button(target, label, leads) {
    const b = el('button', 'drain', 'hand over all');
    b.type = 'button';
    b.hidden = !this.allowed;
    b.disabled = leads.length === 0;
    b.dataset.key = `drain ${JSON.stringify(target)}`;
    b.setAttribute('aria-label', `Hand over all that ${label} leads`);
    b.addEventListener('click', () => this.drain(target, label, leads));
    return b;
  }
}

/** A line of the dialog: what came of one election. */
export function outcome(one) {
  return el('li', one.error ? 'bad' : 'ok', ...(one.election ? [foreign(one.election), ': '] : []), foreign(one.error ?? one.result));
}

/** Reads lines of JSON as they come. */
export async function lines(body, each) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const all = (rest + value).split('\n');
    rest = all.pop();
    for (const l of all) if (l) each(JSON.parse(l));
  }
}

/** Which of the two views is shown, as the address says. */
export class Views {
  constructor(buttons, changed) {
    this.buttons = buttons;
    this.changed = changed;
    for (const [view, b] of Object.entries(buttons)) b.addEventListener('click', () => this.show(view));
  }

  start() {
    this.apply(new URLSearchParams(location.search).get('view') === 'hosts' ? 'hosts' : 'elections');
  }

  show(view) {
    if (view === this.view) return;
    history.replaceState(null, '', (view === 'hosts' ? '?view=hosts' : location.pathname) + location.hash);
    this.apply(view);
  }

  apply(view) {
    this.view = view;
    for (const [v, b] of Object.entries(this.buttons)) b.setAttribute('aria-pressed', String(v === view));
    this.changed(view);
  }
}
