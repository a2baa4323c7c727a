// Which rows there are, in which order, and which of them are open.
import { el, plural, text } from './text.js';
import { Row, groups, head } from './rows.js';
import { GroupRow, heads as groupHeads } from './shards.js';

const byName = new Intl.Collator('en', { numeric: true }).compare;
const few = 8; // elections: fewer need no filter
const dense = 24; // elections that are well: more are tiles, of which many stand in a line
const folded = 400; // and of so many only the number is shown
const foldedOnPhone = 40;
const phone = matchMedia('(max-width: 560px)');

export class Table {
  constructor(root, opened) {
    this.root = root;
    this.rows = new Map();
    this.opened = opened; // called with a name
    this.turned = new Set(); // what was folded by hand, or unfolded
    this.want = '';
    this.dirty = true; // without rows there are no heads
    this.groups = new Map(groups.map(([key, name]) => [key, this.makeGroup(key, name)]));
    this.head = head();
    const heads = el('div', '', this.head);
    heads.setAttribute('role', 'rowgroup');
    root.setAttribute('role', 'table');
    root.setAttribute('aria-label', 'Elections');
    root.append(heads, ...[...this.groups.values()].map((g) => g.root));
  }

  makeGroup(key, name) {
    const count = el('span', 'count');
    const title = el('h2', 'group-name', name, ' ', count);
    const body = el('div', 'rows');
    const ofGroups = key === 'shards' || key === 'unowned';
    body.setAttribute('role', 'rowgroup');
    body.setAttribute('aria-label', name);
    const root = el('div', `group ${key}`, title, ...(ofGroups ? [head(groupHeads)] : []), body);
    root.setAttribute('role', 'none');
    root.hidden = true;
    const g = { key, root, body, count, ofGroups };
    if (['abandoned', 'led', 'degraded'].includes(key)) {
      g.fold = el('button', 'fold', 'show');
      g.fold.type = 'button';
      g.fold.setAttribute('aria-expanded', 'false');
      g.fold.addEventListener('click', () => {
        this.turned[this.turned.has(key) ? 'delete' : 'add'](key);
        this.arrange();
      });
      title.append(' ', g.fold);
    }
    return g;
  }

  row(name, Kind = Row) {
    let r = this.rows.get(name);
    if (!r) {
      r = new Kind(name, this.opened);
      this.rows.set(name, r);
      this.dirty = true;
    }
    return r;
  }

  group(name) {
    return this.row(name, GroupRow);
  }

  remove(name) {
    this.rows.get(name)?.root.remove();
    this.rows.delete(name);
    this.dirty = true;
  }

  filter(want) {
    this.want = want.trim().toLowerCase();
    this.arrange();
  }

  /** Puts each row where it belongs. A row that has the focus keeps it. */
  arrange() {
    this.dirty = false;
    const focus = document.activeElement;
    const members = new Map(groups.map(([key]) => [key, []]));
    for (const r of this.rows.values()) if (r.group) members.get(r.group).push(r);
    for (const [key, all] of members) {
      const g = this.groups.get(key);
      all.sort((a, b) => byName(a.name, b.name));
      let shown = 0;
      let at = g.body.firstChild;
      for (const r of all) {
        if (r.root === at) at = at.nextSibling;
        else g.body.insertBefore(r.root, at);
        r.root.hidden = this.want !== '' && !r.holds(this.want) && !r.panel;
        if (!r.root.hidden) shown++;
      }
      if (key === 'led') {
        g.body.classList.toggle('dense', shown > dense);
        g.body.style.setProperty('--longest', `${Math.max(0, ...all.map((r) => r.name.length))}ch`);
      }
      const many = key === 'abandoned' || all.length > (phone.matches ? foldedOnPhone : folded);
      const isFolded = Boolean(g.fold) && many !== this.turned.has(key) && !this.want && !all.some((r) => r.panel);
      g.body.hidden = isFolded;
      g.root.hidden = shown === 0;
      text(g.count, String(shown));
      if (g.fold) {
        g.fold.hidden = !many && all.length <= dense;
        text(g.fold, isFolded ? 'show' : 'hide');
        g.fold.setAttribute('aria-expanded', String(!isFolded));
      }
    }
    // Tiles, and groups, have no such columns.
    this.head.parentElement.hidden = [...this.groups.values()].every((g) => g.root.hidden || g.body.hidden || g.ofGroups || g.body.classList.contains('dense'));
    if (focus !== document.activeElement && focus?.isConnected) focus.focus({ preventScroll: true });
  }

  /** What is wrong, in numbers. */
  summary() {
    const n = { all: 0, without: 0, conflict: 0, paused: 0, degraded: 0, groups: 0, unowned: 0 };
    for (const r of this.rows.values()) {
      if (!r.row || r.group === 'abandoned') continue;
      if (r instanceof GroupRow) {
        n.groups++;
        n.unowned += r.row.unowned;
        continue;
      }
      n.all++;
      if (r.group === 'vacant') n.without++;
      if (r.group === 'conflict') n.conflict++;
      if (r.row.paused) n.paused++;
      if (r.group === 'degraded') n.degraded++;
    }
    const label = n.all || !n.groups ? [plural(n.all, 'election', 'elections')] : [];
    if (n.groups) label.push(plural(n.groups, 'group', 'groups'));
    if (n.unowned) label.push(`${n.unowned} ${n.unowned === 1 ? 'shard' : 'shards'} without an owner`);
    if (n.without) label.push(`${n.without} without a leader`);
    if (n.conflict) label.push(`${n.conflict} in conflict`);
    if (n.paused) label.push(`${n.paused} paused`);
    if (n.degraded) label.push(`${n.degraded} degraded`);
    return { label: this.rows.size ? label.join(' · ') : '', bad: n.without + n.conflict + n.unowned };
  }

  many() {
    return this.rows.size > few;
  }
}
