// The dialog in which an operator gives an order, and the token that it needs.
import { heir } from './card.js';
import { el, text } from './words.js';

const $ = (id) => document.getElementById(id);
const dialog = $('order');
const kept = 'mandate-console-token';

// Some browsers refuse to keep anything: then it is asked for again after a reload.
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

const words = {
  resign: (name, s) => [`Make ${s.leader?.id} step down?`,
    `The leader of ${name} stops its work and gives the lock back; another candidate is elected.`, 'Resign'],
  transfer: (name, s) => [`Transfer ${name}`, `${s.leader?.id} stops its work and hands over.`, 'Transfer'],
  pause: (name) => [`Pause ${name}?`, 'Nobody new is elected meanwhile. A leader that is there goes on.', 'Pause'],
  resume: (name) => [`Resume ${name}?`, 'Candidates may be elected again.', 'Resume'],
};

let current = null; // the order being given

/** Opens the dialog for an order to an election. */
export function give(action, card) {
  const [title, what, go] = words[action](card.name, card.status);
  current = { action, card };
  text($('order-title'), title);
  text($('order-what'), what);
  text($('order-go'), go);
  text($('order-close'), 'Cancel');
  said('', '');
  $('order-to').replaceChildren(...(card.candidates ?? []).filter(heir).map((c) => {
    const o = el('option', '', c.id);
    o.value = c.id;
    return o;
  }));
  $('order-to-row').hidden = action !== 'transfer';
  $('order-for-row').hidden = action !== 'pause';
  $('order-reason-row').hidden = action !== 'pause' && action !== 'resign';
  $('order-reason').value = '';
  askForToken(!token());
  busy(false);
  $('order-go').hidden = false;
  dialog.showModal();
}

function askForToken(yes) {
  $('order-token-row').hidden = !yes;
  $('order-token').required = yes;
  $('order-token').value = '';
}

function said(kind, s) {
  $('order-said').className = kind;
  text($('order-said'), s);
}

function busy(yes) {
  $('order-go').disabled = yes;
  dialog.setAttribute('aria-busy', String(yes));
}

function body() {
  const { action, card } = current;
  const o = { election: card.name };
  if (action === 'transfer') o.to = $('order-to').value;
  if (action === 'pause') o.for_ms = Number($('order-for').value);
  if (action === 'pause' || action === 'resign') o.reason = $('order-reason').value;
  return o;
}

async function send() {
  const mine = current;
  if (!$('order-token-row').hidden) keep($('order-token').value.trim());
  busy(true);
  said('', 'Asking; it can take until the work has stopped.');
  let kind = 'bad', words = '';
  try {
    const res = await fetch(`/api/${mine.action}`, {
      method: 'POST', credentials: 'omit',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token()}` },
      body: JSON.stringify(body()),
    });
    const got = await res.json();
    if (res.ok) kind = 'ok';
    words = res.ok ? got.said : got.error;
    if (res.status === 401) keep('');
  } catch {
    words = 'The console does not answer.';
  }
  if (mine !== current || !dialog.open) return; // closed meanwhile
  busy(false);
  said(kind, words);
  if (kind === 'ok') {
    $('order-go').hidden = true;
    text($('order-close'), 'Close');
    $('order-close').focus();
    askForToken(false);
  } else if (!token()) {
    askForToken(true);
    $('order-token').focus();
  }
}

dialog.querySelector('form').addEventListener('submit', (e) => {
  e.preventDefault();
  if (!$('order-go').hidden && !$('order-go').disabled) send();
});
$('order-close').addEventListener('click', () => dialog.close());
