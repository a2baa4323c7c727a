// What the lines of elections and of groups have in common: a name that is a button, and the card that it opens.
import { Colours, el } from './text.js';

export class Item {
  constructor(name, label, open) {
    this.name = name;
    this.group = '';
    this.colours = new Colours();
    this.toggle = el('button', 'toggle', label);
    this.toggle.type = 'button';
    this.toggle.title = name;
    this.toggle.setAttribute('aria-expanded', 'false');
    this.toggle.addEventListener('click', () => open(name));
    this.badge = el('span', 'badge');
    this.strip = el('span', 'strip');
    this.strip.setAttribute('role', 'img');
  }

  /** The line itself, of cells; a class name of the item may follow. */
  build(cells, kind = 'item') {
    this.line = el('div', 'row', ...cells);
    this.line.setAttribute('role', 'row');
    this.root = el('div', kind, this.line);
    this.root.setAttribute('role', 'none');
  }

  /** Shows a card below the line, or none. */
  show(card) {
    this.panel?.remove();
    this.panel = null;
    this.toggle.setAttribute('aria-expanded', String(Boolean(card)));
    this.root.classList.toggle('open', Boolean(card));
    if (!card) return;
    const inner = el('div', 'opened', card.root);
    inner.setAttribute('role', 'cell');
    this.panel = el('div', '', inner);
    this.panel.setAttribute('role', 'row');
    this.root.append(this.panel);
    this.toggle.setAttribute('aria-controls', card.id);
  }
}
