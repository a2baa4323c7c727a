// What the candidates of an election are able to do.
import { el, foreign } from './text.js';

/** Nothing but their versions keeps the candidates from leading. */
export function refused(candidates) {
  const campaign = (candidates ?? []).filter((c) => c.role !== 'observing' && !c.unresponsive_ms);
  return campaign.length > 0 && campaign.every((c) => c.outdated);
}

/** An operator's permission for a rollback, while it is in force. */
export function allowance(s) {
  const from = s.allow_older === 'any' ? [] : [' from ', foreign(s.allow_older), ' on'];
  return [el('span', 'warn', 'Versions older than ', foreign(s.version), ' may lead again', ...from), ' (', foreign(s.allowed ?? ''), '). '];
}

/** What a candidate's health looks like, as the commands print it. */
export function healthOf(c) {
  if (c.unresponsive_ms) return ['bad', 'unresponsive'];
  if (c.outdated) return ['warn', 'outdated'];
  if (c.unable) return ['bad', 'unable'];
  if (!c.healthy) return ['bad', 'unhealthy'];
  return c.rest_ms || c.role === 'resting' ? ['warn', 'rests'] : ['ok', 'ok'];
}

/** Whether leadership can be handed to a candidate. */
export function heir(c) {
  return c.role === 'following' && c.able && !c.unresponsive_ms;
}
