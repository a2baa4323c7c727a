// A group of shards: its line in the table, and what that opens to.
import { Item } from './item.js';
import { el, foreign, moment, plural, span, text } from './text.js';
import { ShardMap, letterOf, parse } from './map.js';

/** The heads of the columns, by the kinds of cells that a row of an election has there. */
export const heads = { election: 'group', state: 'state', leader: 'assigner', lease: 'owned', candidates: 'members', 'last-end': 'moving', 'time-line': 'shares' };
let cards = 0;

/** The line of a group, with the face of a Row. */
export class GroupRow extends Item {
  constructor(name, open) {
    super(name, foreign(name), open);
    this.part = Object.fromEntries(['leader', 'lease', 'candidates', 'last-end'].map((k) => [k, el('span')]));
    const contents = { election: this.toggle, state: this.badge, ...this.part, 'time-line': this.strip };
    this.build(Object.entries(heads).map(([kind, head]) => cell(kind, head, contents[kind])), 'item of-group');
  }

  /** What is known of the group now. True: its place in the table may have changed. */
  onGroup(g) {
    this.row = g;
    const before = this.group;
    const bad = g.state === 'unowned' || g.state === 'empty' || g.stuck > 0;
    this.group = g.state === 'unknown' ? 'unknown' : bad ? 'unowned' : 'shards';
    const label = labels(g);
    text(this.badge, label);
    this.badge.hidden = !label;
    this.badge.className = `badge ${bad ? 'bad' : 'warn'}`;
    const known = g.state !== 'unknown' && g.state !== 'empty';
    text(this.part.leader, known ? g.assigner || 'no assigner' : '');
    this.part.leader.className = known && !g.assigner ? 'unhealthy' : 'id';
    text(this.part.lease, g.shards ? `${g.shards - g.unowned}/${g.shards}` : '');
    text(this.part.candidates, known ? `${g.able}/${g.members}` : '');
    this.part.candidates.className = g.able < g.members ? 'unhealthy' : '';
    this.part.candidates.title = known ? `${g.able} of ${g.members} want shards` : '';
    text(this.part['last-end'], g.moving ? plural(g.moving, 'shard moves', 'shards move') : '');
    this.strip.style.backgroundImage = this.shares(g);
    const most = g.parts.map((p) => p.owned);
    this.strip.setAttribute('aria-label', most.length ? `members own ${Math.min(...most)} to ${Math.max(...most)} shards` : 'no members');
    this.line.title = g.error ?? '';
    this.line.classList.toggle('stale', Boolean(g.as_of));
    return this.group !== before;
  }

  /** How much each member owns, as hard stops of one gradient, and what none does. */
  shares(g) {
    let at = 0;
    const stops = g.parts.map((p) => {
      const from = at;
      at += (p.owned / Math.max(1, g.shards)) * 100;
      return `var(--c${this.colours.of(p.id)}) ${from.toFixed(2)}% ${at.toFixed(2)}%`;
    });
    stops.push(`${g.unowned ? 'var(--bad)' : 'var(--track)'} ${at.toFixed(2)}% 100%`);
    return `linear-gradient(90deg, ${stops.join(', ')})`;
  }

  draw() {}

  holds(want) {
    return this.name.toLowerCase().includes(want) || (this.row?.parts ?? []).some((p) => p.id.toLowerCase().includes(want));
  }
}

function cell(kind, head, content) {
  const c = el('span', `cell ${kind}`, content);
  c.setAttribute('role', 'cell');
  c.dataset.column = head; // a phone shows no heads
  return c;
}

function labels(g) {
  if (g.state === 'unknown') return 'not known';
  if (g.state === 'empty') return 'no members';
  const since = g.unowned && g.since ? ` since ${moment(g.since)}` : '';
  return [g.unowned ? `${g.unowned} unowned${since}` : '', g.stuck ? `${g.stuck} stuck` : '', g.error ? 'not known' : ''].filter(Boolean).join(', ');
}

/** What a group's line opens to: the map, the members, and one of its shards. */
export class GroupCard {
  constructor(name, colours, opened) {
    this.name = name;
    this.id = `g${++cards}`;
    this.colour = colours.of;
    this.letters = new Map();
    const heading = el('h2', '', foreign(name));
    heading.id = `${this.id}-name`;
    this.facts = el('span', 'sub num');
    this.condition = el('div', 'condition');
    this.map = new ShardMap(name, (n) => opened(`${name}/${n}`), () => this.board);
    this.body = el('tbody');
    this.table = membersTable(this.body);
    this.shard = el('div', 'shard');
    this.root = el('section', 'card group-card', el('div', 'head', heading, this.facts), this.condition, this.map.root, this.shard, this.table);
    this.root.id = this.id;
    this.root.setAttribute('aria-labelledby', heading.id);
  }

  /** The card of one shard below the map; null: none. */
  showShard(card) {
    this.shard.replaceChildren(...(card ? [card.root] : []));
    this.map.select(card ? Number(card.name.slice(this.name.length + 1)) : -1);
  }

  onShards(b) {
    this.board = boardOf(b, this.colour, this.letters);
    this.root.classList.toggle('frozen', Boolean(b.as_of));
    const lease = b.lease_ms ? `, lease ${span(b.lease_ms)}` : '';
    text(this.facts, `${plural(b.shards, 'shard', 'shards')}, ${plural(b.members.length + (b.hidden ?? 0), 'member', 'members')}${lease}`);
    this.condition.replaceChildren(...this.conditions(b));
    this.map.draw(this.board);
    this.body.replaceChildren(...this.board.members.flatMap((m) => this.memberRows(m, b)));
  }

  conditions(b) {
    const all = [];
    if (b.error) all.push(el('p', 'bad', foreign(b.error), b.as_of ? `; as of ${moment(b.as_of)}` : ''));
    for (const v of b.vacant.slice(0, 6)) all.push(el('p', 'bad', `${v.count} without an owner since ${moment(v.since)}: `, foreign(v.why), ': ', set(v.shards)));
    if (b.vacant.length > 6) all.push(el('p', 'bad', `and more, for ${b.vacant.length - 6} other reasons`));
    if (b.stuck) all.push(el('p', 'bad', 'Stuck for longer than a lease and a half: ', set(b.stuck)));
    if (b.members.length && !b.assigner) all.push(el('p', 'warn', 'No assigner leads: shards stay where they are.'));
    for (const p of b.problems ?? []) all.push(el('p', 'warn', 'Redis ', foreign(p)));
    return all;
  }

  memberRows(m, b) {
    const moving = [m.gets ? `+${m.gets}` : '', m.gives ? `-${m.gives}` : ''].filter(Boolean).join(' ');
    const where = [m.host, m.pid, m.address, m.version].filter(Boolean).join('  ');
    const over = m.due > 0 && m.owned > 1.1 * m.due && m.owned - m.due >= 1;
    const id = [key(m), foreign(m.id, 'id'), m.id === b.assigner ? el('span', 'address', 'assigner') : ''];
    const health = m.closed ? ['bad', 'closed'] : m.unable ? ['warn', 'failing'] : ['ok', 'ok'];
    const row = cells(id, [el('span', over ? 'bad' : '', String(m.owned))], [number(m.due)], [moving], [number(m.weight)], [el('span', ...health)], [foreign(where, 'address')]);
    const lines = [];
    if (m.closed) lines.push([`wants no shards: ${m.closed}`, 'bad']);
    if (m.unable) lines.push([`has failed lately at ${m.unable}`, 'warn']);
    return [row, ...lines.map(([label, kind]) => detail(label, kind))];
  }
}

/** The numbers of some shards, as many as a line holds: the map has them all. */
function set(shards) {
  const e = el('b', 'id', shards.length > 60 ? `${shards.slice(0, shards.lastIndexOf(',', 60))},…` : shards);
  e.title = shards;
  return e;
}

/** What the map and the table draw: members with their letters, and by shard who owns it. */
function boardOf(b, colour, letters) {
  const owner = new Array(b.shards).fill(null);
  const next = new Array(b.shards).fill(null);
  const unable = new Set();
  const members = b.members.map((m) => {
    if (!letters.has(m.id)) letters.set(m.id, letterOf(letters.size)); // it keeps its letter when others go
    const owned = parse(m.owned, b.shards);
    const planned = new Set(parse(m.planned, b.shards));
    const one = { ...m, letter: letters.get(m.id), colour: colour(m.id), owned: owned.length, gets: 0, gives: 0 };
    for (const s of owned) {
      owner[s] = one;
      if (!planned.has(s)) one.gives++;
      else planned.delete(s);
    }
    one.gets = planned.size;
    for (const s of parse(m.planned, b.shards)) next[s] = one;
    for (const s of parse(m.unable ?? '', b.shards)) unable.add(s);
    return one;
  });
  const stuck = new Set(parse(b.stuck ?? '', b.shards));
  const why = new Array(b.shards);
  for (const v of b.vacant) for (const s of parse(v.shards, b.shards)) why[s] = v;
  return { members, owner, next, stuck, unable, why, frozen: Boolean(b.as_of) };
}

function key(m) {
  const e = el('span', `key c${m.colour}`, m.letter);
  e.setAttribute('aria-hidden', 'true');
  return e;
}

export function number(f) {
  return String(Number(f.toPrecision(3)));
}

const columns = ['member', 'owned', 'due', 'moving', 'weight', 'health', 'process'];

function membersTable(body) {
  const head = el('tr', '', ...columns.map((c) => role(el('th', c === 'member' ? 'wide' : '', c), 'columnheader')));
  role(body, 'rowgroup');
  return role(el('table', 'members', el('caption', '', 'Members'), role(el('thead', '', role(head, 'row')), 'rowgroup'), body), 'table');
}

function role(e, name) {
  e.setAttribute('role', name);
  return e;
}

function cells(...contents) {
  return role(el('tr', '', ...contents.map((c, i) => {
    const td = role(el('td', i === 0 ? 'who' : 'num', ...c), 'cell');
    td.dataset.column = columns[i];
    td.classList.toggle('empty', !td.textContent);
    return td;
  })), 'row');
}

function detail(label, kind) {
  const td = role(el('td', 'detail', foreign(label, kind)), 'cell');
  td.colSpan = columns.length;
  return role(el('tr', 'detail', td), 'row');
}
