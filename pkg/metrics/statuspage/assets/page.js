// The page: receives events from the gate, keeps five minutes of data, and shows
// them. Texts from the gate are only shown as text nodes, never as HTML.

import { announce, showBanner } from './banner.js';
import { Charts, parts, ticks } from './charts.js';
import { Link } from './link.js';
import { showContainers, showErrors, showFacts, showSettings, showTable } from './panels.js';
import { axis, present, seconds, span, state, time } from './state.js';
import { $, ago, bytes, duration, element, latency, number, plural, put, since, whole } from './text.js';

const TROUBLES = ['refused', 'failed', 'clientErrors'];

function receive(m) {
  if (state.page !== null && state.page !== m.page) {
    location.reload(); // the gate has another version of the page
    return;
  }
  state.page = m.page;
  if (state.started !== null && state.started !== m.started) {
    announce('The gate has started anew.');
    Object.assign(state, { seconds: new Map(), newest: -1, containers: [], cursor: null, started: null });
  }
  state.started ??= m.started;
  Object.assign(state, { clock: m.clock, wall: m.wall, now: m.now, gate: m.state });
  takeSeconds(m.seconds);
  takeContainers(m.containers);
  if (m.errors) state.errors = m.errors;
  if (m.facts) {
    state.facts = m.facts;
    showFacts();
  }
  showSettings(m.live);
  showNow();
  showContainers();
  showErrors();
}

function takeSeconds(columns) {
  const count = columns.arrivals.length;
  for (let i = 0; i < count; i++) {
    const s = {};
    for (const [name, values] of Object.entries(columns)) if (name !== 'first') s[name] = values[i];
    state.seconds.set(columns.first + i, s);
  }
  if (count > 0) state.newest = Math.max(state.newest, columns.first + count - 1);
  for (const n of state.seconds.keys()) if (n <= state.newest - span()) state.seconds.delete(n);
}

function takeContainers(list) {
  const before = state.containers;
  state.containers = list.map((c, i) => ({ ...c, changes: c.changes ?? before[i]?.changes ?? [] }));
}

// ---- showing --------------------------------------------------------------

const charts = new Charts(model, setCursor);

function model() {
  const first = state.newest - axis() + 1;
  return {
    first, span: axis(), seconds: state.seconds, rows: state.facts?.rows ?? [], known: state.now !== null,
    limit: state.now?.limit ?? 0, capacity: state.now?.capacity ?? 0,
    containers: state.containers, cursor: state.cursor,
    fromClock: first * 1000, toClock: Math.min(state.clock, (state.newest + 1) * 1000),
  };
}

function showNow() {
  const { now } = state;
  const s = state.seconds.get(state.newest);
  const depth = s?.queue ?? 0;
  put('in-flight', number(s?.inFlight ?? 0));
  put('limit', now.limit > 0 ? `of ${whole.format(now.limit)}` : 'no limit');
  put('queue', number(depth));
  put('capacity', `of ${whole.format(now.capacity)}`);
  mark('queue', now.capacity > 0 && depth >= now.capacity);
  put('rate', number(s?.arrivals ?? 0));
  const window = now.windows[Number(document.querySelector('#windows :checked').value)];
  const recent = seconds(window.seconds);
  for (const id of TROUBLES) {
    const n = recent.reduce((sum, x) => sum + x[id], 0);
    put(id, whole.format(n));
    mark(id, n > 0);
  }
  for (const id of ['p50', 'p99']) {
    const [value, unit] = window[id] > 0 ? duration(window[id]) : ['–', ''];
    put(id, value);
    put(id + '-unit', unit);
  }
  put('bytes-in', bytes(s?.bytesIn ?? 0));
  put('bytes-out', bytes(s?.bytesOut ?? 0));
  $('upstream').hidden = !now.upstream;
  for (const [k, v] of Object.entries(now.upstream ?? {})) put('up-' + k, whole.format(v));
  showOutcomes();
  const f = state.facts;
  if (f) put('build', `${f.version} · up ${since(state.clock)}`);
}

$('windows').addEventListener('change', () => { if (state.now !== null) showNow(); });

function mark(id, on) { $(id).parentElement.toggleAttribute('data-mark', on); }

function showOutcomes() {
  const outcomes = $('outcomes');
  const shown = (state.facts?.outcomes ?? []).map((name, i) => [name, state.now.outcomes[i] ?? 0]).filter(([, n]) => n > 0);
  const text = shown.length === 0 ? 'none' : shown.map(([name, n]) => name + n).join();
  if (outcomes.dataset.text === text) return;
  outcomes.dataset.text = text;
  const pairs = shown.length === 0 ? [['None has ended yet.', '']] : shown.map(([name, n]) => [name, whole.format(n)]);
  outcomes.replaceChildren(...pairs.map(([name, n]) => {
    const row = element('div');
    row.append(element('dt', name), element('dd', n));
    return row;
  }));
}

function showHistory() {
  put('history-title', `Last ${ago(axis())}`);
  const labels = ticks(axis()).map((n) => (n === 0 ? present() : ago(n)));
  if ($('axis').dataset.text !== labels.join()) {
    $('axis').dataset.text = labels.join();
    $('axis').replaceChildren(...labels.map((text) => element('span', text)));
  }
  describe();
  showCursor();
  showTable();
  $('readiness').querySelector('.key').hidden = state.containers.length === 0;
  $('chart-readiness').style.height = `${1.5 * Math.max(1, state.containers.length)}rem`;
  charts.draw();
}

// describe describes each chart by text.
function describe() {
  const list = seconds(axis());
  const most = (f) => list.reduce((m, s) => Math.max(m, f(s)), 0);
  const sum = (f) => list.reduce((m, s) => m + f(s), 0);
  const s = state.seconds.get(state.newest);
  const within = `in the last ${ago(axis())}`;
  const say = (id, text) => $(id).setAttribute('aria-label', text);
  say('chart-concurrency', `Concurrency: ${number(s?.concurrency ?? 0)} in the last second, at most ${number(most((x) => x.concurrency))} ${within}.`);
  say('chart-queue', `Queue depth: ${number(s?.queue ?? 0)} now, at most ${number(most((x) => x.queue))} ${within}.`);
  say('chart-latency', `Latency of the last seconds: median ${latency(state.now.windows[0].p50)}, 99th percentile ${latency(state.now.windows[0].p99)}; slowest second ${within} ${latency(most((x) => x.p99))}.`);
  say('chart-refused', `Refused: ${whole.format(sum((x) => x.refused))} ${within}.`);
  say('chart-failed', `Failed: ${whole.format(sum((x) => x.failed))} ${within}.`);
  const m = model();
  say('chart-readiness', state.containers.map((c) => `${c.name}: ` + parts(c, m)
    .map((p) => `${p.state} for ${since(p.to - p.from)}`).join(', ')).join('. ') || 'Readiness is not probed.');
}

// ---- the cursor -----------------------------------------------------------

$('cursor').addEventListener('input', (event) => {
  const back = Number(event.target.value);
  setCursor(back === 0 ? null : state.newest + back);
});
$('cursor').addEventListener('keydown', (event) => { if (event.key === 'Escape') setCursor(null); });

function setCursor(second) {
  state.cursor = second;
  showCursor();
  charts.draw();
}

function showCursor() {
  if (state.now === null) return;
  if (state.cursor !== null && state.cursor <= state.newest - axis()) state.cursor = null;
  const n = state.cursor ?? state.newest;
  const s = state.seconds.get(n);
  const slider = $('cursor');
  slider.min = String(1 - axis());
  slider.value = String(n - state.newest);
  const when = state.cursor === null ? present() : time(n * 1000);
  const m = model();
  const states = state.containers.map((c) => {
    const at = parts(c, m).findLast((p) => p.from < (n + 1) * 1000);
    return `${state.containers.length > 1 ? c.name + ' ' : ''}${at?.state ?? c.state}`;
  });
  const figures = s ? [
    `concurrency ${number(s.concurrency)}`, `in flight ${number(s.inFlight)}`, `queue ${number(s.queue)}`,
    `${number(s.arrivals)} requests/s`, `p50 ${latency(s.p50)}`, `p99 ${latency(s.p99)}`,
    `${number(s.refused)} refused`, `${number(s.failed)} failed`, plural(s.clientErrors, 'client error'), ...states,
  ] : [n === state.newest ? 'the first second is not over yet' : 'before the gate started'];
  const text = `${when}: ${figures.join(', ')}`;
  slider.setAttribute('aria-valuetext', state.cursor === null ? present() : text);
  const line = $('readout');
  if (line.dataset.text === text) return;
  line.dataset.text = text;
  line.replaceChildren(element('strong', when), ' ' + figures.join(' · '));
}

const link = new Link(receive, () => {
  state.live = link.state === 'live';
  showBanner(link.state);
  if (state.now !== null) showHistory();
});
