// What the gate has sent so far.

export const state = {
  page: null, started: null, // of the gate that sends
  gate: null, // its state: { name, since, cause }
  live: false, // it still sends
  clock: 0, wall: 0, // the same moment
  seconds: new Map(), newest: -1,
  now: null, containers: [], errors: null, facts: null,
  cursor: null, // number of a second, or null for now
};

// span is how many seconds are kept.
export const span = () => state.facts?.span ?? 300;

// axis is how many seconds the charts show: all since the start, rounded up.
export const axis = () => [15, 30, 60, 120, 180, 240].find((n) => n > state.newest) ?? span();

// seconds returns those that are kept of the last count, oldest first.
export function seconds(count) {
  const list = [];
  for (let n = state.newest - count + 1; n <= state.newest; n++) if (state.seconds.has(n)) list.push(state.seconds.get(n));
  return list;
}

// present is the moment that the newest figures are of.
export const present = () => (state.live ? 'now' : time(state.clock));

// time is the time of day of a moment on the gate's clock, in ms.
export function time(clock) {
  const d = new Date(state.wall - state.clock + clock);
  return [d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => String(n).padStart(2, '0')).join(':');
}
