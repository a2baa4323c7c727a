// The table: a line for each election, those with problems first.
import { Item } from './item.js';
import { el, foreign, span, text, whole } from './text.js';

/** The groups of the table, in their order: who belongs there, and its name. */
export const groups = [
  ['conflict', 'In conflict'], ['unowned', 'Groups with shards that have no owner'], ['vacant', 'Vacant'], ['unresponsive', 'Leader unresponsive'], ['flapping', 'Flapping'],
  ['unknown', 'Not known'], ['paused', 'Paused'], ['degraded', 'Degraded'], ['shards', 'Groups of shards'], ['led', 'Led'], ['abandoned', 'Abandoned'],
];

const problems = { 'two may lead': 'conflict', blocked: 'conflict', 'leader unresponsive': 'unresponsive', flapping: 'flapping' };
const heads = { election: 'election', state: 'state', leader: 'leader', lease: 'lease', candidates: 'candidates', 'last-end': 'last end', 'time-line': 'time line' };

/** The heads of columns, by the kinds of their cells. */
export function head(names = heads) {
  const e = el('div', 'row heads', ...Object.entries(names).map(([kind, name]) => {
    const c = el('span', `cell ${kind}`, name);
    c.setAttribute('role', 'columnheader');
    return c;
  }));
  e.setAttribute('role', 'row');
  return e;
}

export class Row extends Item {
  constructor(name, open) {
    super(name, nameOf(name), open);
    this.leader = foreign('', 'id');
    this.swatch = el('i', 'swatch');
    this.swatch.setAttribute('aria-hidden', 'true');
    this.fill = el('i');
    this.lease = el('span', 'meter', this.fill);
    this.lease.setAttribute('role', 'img');
    this.candidates = el('span');
    this.last = el('span');
    this.build([cell('election', this.toggle), cell('state', this.badge), cell('leader', this.swatch, this.leader),
      cell('lease', this.lease), cell('candidates num', this.candidates), cell('last-end', this.last), cell('time-line', this.strip)]);
  }

  /** What is known of the election now. True: its place in the table may have changed. */
  onRow(r) {
    this.row = r;
    const before = this.group;
    this.group = groupOf(r);
    const label = labels(r);
    this.badge.hidden = !label;
    text(this.badge, label);
    this.badge.className = !label ? 'badge' : `badge ${['paused', 'abandoned', 'unknown', 'flapping'].includes(this.group) || r.state === 'none' ? 'warn' : 'bad'}`;
    this.badge.title = label;
    text(this.leader, r.leader ?? '');
    this.leader.title = r.leader ?? '';
    this.swatch.className = r.leader ? `swatch c${this.colours.of(r.leader)}` : '';
    this.fill.style.transform = `scaleX(${r.lease / 10})`;
    this.lease.classList.toggle('low', r.lease < 3);
    this.lease.setAttribute('aria-label', r.leader ? `${r.lease * 10} % of the lease left` : 'no lease');
    text(this.candidates, r.of < 0 ? '' : `${r.able}/${r.of}`);
    this.candidates.className = r.of >= 0 && r.able < r.of ? 'unhealthy' : '';
    this.candidates.title = r.of < 0 ? 'not known' : `${r.able} of ${r.of} can lead`;
    this.line.title = r.error ?? '';
    this.line.classList.toggle('stale', Boolean(r.as_of));
    return this.group !== before;
  }

  onPast(p) {
    this.past = p;
    this.draw(this.now ?? Date.now());
  }

  /** Draws what changes with time alone. */
  draw(now) {
    this.now = now;
    const p = this.past;
    if (!p) return;
    const ago = p.until ? ` ${brief(now - p.until)} ago` : '';
    text(this.last, p.reason ? p.reason + ago : '');
    this.last.className = p.bad ? 'bad' : '';
    this.last.title = [p.reason, p.detail].filter(Boolean).join(': ');
    this.strip.style.backgroundImage = gradient(p, this.row?.as_of ?? now, this.colours.of); // nobody knows who led since
    this.strip.setAttribute('aria-label', `${p.terms.length} latest terms, ${p.terms.filter((t) => t[3]).length} ended badly`);
  }

  holds(want) {
    return this.name.toLowerCase().includes(want) || (this.row?.leader ?? '').toLowerCase().includes(want);
  }
}

const kept = 9; // characters at the end of a name that a tile never cuts: names that begin alike differ there

function nameOf(name) {
  const all = [...name];
  const e = el('bdi', 'name', el('span', '', all.slice(-kept).join('')));
  if (all.length > kept) e.prepend(el('span', 'start', all.slice(0, -kept).join('')));
  return e;
}

function cell(kind, ...children) {
  const c = el('span', `cell ${kind}`, ...children);
  c.setAttribute('role', 'cell');
  return c;
}

function groupOf(r) {
  const problem = problems[r.problem];
  if (problem === 'conflict') return problem;
  if (r.state === 'vacant' || r.state === 'none') return 'vacant';
  if (problem) return problem;
  if (r.state !== 'led') return r.state; // what was read before stays where it was
  if (r.paused) return 'paused';
  return r.degraded ? 'degraded' : 'led';
}

function labels(r) {
  const state = { vacant: r.of === 0 ? 'no candidates' : r.able === 0 && r.of > 0 ? 'no leader, none able' : 'no leader', none: 'no leader', abandoned: 'abandoned', unknown: 'not known', paused: '', led: '' }[r.state];
  return [r.problem, state, r.paused ? 'paused' : '', r.error && r.state !== 'unknown' ? 'not known' : ''].filter(Boolean).join(', ');
}

function brief(ms) {
  return ms < 60000 ? whole(ms) : span(ms).split(' ')[0];
}

/** The terms as hard stops of one gradient: an element for each would be thousands. */
function gradient(p, now, colour) {
  const terms = [...p.terms].reverse();
  if (terms.length === 0) return 'none';
  const begin = terms[0][0];
  const width = Math.max(10000, now - begin);
  const at = (ms) => Math.min(100, Math.max(0, ((ms - now) / width + 1) * 100)).toFixed(2);
  const stops = [];
  let end = 0;
  const stop = (colour, from, until) => {
    if (until > from) stops.push(`${colour} ${from}% ${until}%`);
    end = until;
  };
  for (const [from, until, id, bad] of terms) {
    const a = Math.max(end, Number(at(from)));
    const b = Math.max(a, Number(at(until || now)));
    stop('var(--track)', end, a);
    const edge = bad ? Math.max(a, b - 3) : b;
    stop(`var(--c${colour(p.ids[id])})`, a, edge);
    if (bad) stop('var(--bad)', edge, b);
  }
  stop('var(--track)', end, 100);
  return `linear-gradient(90deg, ${stops.join(', ')})`;
}
