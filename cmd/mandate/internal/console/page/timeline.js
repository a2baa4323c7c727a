// The time line of an election: who led when, and where a term ended badly.
import { attr, el, moment, span, text, whole } from './text.js';

const leastLabel = 34; // px: less room for a name is none
const atMost = 12; // terms: more would only be stripes
const least = 10000; // ms

/** Ends that were not intended, and terms beside another leader's. */
export function bad(term) {
  if (term.overlaps) return true;
  return !term.current && !['shutdown', 'resigned', 'handover', 'finished'].includes(term.reason);
}

export class Timeline {
  constructor() {
    this.track = el('div', 'track');
    this.axis = [el('span'), el('span')];
    const axis = el('div', 'axis num', ...this.axis);
    this.root = el('div', 'timeline', this.track, axis);
    this.root.setAttribute('role', 'img');
    this.blocks = new Map();
  }

  /** Draws the terms, newest first, as they are at a moment, or as they were at it: frozen. */
  draw(terms, now, colour, frozen) {
    const known = terms.filter((t) => t.from);
    const oldest = known[Math.min(known.length, atMost) - 1]?.from ?? now;
    const width = Math.max(least, now - oldest);
    const begin = now - width;
    const left = new Set(this.blocks.keys());
    known.forEach((term, i) => {
      const until = term.current ? now : term.until || known[i - 1]?.from || now;
      if (i >= atMost || term.from > now) return;
      left.delete(term.token);
      this.block(term, Math.max(term.from, begin), until, begin, width, colour);
    });
    for (const token of left) {
      this.blocks.get(token).remove();
      this.blocks.delete(token);
    }
    text(this.axis[0], frozen ? moment(begin) : `${whole(width)} ago`);
    text(this.axis[1], frozen ? `as of ${moment(now)}` : 'now');
    const when = frozen ? `of the ${whole(width)} until ${moment(now)}` : `of the last ${whole(width)}`;
    attr(this.root, 'aria-label', `Time line ${when}: ${describe(known.slice(0, atMost))}`);
  }

  block(term, from, until, begin, width, colour) {
    let b = this.blocks.get(term.token);
    if (!b) {
      b = el('div', 'term', el('bdi'));
      this.blocks.set(term.token, b);
      this.track.append(b);
    }
    const end = bad(term) ? ' bad' : term.current ? '' : ' ended';
    const cls = `term c${colour(term.id)}${end}${term.reason === 'vanished' ? ' vanished' : ''}`;
    if (b.className !== cls) b.className = cls;
    b.style.left = `${((from - begin) / width) * 100}%`;
    b.style.width = `${(Math.max(0, until - from) / width) * 100}%`;
    const room = (this.track.clientWidth * (until - from)) / width;
    text(b.firstChild, room < leastLabel ? '' : term.id);
    const ends = term.current ? 'leads' : [term.reason, term.detail].filter(Boolean).join(': ');
    const title = `${term.id}\nfrom ${moment(term.from)}${term.until ? `, for ${span(term.until - term.from)}` : ''}\n${ends}`;
    if (b.title !== title) b.title = title;
  }
}

function describe(terms) {
  if (terms.length === 0) return 'no leader';
  const failed = terms.filter(bad).length;
  return `${terms.length} ${terms.length === 1 ? 'term' : 'terms'}, ${failed} of them ended badly; the table of terms has them all`;
}
