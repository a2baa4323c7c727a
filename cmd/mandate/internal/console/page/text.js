// How times, numbers and elements are written. Foreign text goes through
// textContent alone: see `text`.

/** A span of ms in a few characters, as the command writes it. */
export function span(ms) {
  if (ms < 0) return '-' + span(-ms);
  if (ms < 1) return '<1 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)}h ${two((s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d ${two((s / 3600) % 24)}h`;
}

/** The same without tenths, for what counts up before one's eyes. */
export function whole(ms) {
  return ms < 60000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : span(ms);
}

/** A bound of what is not known exactly, as the command writes it; none: nothing. */
export function atMost(ms) {
  return ms ? `<= ${span(ms)}` : '';
}

function two(n) {
  return String(Math.floor(n)).padStart(2, '0');
}

/** In which zone times are written: the browser's, or UTC. */
export const zone = { utc: false, local: Intl.DateTimeFormat().resolvedOptions().timeZone || 'local time' };

/** When it was, in that zone: the time of day, and the date unless it was today. */
export function moment(ms) {
  const [day, clock] = written(ms);
  return day === written(Date.now())[0] ? clock : `${day.slice(5)} ${clock}`;
}

function written(ms) {
  const ahead = zone.utc ? 0 : -new Date(ms).getTimezoneOffset(); // minutes
  return new Date(ms + ahead * 60000).toISOString().slice(0, 19).split('T');
}

export function plural(n, one, many) {
  return `${n} ${n === 1 ? one : many}`;
}

/** An element with a class and children; strings become text, never markup. */
export function el(tag, cls, ...children) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  e.append(...children);
  return e;
}

/** Foreign text: isolated, so that its direction can't reorder what is around it. */
export function foreign(s, cls) {
  const e = document.createElement('bdi');
  if (cls) e.className = cls;
  e.textContent = s;
  return e;
}

/** Sets text only where it differs: a selection survives. */
export function text(e, s) {
  if (e.textContent !== s) e.textContent = s;
}

export function attr(e, name, value) {
  if (e.getAttribute(name) !== String(value)) e.setAttribute(name, value);
}

const colours = 8;

/** A colour for each candidate of an election: the same in all elections, unless it is taken. */
export class Colours {
  constructor() {
    this.taken = new Map();
  }

  of = (id) => {
    if (!this.taken.has(id)) {
      const taken = new Set(this.taken.values());
      let n = 0;
      for (const c of id) n = (n * 31 + c.codePointAt(0)) % 9973;
      while (taken.size < colours && taken.has(n % colours)) n++;
      this.taken.set(id, n % colours);
    }
    return this.taken.get(id);
  };
}
