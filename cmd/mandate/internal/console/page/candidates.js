// What the candidates of an election are able to do.
/** What a candidate's health looks like, as the commands print it. */
export function healthOf(c) {
  if (c.unresponsive_ms) return ['bad', 'unresponsive'];
  if (c.unable) return ['bad', 'unable'];
  if (!c.healthy) return ['bad', 'unhealthy'];
  return c.rest_ms || c.role === 'resting' ? ['warn', 'rests'] : ['ok', 'ok'];
}

/** Whether leadership can be handed to a candidate. */
export function heir(c) {
  return c.role === 'following' && c.able && !c.unresponsive_ms;
}
