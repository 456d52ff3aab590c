// Formatted numbers, and elements with text. Texts from the gate are only shown as
// text nodes, never as HTML.

export const $ = (id) => document.getElementById(id);

export const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
export const fine = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
export const number = (v) => (v < 10 && !Number.isInteger(v) ? fine : whole).format(v);

export function bytes(v) {
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) {
    if (v >= size) return `${fine.format(v / size)} ${unit}/s`;
  }
  return `${whole.format(v)} B/s`;
}

export function since(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// ago formats s seconds.
export const ago = (s) => (s % 60 === 0 ? `${s / 60} min` : `${s} s`);

export const plural = (n, word) => `${whole.format(n)} ${word}${n === 1 ? '' : 's'}`;
export const latency = (ms) => (ms > 0 ? duration(ms).join(' ') : '–');

// put changes the text only if it differs, so that screen readers do not repeat it.
export function put(id, text) {
  const node = typeof id === 'string' ? $(id) : id;
  if (node.textContent !== text) node.textContent = text;
}

export function element(name, text, attributes = {}) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  return node;
}

export function compact(v) {
  if (v >= 1e6) return +(v / 1e6).toPrecision(3) + ' M';
  if (v >= 1e4) return +(v / 1e3).toPrecision(3) + ' k';
  return whole.format(v);
}

// duration returns [number, unit] for ms.
export function duration(ms) {
  if (ms >= 10000) return [String(+(ms / 1000).toPrecision(3)), 's'];
  if (ms >= 1000) return [String(+(ms / 1000).toPrecision(2)), 's'];
  if (ms >= 1) return [String(+ms.toPrecision(ms >= 100 ? 3 : 2)), 'ms'];
  return [String(Math.round(ms * 1000)), 'µs'];
}
