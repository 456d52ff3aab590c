// The charts: canvases with a common time axis and cursor. The page also shows their
// data as text.

import { $, compact, duration } from './text.js';

const INSET = 8; // px to the right of the newest second, for its label to breathe

export class Charts {
  // model() returns { first, span, seconds, rows, limit, capacity, containers,
  // cursor, known }.
  constructor(model, onCursor) {
    this.model = model;
    this.plots = {
      'chart-concurrency': (p, m) => this.concurrency(p, m),
      'chart-queue': (p, m) => this.queue(p, m),
      'chart-latency': (p, m) => this.latency(p, m),
      'chart-refused': (p, m) => this.troubles(p, m, 'refused', 'warn'),
      'chart-failed': (p, m) => this.troubles(p, m, 'failed', 'bad'),
      'chart-readiness': (p, m) => this.readiness(p, m),
    };
    for (const id of Object.keys(this.plots)) {
      const canvas = $(id);
      canvas.addEventListener('pointermove', (e) => onCursor(this.secondAt(canvas, e)));
      canvas.addEventListener('pointerdown', (e) => onCursor(this.secondAt(canvas, e)));
      canvas.addEventListener('pointerleave', (e) => { if (e.pointerType === 'mouse') onCursor(null); });
    }
    this.readColors();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { this.readColors(); this.draw(); });
    new ResizeObserver(() => this.draw()).observe($('charts'));
  }

  readColors() {
    const style = getComputedStyle(document.documentElement);
    this.color = (name) => style.getPropertyValue('--' + name).trim();
    const stops = ['heat-0', 'heat-1', 'heat-2'].map((n) => rgb(this.color(n)));
    this.ramp = Array.from({ length: 33 }, (_, i) => {
      const t = (i / 32) * 2;
      const [a, b] = t < 1 ? [stops[0], stops[1]] : [stops[1], stops[2]];
      return `rgb(${a.map((x, k) => Math.round(x + (b[k] - x) * (t < 1 ? t : t - 1))).join(' ')})`;
    });
  }

  left() {
    return parseFloat(getComputedStyle(document.documentElement).fontSize) *
      parseFloat(this.color('left'));
  }

  secondAt(canvas, event) {
    const box = canvas.getBoundingClientRect();
    const left = this.left();
    const width = box.width - left - INSET;
    const m = this.model();
    const i = Math.floor(((event.clientX - box.left - left) / width) * m.span);
    return i < 0 || i >= m.span ? null : m.first + i;
  }

  draw() {
    const m = this.model();
    for (const [id, plot] of Object.entries(this.plots)) {
      const canvas = $(id);
      const width = canvas.clientWidth;
      const height = canvas.clientHeight;
      if (width === 0) continue;
      const scale = window.devicePixelRatio || 1;
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      const ctx = canvas.getContext('2d');
      ctx.scale(scale, scale);
      ctx.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
      const left = this.left();
      const w = width - left - INSET;
      // Round to device pixels, so that there are no gaps between seconds.
      const x = (i) => Math.round((left + (i / m.span) * w) * scale) / scale;
      const p = { ctx, left, w, width, height, x, px: 1 / scale };
      this.ground(p, m);
      plot(p, m);
      this.cursor(p, m);
    }
  }

  cursor({ ctx, x, height, px }, m) {
    if (m.cursor === null || m.cursor < m.first) return;
    const i = m.cursor - m.first;
    ctx.fillStyle = this.color('ink');
    ctx.globalAlpha = 0.75;
    ctx.fillRect((x(i) + x(i + 1)) / 2, 0, Math.max(1, px), height);
    ctx.globalAlpha = 1;
  }

  // ground draws the lines of the time axis, and marks the time before the gate's
  // start.
  ground({ ctx, left, w, x, height }, m) {
    ctx.fillStyle = this.color('before');
    const start = m.known ? x(Math.max(-m.first, 0)) : left + w;
    ctx.fillRect(left, 0, start - left, height);
    ctx.fillStyle = this.color('hair');
    for (const n of ticks(m.span)) ctx.fillRect(x(m.span - n), 0, 1, height);
  }

  label({ ctx, left }, text, y) {
    ctx.fillStyle = this.color('quiet');
    ctx.textAlign = 'right';
    ctx.textBaseline = 'middle';
    ctx.fillText(text, left - 6, y);
  }

  // amounts draws grid lines for a scale from 0 to top. It returns a function from a
  // value to its y coordinate.
  amounts(p, m, top) {
    const y = (v) => p.height - 6.5 - (v / top) * (p.height - 14);
    for (const v of p.height < 60 ? [0, top] : [0, top / 2, top]) {
      p.ctx.fillStyle = this.color('hair');
      p.ctx.fillRect(p.left, Math.round(y(v)), p.w, 1);
      this.label(p, compact(v), y(v));
    }
    return y;
  }

  area(p, m, y, value, color) {
    p.ctx.fillStyle = color;
    for (let i = 0; i < m.span; i++) {
      const s = m.seconds.get(m.first + i);
      const v = s ? value(s) : 0;
      if (v > 0) p.ctx.fillRect(p.x(i), Math.min(y(v), y(0) - 2), p.x(i + 1) - p.x(i), Math.max(y(0) - y(v), 2));
    }
  }

  steps(p, m, y, value, color, dash = [], width = 1.5) {
    const { ctx } = p;
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.setLineDash(dash);
    ctx.beginPath();
    let drawing = false;
    for (let i = 0; i < m.span; i++) {
      const s = m.seconds.get(m.first + i);
      const v = s ? value(s) : null;
      if (v === null) { drawing = false; continue; }
      ctx[drawing ? 'lineTo' : 'moveTo'](p.x(i), y(v));
      ctx.lineTo(p.x(i + 1), y(v));
      drawing = true;
    }
    ctx.stroke();
    ctx.setLineDash([]);
  }

  bound(p, y, value) {
    const { ctx } = p;
    ctx.strokeStyle = this.color('limit');
    ctx.lineWidth = 1.5;
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(p.left, y(value));
    ctx.lineTo(p.left + p.w, y(value));
    ctx.stroke();
    ctx.setLineDash([]);
  }

  concurrency(p, m) {
    const most = peak(m, (s) => Math.max(s.concurrency, s.inFlight));
    const near = m.limit > 0 && m.limit <= Math.max(4 * most, 4);
    const top = nice(Math.max(most, near ? m.limit : 0));
    const y = this.amounts(p, m, top);
    this.area(p, m, y, (s) => s.concurrency, this.color('area'));
    this.steps(p, m, y, (s) => (s.inFlight > 0 || s.concurrency > 0 ? s.inFlight : null), this.color('line'));
    $('limit-key').hidden = !near;
    if (near) this.bound(p, y, m.limit);
    if (m.known && m.first < -m.span / 4) this.text(p, 'before the start', p.left + 8, 18, 'left');
  }

  queue(p, m) {
    const most = peak(m, (s) => s.queue);
    const near = m.capacity > 0 && most > 0 && m.capacity <= 4 * most;
    const y = this.amounts(p, m, nice(Math.max(most, near ? m.capacity : 0)));
    this.area(p, m, y, (s) => s.queue, this.color('queue'));
    $('capacity-key').hidden = !near;
    if (near) this.bound(p, y, m.capacity);
  }

  latency(p, m) {
    const { ctx, x } = p;
    const n = m.rows.length + 1; // the last row has no upper bound
    if (n < 2) return;
    let most = 0;
    let [lowest, highest] = [n, -1]; // rows with requests
    for (let i = 0; i < m.span; i++) {
      const heat = m.seconds.get(m.first + i)?.heat ?? [];
      for (let k = 0; k < heat.length; k += 2) {
        most = Math.max(most, heat[k + 1]);
        lowest = Math.min(lowest, heat[k]);
        highest = Math.max(highest, heat[k]);
      }
    }
    // Rows are logarithmic.
    const rowOf = (ms) => Math.min(Math.max(Math.log2(ms / m.rows[0]) + 1, 0), n);
    const [low, high] = decades(m.rows, lowest, highest);
    const [bottom, top] = [rowOf(low), rowOf(high)];
    const rowHeight = (p.height - 14) / (top - bottom);
    const yOfRow = (row) => p.height - 7 - (Math.min(Math.max(row, bottom), top) - bottom) * rowHeight;
    const yOf = (row) => Math.round(yOfRow(row) / p.px) * p.px;
    const y = (ms) => yOfRow(rowOf(ms));
    for (let i = 0; i < m.span; i++) {
      const heat = m.seconds.get(m.first + i)?.heat ?? [];
      for (let k = 0; k < heat.length; k += 2) {
        const t = Math.log1p(heat[k + 1]) / Math.log1p(most);
        ctx.fillStyle = this.ramp[Math.round(t * 32)];
        const edge = yOf(heat[k] + 1);
        ctx.fillRect(x(i), edge, x(i + 1) - x(i), yOf(heat[k]) - edge);
      }
    }
    for (let ms = low; ms < high * 2; ms *= 10) {
      ctx.fillStyle = this.color('quiet');
      ctx.globalAlpha = 0.25;
      ctx.fillRect(p.left, Math.round(y(ms)), p.w, 1);
      ctx.globalAlpha = 1;
      this.label(p, duration(ms).join(' '), y(ms));
    }
    for (const [name, dash] of [['p50', [5, 3]], ['p99', [2, 2]]]) {
      const value = (s) => (s[name] > 0 ? s[name] : null);
      ctx.globalAlpha = 0.5; // an outline, through which the cells are visible
      this.steps(p, m, y, value, this.color('surface'), [], 2.5);
      ctx.globalAlpha = 1;
      this.steps(p, m, y, value, this.color(name), dash, 1);
    }
    if (most === 0 && m.known) this.empty(p, 'no request has ended in this time');
  }

  troubles(p, m, name, color) {
    const most = peak(m, (s) => s[name]);
    const y = this.amounts(p, m, nice(most));
    this.area(p, m, y, (s) => s[name], this.color(color));
    if (most === 0 && m.known) this.empty(p, 'none');
  }

  readiness(p, m) {
    const { ctx, left, w } = p;
    const lane = p.height / Math.max(m.containers.length, 1);
    m.containers.forEach((c, index) => {
      const top = index * lane + 3;
      const h = lane - 6;
      for (const part of parts(c, m)) {
        const a = Math.max(left, left + ((part.from - m.fromClock) / (m.span * 1000)) * w);
        const b = Math.min(left + w, left + ((part.to - m.fromClock) / (m.span * 1000)) * w);
        if (b <= a) continue;
        ctx.fillStyle = this.pattern(ctx, part.state);
        ctx.fillRect(a, top, Math.max(b - a, 2), h);
      }
      this.label(p, m.containers.length > 1 ? String(index + 1) : '', top + h / 2);
    });
    if (m.containers.length === 0 && m.known) this.empty(p, 'not probed');
  }

  // pattern also distinguishes states without colour: plain, slanted, upright.
  pattern(ctx, state) {
    const fill = this.color({ ready: 'good-fill', failing: 'warn-fill', down: 'bad-fill' }[state] ?? 'none-fill');
    if (state !== 'failing' && state !== 'down') return fill;
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const t = tile.getContext('2d');
    t.fillStyle = fill;
    t.fillRect(0, 0, 6, 6);
    t.strokeStyle = this.color(state === 'failing' ? 'warn' : 'bad');
    t.lineWidth = 1.5;
    t.beginPath();
    for (const d of state === 'failing' ? [-6, 0, 6] : []) { t.moveTo(d, 6); t.lineTo(d + 6, 0); }
    if (state === 'down') { t.moveTo(3, 0); t.lineTo(3, 6); }
    t.stroke();
    return ctx.createPattern(tile, 'repeat');
  }

  empty(p, text) {
    const room = p.ctx.measureText(text).width + 16;
    p.ctx.fillStyle = this.color('surface');
    p.ctx.fillRect(p.left + (p.w - room) / 2, p.height / 2 - 9, room, 18);
    this.text(p, text, p.left + p.w / 2, p.height / 2, 'center');
  }

  text({ ctx }, text, x, y, align) {
    ctx.fillStyle = this.color('quiet');
    ctx.textAlign = align;
    ctx.textBaseline = 'middle';
    ctx.fillText(text, x, y);
  }
}

// ticks returns the positions of grid lines, in seconds before now.
export function ticks(span) {
  const step = [5, 10, 15, 30].find((s) => span / s <= 4) ?? 60;
  return Array.from({ length: span / step + 1 }, (_, i) => span - i * step);
}

// parts returns the time spans of a container's states, in ms on the gate's clock.
export function parts(container, m) {
  const spans = [];
  let from = Math.max(m.fromClock, 0); // the gate started at 0
  const changes = container.changes;
  let state = changes.length > 0 ? changes[0].from : container.state;
  for (const c of changes) {
    if (c.at > from) spans.push({ from, to: c.at, state });
    from = Math.max(from, c.at);
    state = c.to;
  }
  spans.push({ from, to: m.toClock, state });
  return spans;
}

function peak(m, value) {
  let most = 0;
  for (let i = 0; i < m.span; i++) {
    const s = m.seconds.get(m.first + i);
    if (s) most = Math.max(most, value(s));
  }
  return most;
}

// decades returns the range of the latency axis in ms: at least two whole decades,
// which contain all rows with requests.
function decades(rows, lowest, highest) {
  if (highest < 0) return [1, 1000];
  let low = Math.floor(Math.log10(rows[lowest - 1] ?? 0.01));
  let high = Math.ceil(Math.log10(rows[highest] ?? 1e5));
  if (high - low < 2) [low, high] = rows[highest] > 3 * 10 ** low ? [low, high + 1] : [low - 1, high];
  return [10 ** low, 10 ** high];
}

// nice returns an even round number of at least v.
function nice(v) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(v, 2)));
  return [1, 1.2, 1.6, 2, 3, 4, 6, 8, 10].map((k) => Math.round(k * unit)).find((k) => k >= v && k >= 2 && k % 2 === 0);
}

function rgb(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}
