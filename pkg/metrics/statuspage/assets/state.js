// What the gate has told so far.

export const state = {
  page: null, started: null, link: 'connecting', gate: '',
  clock: 0, wall: 0, // the same moment
  seconds: new Map(), newest: -1,
  now: null, containers: [], errors: { total: 0, list: [] }, facts: null,
  cursor: null, // number of a second, or null for now
};

// span is how many seconds are kept.
export const span = () => state.facts?.span ?? 300;

// time is the time of day of a moment on the gate's clock, in ms.
export function time(clock) {
  const d = new Date(state.wall - state.clock + clock);
  return [d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => String(n).padStart(2, '0')).join(':');
}
