// The page: what the console serves, in a table; an election that is opened, on a card.
import { Card } from './card.js';
import { openDrain, open as act } from './actions.js';
import { Hosts, Views } from './hosts.js';
import { Line } from './line.js';
import { GroupCard, GroupRow } from './shards.js';
import { Table } from './table.js';
import { el, foreign, moment, text, zone } from './text.js';

const $ = (id) => document.getElementById(id);
const cards = new Map(); // of the open elections
const table = new Table($('elections'), (name) => open(cards.has(name) ? [...cards.keys()].filter((n) => n !== name) : [...cards.keys(), name]));
let actions = false;
let complete = false; // all elections are known
let nodes = null; // what is known of Redis
let offset = 0; // the console's clock, less ours

const drawEvery = 250;
const arrangeEvery = 500;
const drawRowsEvery = 10000;
const atMost = 20; // open elections

// --- which elections are open ---------------------------------------------------

function wanted() {
  return location.hash.slice(1).split(',').filter(Boolean).map((n) => {
    try {
      return decodeURIComponent(n);
    } catch {
      return n;
    }
  });
}

/** The open group of which this is a shard; null: it is none. */
function groupOf(name) {
  const card = cards.get(name.slice(0, Math.max(0, name.lastIndexOf('/'))));
  return card instanceof GroupCard && /\/\d+$/.test(name) ? card : null;
}

/** Opens a shard below the map of its group, in the place of another one; or closes it. */
function openShard(name) {
  const group = groupOf(name);
  const others = [...cards.keys()].filter((n) => groupOf(n) !== group);
  open(cards.has(name) ? others : [...others, name]);
}

function open(names) {
  const all = names.filter((n) => !groupOf(n) || names.includes(groupOf(n).name)).slice(-atMost);
  const hash = all.map((n) => encodeURIComponent(n)).join(',');
  history.replaceState(null, '', location.pathname + location.search + (hash ? `#${hash}` : ''));
  applyOpen();
}

function applyOpen() {
  const names = wanted();
  const before = [...cards.keys()].join();
  for (const name of cards.keys()) {
    if (names.includes(name)) continue;
    groupOf(name)?.showShard(null);
    cards.delete(name);
    table.rows.get(name)?.show(null);
  }
  for (const name of names.slice(0, atMost)) {
    const [row, group] = [table.rows.get(name), groupOf(name)];
    if (cards.has(name) || (!row && !group)) continue;
    const card = row instanceof GroupRow ? new GroupCard(name, row.colours, openShard) : new Card(name, act, (row ?? table.rows.get(group.name)).colours);
    card.onNodes?.(nodes);
    card.allow?.(actions);
    cards.set(name, card);
    if (row) row.show(card);
    else group.showShard(card);
    table.dirty = true;
  }
  if ([...cards.keys()].join() === before) return;
  if (cards.size) details.connect(`api/live?${[...cards.keys()].map((n) => `election=${encodeURIComponent(n)}`).join('&')}`);
  else details.close();
}

// --- the view by host -----------------------------------------------------------

const hosts = new Hosts($('hosts'), (name) => {
  views.show('elections');
  open(cards.has(name) ? [...cards.keys()] : [...cards.keys(), name]);
  table.rows.get(name)?.root.scrollIntoView({ block: 'nearest' });
}, openDrain);
const byHost = new Line({ hosts: (list) => hosts.onHosts(list), beat() {} }, () => {});
const views = new Views({ elections: $('view-elections'), hosts: $('view-hosts') }, (view) => {
  $('elections').hidden = view !== 'elections';
  $('hosts').hidden = view !== 'hosts';
  if (view === 'hosts') byHost.connect('api/live?view=hosts');
  else byHost.close();
  hosts.draw();
});

window.addEventListener('hashchange', applyOpen);
document.querySelector('.skip').addEventListener('click', (e) => {
  e.preventDefault(); // its address would be that of an election
  $(views.view).focus();
});

const details = new Line({
  status(s) {
    const c = cards.get(s.election);
    if (!c) return;
    c.onStatus(s);
    c.allow(actions && known());
  },
  roll(r) {
    const c = cards.get(r.election);
    if (!c) return;
    c.onRoll(r);
    c.allow(actions && known());
  },
  terms(t) {
    cards.get(t.election)?.onTerms(t);
  },
  shards(b) {
    cards.get(b.election)?.onShards?.(b);
  },
  beat() {},
}, () => {});

// --- the table ------------------------------------------------------------------

let received = new Set(); // on this connection: the others are gone

const main = new Line({
  site(s) {
    complete = !s.problem;
    actions = s.actions;
    text($('prefix'), s.prefix);
    $('problem').dataset.more = s.hidden ? `${s.hidden} more elections are not shown, those without a leader and candidates first: mandate ls lists all, mandate console NAME... shows those that you name. ` : '';
    $('problem').dataset.list = s.problem ?? '';
    showProblem();
    allow();
  },
  redis(s) {
    nodes = s;
    offset = s.now_ms - Date.now();
    drawRedis();
  },
  row(r) {
    received.add(r.election);
    const row = table.row(r.election);
    const before = row.row;
    if (row.onRow(r)) table.dirty = true;
    if (before && !r.as_of && before.token !== r.token) text($('news'), `${r.election}: ${r.leader ? `${r.leader} leads` : 'no leader'}`);
    if (!before && location.hash) applyOpen();
  },
  group(g) {
    received.add(g.election);
    const row = table.group(g.election);
    const before = row.row;
    if (row.onGroup(g)) table.dirty = true;
    if (before && !g.as_of && before.state !== g.state) text($('news'), `${g.election}: ${g.unowned ? `${g.unowned} shards without an owner` : 'every shard has an owner'}`);
    if (!before && location.hash) applyOpen();
  },
  past(p) {
    const row = table.row(p.election);
    row.now = Date.now() + offset;
    row.onPast(p);
  },
  gone(g) {
    table.remove(g.election);
    if (cards.delete(g.election)) applyOpen();
  },
  beat() {},
}, (state) => {
  connected = state === 'live';
  if (connected) lastReceived = Date.now();
  drawLine();
});

main.opened = () => {
  received = new Set();
  // A console that was started anew does not report what is gone.
  const mine = received;
  setTimeout(() => {
    if (mine !== received || !connected || !known()) return;
    for (const name of [...table.rows.keys()]) if (!received.has(name)) main.on.gone({ election: name });
  }, 15000);
};

// --- what is known --------------------------------------------------------------

let connected = null; // null: not yet
let lastReceived = 0;

/** A majority of Redis can be read, as far as the console knows. */
function known() {
  return Boolean(nodes?.known);
}

/** Why nothing is known, and since when. */
function unknown() {
  const up = nodes.nodes.filter((n) => !n.error).length;
  const why = up ? `${up} of ${nodes.nodes.length} Redis nodes answer, too few` : 'Redis does not answer';
  return `${why}; ${nodes.as_of ? `as of ${moment(nodes.as_of)}` : 'nothing is known yet'}`;
}

function drawLine() {
  let [state, label] = ['connecting', 'connecting'];
  if (connected === false) [state, label] = ['lost', lastReceived ? `no connection; as of ${moment(lastReceived)}` : 'no connection'];
  else if (connected && !nodes) label = 'reading Redis';
  else if (connected && !known()) [state, label] = ['lost', unknown()];
  else if (connected) [state, label] = ['live', 'live'];
  if ($('line').dataset.state !== state) $('line').dataset.state = state;
  text($('line'), label);
  document.body.classList.toggle('stale', state === 'lost');
}

function drawRedis() {
  const up = nodes.nodes.filter((n) => !n.error).length;
  $('redis').hidden = false;
  const label = el('span', up < nodes.nodes.length ? 'unhealthy' : '', `Redis ${up}/${nodes.nodes.length}`);
  $('redis').replaceChildren(label, ...nodes.nodes.map((n) => (
    el('span', n.error ? 'node unhealthy' : 'node', foreign(n.name), ' ', foreign(n.error ? without(n.error, n.name) : `${n.rtt_ms.toFixed(1)} ms`)))));
  drawLine();
  showProblem();
  for (const c of cards.values()) c.onNodes?.(nodes);
  allow();
}

/** Nothing can be done while nothing is known. */
function allow() {
  for (const c of cards.values()) c.allow?.(actions && known());
  hosts.allow(actions && known());
}

/** An error without the name of the node that stands before it. */
function without(error, name) {
  return error.startsWith(`${name}: `) ? error.slice(name.length + 2) : error;
}

/** An error of the list adds nothing when a node does not answer. */
function showProblem() {
  const { more, list } = $('problem').dataset;
  text($('problem'), (more ?? '') + (nodes?.nodes.some((n) => n.error) ? '' : list ?? ''));
  $('problem').hidden = !$('problem').textContent;
}

function summarize() {
  const { label, bad } = table.summary();
  text($('summary'), label);
  $('summary').className = bad ? 'bad' : '';
  const one = cards.size === 1 ? `${[...cards.keys()][0]} · ` : '';
  const count = $('line').dataset.state !== 'live' ? '(?) ' : bad ? `(${bad}) ` : '';
  const title = `${count}${one}mandate`;
  if (document.title !== title) document.title = title;
  $('none').hidden = !(complete && table.rows.size === 0);
  $('filter').parentElement.hidden = !table.many();
}

$('filter').addEventListener('input', () => {
  table.filter($('filter').value);
  hosts.filter($('filter').value);
});

// --- the zone of times ----------------------------------------------------------

const kept = 'mandate-console-zone';

function startZone() {
  const names = ['UTC', 'Etc/UTC', 'GMT'].includes(zone.local) ? ['UTC'] : [zone.local, 'UTC'];
  $('zone').replaceChildren(...names.map((n) => el('option', '', n)));
  try {
    if (localStorage.getItem(kept) === 'UTC') $('zone').value = 'UTC';
  } catch { /* some browsers keep nothing */ }
  applyZone();
}

function applyZone() {
  zone.utc = $('zone').value === 'UTC';
  drawLine();
  for (const c of cards.values()) c.redraw?.();
}

$('zone').addEventListener('change', () => {
  try {
    localStorage.setItem(kept, $('zone').value);
  } catch { /* as above */ }
  applyZone();
});
startZone();

main.connect('api/live');
views.start();
let drawn = 0;
let arranged = 0;
setInterval(() => {
  const now = performance.now();
  if (table.dirty && (now - arranged > arrangeEvery || table.rows.size < 50)) {
    arranged = now;
    table.arrange();
  }
  summarize();
  if (document.hidden || document.body.classList.contains('stale')) return;
  for (const c of cards.values()) c.tick?.();
  if (now - drawn < drawRowsEvery) return;
  drawn = now;
  for (const r of table.rows.values()) r.draw(Date.now() + offset);
}, drawEvery);
