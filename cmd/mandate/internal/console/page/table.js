// Which rows there are, in which order, and which of them are open.
import { el, plural, text } from './text.js';
import { Row, groups, head } from './rows.js';

const byName = new Intl.Collator('en', { numeric: true }).compare;
const few = 8; // elections: fewer need no filter

export class Table {
  constructor(root, opened) {
    this.root = root;
    this.rows = new Map();
    this.opened = opened; // called with a name
    this.unfolded = new Set();
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
    body.setAttribute('role', 'rowgroup');
    body.setAttribute('aria-label', name);
    const root = el('div', `group ${key}`, title, body);
    root.setAttribute('role', 'none');
    root.hidden = true;
    const g = { key, root, body, count };
    if (key === 'abandoned') {
      g.fold = el('button', 'fold', 'show');
      g.fold.type = 'button';
      g.fold.setAttribute('aria-expanded', 'false');
      g.fold.addEventListener('click', () => {
        this.unfolded[this.unfolded.has(key) ? 'delete' : 'add'](key);
        this.arrange();
      });
      title.append(' ', g.fold);
    }
    return g;
  }

  row(name) {
    let r = this.rows.get(name);
    if (!r) {
      r = new Row(name, this.opened);
      this.rows.set(name, r);
      this.dirty = true;
    }
    return r;
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
      const folded = Boolean(g.fold) && !this.unfolded.has(key) && !this.want && !all.some((r) => r.panel);
      g.body.hidden = folded;
      g.root.hidden = shown === 0;
      text(g.count, String(shown));
      if (g.fold) {
        text(g.fold, folded ? 'show' : 'hide');
        g.fold.setAttribute('aria-expanded', String(!folded));
      }
    }
    this.head.parentElement.hidden = this.rows.size === 0;
    if (focus !== document.activeElement && focus?.isConnected) focus.focus({ preventScroll: true });
  }

  /** What is wrong, in numbers. */
  summary() {
    const n = { all: 0, without: 0, conflict: 0, paused: 0 };
    for (const r of this.rows.values()) {
      if (!r.row || r.group === 'abandoned') continue;
      n.all++;
      if (r.group === 'vacant') n.without++;
      if (r.group === 'conflict') n.conflict++;
      if (r.row.paused) n.paused++;
    }
    const label = [plural(n.all, 'election', 'elections')];
    if (n.without) label.push(`${n.without} without a leader`);
    if (n.conflict) label.push(`${n.conflict} in conflict`);
    if (n.paused) label.push(`${n.paused} paused`);
    return { label: this.rows.size ? label.join(' · ') : '', bad: n.without + n.conflict };
  }

  many() {
    return this.rows.size > few;
  }
}
