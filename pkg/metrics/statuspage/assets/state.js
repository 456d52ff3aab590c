// The data received from the gate.

export const state = {
  page: null, started: null, // of the connected gate
  gate: null, // its state: { name, since, cause }
  live: false, // events arrive
  clock: 0, wall: 0, // the same time on both clocks
  seconds: new Map(), newest: -1,
  now: null, containers: [], errors: null, facts: null,
  cursor: null, // number of a second, or null for now
};

// span is how many seconds are kept.
export const span = () => state.facts?.span ?? 300;

// axis is how many seconds the charts show: rounded up from the time since the start.
export const axis = () => [15, 30, 60, 120, 180, 240].find((n) => n > state.newest) ?? span();

// seconds returns the kept data of the last count seconds, oldest first.
export function seconds(count) {
  const list = [];
  for (let n = state.newest - count + 1; n <= state.newest; n++) if (state.seconds.has(n)) list.push(state.seconds.get(n));
  return list;
}

// present is the time of the newest data.
export const present = () => (state.live ? 'now' : time(state.clock));

// time returns the time of day for a time on the gate's clock in ms.
export function time(clock) {
  const d = new Date(state.wall - state.clock + clock);
  return [d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => String(n).padStart(2, '0')).join(':');
}
