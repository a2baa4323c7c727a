// The page: what the console says, on cards.
import { Card } from './card.js';
import { give } from './actions.js';
import { moment, plural, text } from './text.js';

const $ = (id) => document.getElementById(id);
const cards = new Map();
let steer = false;
let hidden = 0;
let complete = false; // all elections were told
let lastHeard = 0;

const drawEvery = 250;
const silent = 25000; // a connection that says nothing for so long is dead: there is a beat every 10 s
const openUpTo = 4; // elections; of more, only those with trouble are unfolded at first

function card(name) {
  let c = cards.get(name);
  if (!c) {
    c = new Card(name, give);
    cards.set(name, c);
    const next = [...cards.keys()].sort().find((n) => n > name);
    $('elections').insertBefore(c.root, next ? cards.get(next).root : null);
    if (cards.size > openUpTo) c.open(false);
    filter();
  }
  return c;
}

const on = {
  site(s) {
    complete = !s.problem;
    steer = s.steer;
    hidden = s.hidden ?? 0;
    text($('prefix'), s.prefix);
    const more = hidden ? `${hidden} more elections are not shown: name those to watch, mandate console NAME... ` : '';
    text($('problem'), more + (s.problem ?? ''));
    $('problem').hidden = !$('problem').textContent;
    for (const c of cards.values()) c.allow(steer);
  },
  status(s) {
    const c = card(s.election);
    const news = c.onStatus(s);
    c.allow(steer);
    if (news) text($('news'), news);
  },
  roll(r) {
    const c = card(r.election);
    c.onRoll(r);
    c.allow(steer);
  },
  terms(t) {
    card(t.election).onTerms(t);
  },
  gone(g) {
    cards.get(g.election)?.root.remove();
    cards.delete(g.election);
  },
  beat() {},
};

function summarize() {
  const all = [...cards.values()].filter((c) => c.status);
  const label = [plural(all.length, 'election', 'elections')];
  const without = all.filter((c) => !c.status.leader).length;
  const paused = all.filter((c) => c.status.paused).length;
  if (without) label.push(`${without} without a leader`);
  if (paused) label.push(`${paused} paused`);
  text($('summary'), all.length ? label.join(' · ') : '');
  $('summary').className = without ? 'bad' : '';
  document.title = without ? `(${without}) mandate` : 'mandate';
  $('none').hidden = !(complete && cards.size === 0);
  $('filter').parentElement.hidden = cards.size <= openUpTo;
}

function filter() {
  const want = $('filter').value.trim().toLowerCase();
  for (const [name, c] of cards) c.root.hidden = !name.toLowerCase().includes(want);
}
$('filter').addEventListener('input', filter);

// --- the line to the console ----------------------------------------------------

let source;
function line(state, label) {
  $('line').dataset.state = state;
  text($('line'), label);
  document.body.classList.toggle('stale', state === 'lost');
}

function lost() {
  line('lost', lastHeard ? `no connection; this is how it was at ${moment(lastHeard)}` : 'no connection');
}

function connect() {
  source?.close();
  const mine = new EventSource('/api/live');
  source = mine;
  const known = new Set(); // told on this connection: the others are gone
  for (const [kind, handle] of Object.entries(on)) {
    mine.addEventListener(kind, (e) => {
      if (mine !== source) return;
      lastHeard = Date.now();
      line('live', 'live');
      const news = JSON.parse(e.data);
      if (news.election) known.add(news.election);
      handle(news);
      summarize();
    });
  }
  mine.onopen = () => {
    lastHeard = Date.now();
    line('live', 'live');
    known.clear();
    // A console that was started anew says nothing of what is gone.
    setTimeout(() => {
      if (mine !== source || mine.readyState !== EventSource.OPEN) return;
      for (const name of [...cards.keys()]) if (!known.has(name)) on.gone({ election: name });
      summarize();
    }, 15000);
  };
  mine.onerror = () => {
    if (mine !== source) return;
    lost();
    // A browser gives up after an answer that is no stream: too many viewers.
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => mine === source && connect(), 5000);
  };
}

connect();
setInterval(() => {
  if (source.readyState === EventSource.OPEN && Date.now() - lastHeard > silent) {
    lost();
    connect();
  }
  if (document.hidden || document.body.classList.contains('stale')) return;
  for (const c of cards.values()) c.tick();
}, drawEvery);
