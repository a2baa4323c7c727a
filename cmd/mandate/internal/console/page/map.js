// The map of a group: a cell for each shard, in their order.
import { el, foreign, plural, span, text } from './text.js';

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const settle = 150; // ms that a pointer rests on a cell before its token is read

/** A member's letter: cells have it beside their colour, of which there are few. */
export function letterOf(i) {
  return letters[i] ?? '·';
}

/** The numbers of a set as text: "0-3,7". */
export function parse(set, below) {
  const all = [];
  for (const part of set ? set.split(',') : []) {
    const [from, to] = part.split('-').map(Number);
    for (let n = from; n <= (to ?? from) && n < below; n++) all.push(n);
  }
  return all;
}

export class ShardMap {
  /** opened is called with the number of a shard. */
  constructor(group, opened, board) {
    this.group = group;
    this.opened = opened;
    this.board = board;
    this.cells = [];
    this.drawn = [];
    this.at = 0; // the cell of the keyboard
    this.shown = -1; // the shard that the line below tells of
    this.grid = el('div', 'map');
    this.grid.tabIndex = 0;
    this.grid.setAttribute('role', 'listbox');
    this.grid.setAttribute('aria-label', `Shards of ${group}, by owner`);
    this.info = el('p', 'tell num');
    this.info.setAttribute('role', 'status');
    this.root = el('div', 'shard-map', this.grid, this.info);
    this.listen();
    this.tell(-1);
  }

  listen() {
    const numberOf = (e) => (e.target.parentElement === this.grid ? Number(e.target.dataset.n) : -1);
    this.grid.addEventListener('pointerover', (e) => this.tell(numberOf(e)));
    this.grid.addEventListener('pointerleave', () => this.tell(document.activeElement === this.grid ? this.at : this.selected ?? -1));
    this.grid.addEventListener('click', (e) => {
      const n = numberOf(e);
      if (n < 0) return;
      this.move(n);
      this.opened(n);
    });
    this.grid.addEventListener('focus', () => this.move(this.at));
    this.grid.addEventListener('keydown', (e) => {
      const columns = getComputedStyle(this.grid).gridTemplateColumns.split(' ').length;
      const to = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, ArrowUp: this.at - columns, ArrowDown: this.at + columns, Home: 0, End: this.cells.length - 1 }[e.key];
      if (to !== undefined) this.move(Math.min(this.cells.length - 1, Math.max(0, to)));
      else if (e.key === 'Enter' || e.key === ' ') this.opened(this.at);
      else return;
      e.preventDefault();
    });
  }

  /** Moves the keyboard's cell. */
  move(n) {
    if (!this.cells[n]) return;
    this.cells[this.at]?.classList.remove('at');
    this.at = n;
    const c = this.cells[n];
    c.classList.add('at');
    c.id = `${this.group}-cell-${n}`;
    c.setAttribute('aria-label', this.sentence(n));
    this.grid.setAttribute('aria-activedescendant', c.id);
    c.scrollIntoView({ block: 'nearest' });
    this.tell(n);
  }

  /** Marks the shard whose card is open. */
  select(n) {
    if (this.selected >= 0) this.cells[this.selected]?.removeAttribute('aria-selected');
    this.selected = n;
    this.cells[n]?.setAttribute('aria-selected', 'true');
  }

  draw(board) {
    const n = board.owner.length;
    while (this.cells.length > n) this.cells.pop().remove();
    this.drawn.length = Math.min(this.drawn.length, n);
    const fresh = document.createDocumentFragment();
    while (this.cells.length < n) {
      const c = el('span');
      c.dataset.n = this.cells.length;
      c.setAttribute('role', 'option');
      this.cells.push(c);
      fresh.append(c);
    }
    this.grid.append(fresh);
    for (let s = 0; s < n; s++) {
      const [cls, label] = look(board, s);
      const drawn = cls + label;
      if (this.drawn[s] === drawn) continue; // a thousand cells, of which few change
      this.drawn[s] = drawn;
      const c = this.cells[s];
      c.className = s === this.at && document.activeElement === this.grid ? `${cls} at` : cls;
      c.textContent = label;
    }
    if (this.selected >= 0) this.select(this.selected);
    if (this.shown >= 0) this.tell(this.shown, this.token);
    else this.tell(-1);
  }

  /** What is known of a shard, in the line below the map. Its token is read when somebody stays there. */
  tell(n, token) {
    clearTimeout(this.timer);
    this.shown = n;
    this.token = token;
    const board = this.board();
    if (n < 0 || !board?.owner.length) {
      this.info.replaceChildren(...legend(board));
      return;
    }
    this.info.replaceChildren(el('b', '', `shard ${n}`), ': ', foreign(this.sentence(n)), token ?? '');
    if (token === undefined && board.owner[n]) this.timer = setTimeout(() => this.read(n), settle);
  }

  sentence(n) {
    const { owner, next, unable, stuck, why } = this.board();
    const m = owner[n];
    const parts = [];
    if (m) parts.push(`owned by ${m.id} (${m.letter})`);
    else parts.push(`no owner${next[n] ? `, next ${next[n].id} (${next[n].letter})` : ''}: ${why[n]?.why ?? 'no member reports it'}`);
    if (m && next[n] && next[n] !== m) parts.push(`moves to ${next[n].id} (${next[n].letter})`);
    if (stuck.has(n)) parts.push('stuck for longer than a lease and a half');
    if (unable.has(n)) parts.push('a member has failed at it lately');
    return parts.join(', ');
  }

  async read(n) {
    let label = '';
    try {
      const res = await fetch(`api/shard?election=${encodeURIComponent(`${this.group}/${n}`)}`);
      const { leader } = res.ok ? await res.json() : {};
      if (leader) label = `, token ${leader.token}${leader.for_ms ? `, for ${span(leader.for_ms)}` : ''}`;
    } catch { /* the line of the page tells that the console is gone */ }
    if (this.shown === n) this.tell(n, label);
  }
}

/** A cell: its class and its letter. What is wrong has a sign of its own, not only a colour. */
function look(board, s) {
  const m = board.owner[s];
  const stuck = board.stuck.has(s) ? ' stuck' : '';
  if (!m) return [`none${stuck}`, stuck ? '!' : '×'];
  if (board.next[s] && board.next[s] !== m) return [`c${m.colour} moving${stuck}`, stuck ? '!' : '›'];
  return [`c${m.colour}${board.unable.has(s) ? ' failed' : ''}`, m.letter];
}

function legend(board) {
  if (!board?.owner.length) return ['reading'];
  const none = board.owner.filter((m) => !m).length;
  const moving = board.owner.filter((m, s) => m && board.next[s] && board.next[s] !== m).length;
  return [`A letter is a member; › moves, × has no owner, ! is stuck, underlined: a member has failed at it. `,
    el('span', none ? 'bad' : '', plural(none, 'shard without an owner', 'shards without an owner')), `, ${moving} moving`];
}
