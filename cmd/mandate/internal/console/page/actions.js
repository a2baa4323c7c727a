// The dialog in which an operator requests an action, and the token that it needs.
import { heir } from './candidates.js';
import { lines, outcome } from './hosts.js';
import { el, plural, text } from './text.js';

const $ = (id) => document.getElementById(id);
const dialog = $('action');
const kept = 'mandate-console-token';

// Some browsers refuse to keep anything: then it is requested again after a reload.
const memory = { token: '' };
function token() {
  try {
    return sessionStorage.getItem(kept) ?? memory.token;
  } catch {
    return memory.token;
  }
}
function keep(t) {
  memory.token = t;
  try {
    if (t) sessionStorage.setItem(kept, t);
    else sessionStorage.removeItem(kept);
  } catch { /* as above */ }
}

const label = {
  resign: (name, s) => [`Make ${s.leader?.id} step down?`,
    `The leader of ${name} stops its work and gives the lock back; another candidate is elected.`, 'Resign'],
  transfer: (name, s) => [`Transfer ${name}`, `${s.leader?.id} stops its work and hands over.`, 'Transfer'],
  pause: (name) => [`Pause ${name}?`, 'No new leader is elected meanwhile. The current leader remains leader.', 'Pause'],
  resume: (name) => [`Resume ${name}?`, 'Candidates may be elected again.', 'Resume'],
};

let current = null; // the action being requested

/** Opens the dialog for an action on an election. */
export function open(action, card) {
  current = { action, card };
  prepare(action, label[action](card.name, card.status), card.candidates ?? []);
}

/** Opens the dialog for handing over all that a host, a process or a candidate leads. */
export function openDrain(target, name, leads) {
  current = { action: 'drain', target };
  const some = leads.slice(0, 10).join(', ') + (leads.length > 10 ? `, and ${leads.length - 10} more` : '');
  prepare('drain', [`Hand over all that ${name} leads?`,
    `${plural(leads.length, 'election', 'elections')}: ${some}. Each goes to an able candidate elsewhere; where there is none it stays. `
    + `${name} remains a candidate: stop it soon, or it may be elected again.`, 'Hand over'], []);
}

function prepare(action, [title, what, go], candidates) {
  text($('action-title'), title);
  text($('action-what'), what);
  text($('action-go'), go);
  text($('action-close'), 'Cancel');
  showResult('', '');
  $('action-list').replaceChildren();
  $('action-list').hidden = true;
  $('action-to').replaceChildren(...candidates.filter(heir).map((c) => {
    const o = el('option', '', c.id);
    o.value = c.id;
    return o;
  }));
  $('action-to-row').hidden = action !== 'transfer';
  $('action-for-row').hidden = action !== 'pause';
  $('action-reason-row').hidden = action !== 'pause' && action !== 'resign';
  $('action-reason').value = '';
  requireToken(!token());
  busy(false);
  $('action-go').hidden = false;
  dialog.showModal();
}

function requireToken(yes) {
  $('action-token-row').hidden = !yes;
  $('action-token').required = yes;
  $('action-token').value = '';
}

function showResult(kind, s) {
  $('action-result').className = kind;
  text($('action-result'), s);
}

function busy(yes) {
  $('action-go').disabled = yes;
  dialog.setAttribute('aria-busy', String(yes));
}

function body() {
  const { action, card, target } = current;
  if (action === 'drain') return target;
  const o = { election: card.name };
  if (action === 'transfer') o.to = $('action-to').value;
  if (action === 'pause') o.for_ms = Number($('action-for').value);
  if (action === 'pause' || action === 'resign') o.reason = $('action-reason').value;
  if (current.force) o.force = true;
  return o;
}

async function send() {
  const mine = current;
  if (!$('action-token-row').hidden) keep($('action-token').value.trim());
  busy(true);
  showResult('', 'Requested; it can take until the work has stopped.');
  let kind = 'bad', label = '';
  try {
    const res = await fetch(`api/${mine.action}`, {
      method: 'POST', credentials: 'omit',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token()}` },
      body: JSON.stringify(body()),
    });
    const got = res.ok && mine.action === 'drain' ? await drained(res.body, mine) : await res.json();
    if (res.ok && !got.failed) kind = 'ok';
    label = res.ok ? got.result : got.error;
    if (res.status === 401) keep('');
    if (res.status === 409 && mine.action === 'resign') mine.force = true; // no other candidate could lead
  } catch {
    label = 'The console does not answer.';
  }
  if (mine !== current || !dialog.open) return; // closed meanwhile
  busy(false);
  showResult(kind, label);
  if (kind === 'ok') {
    $('action-go').hidden = true;
    text($('action-close'), 'Close');
    $('action-close').focus();
    requireToken(false);
  } else if (mine.force) {
    text($('action-go'), 'Resign anyway');
  } else if (!token()) {
    requireToken(true);
    $('action-token').focus();
  }
}

/** Shows what came of each election as it comes, and returns the sum. */
async function drained(body, mine) {
  let sum = { result: 'The console does not answer any more.', failed: 1 };
  await lines(body, (one) => {
    if (one.election === undefined) sum = one;
    if (mine !== current || one.election === undefined) return;
    $('action-list').hidden = false;
    $('action-list').append(outcome(one));
    $('action-list').scrollTop = $('action-list').scrollHeight;
  });
  return sum;
}

dialog.querySelector('form').addEventListener('submit', (e) => {
  e.preventDefault();
  if (!$('action-go').hidden && !$('action-go').disabled) send();
});
$('action-close').addEventListener('click', () => dialog.close());
