// The page: takes events from the gate, keeps five minutes of them, and shows
// them. Texts from the gate go into text nodes only.

import { Charts, parts } from './charts.js';
import { showContainers, showErrors, showFacts, showTable } from './panels.js';
import { state, span, time } from './state.js';
import { $, bytes, duration, element, latency, number, put, since, whole } from './text.js';

const RETRY = 2000; // ms, where the browser does not try again by itself
const HIDDEN = 30000; // ms that a hidden page stays connected

// ---- the stream -----------------------------------------------------------

let source = null;
let retry = 0;

function connect() {
  clearTimeout(retry);
  source?.close();
  source = new EventSource('events');
  source.onmessage = (event) => receive(JSON.parse(event.data));
  source.onerror = () => {
    if (source === null) return;
    link('lost');
    // The browser gives up for good where it got an answer that is no stream.
    if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, RETRY);
  };
}

let hiding = 0;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hiding);
  if (!document.hidden) {
    if (source === null) connect();
    return;
  }
  hiding = setTimeout(() => {
    clearTimeout(retry);
    source?.close();
    source = null;
    link('paused');
  }, HIDDEN);
});

function receive(m) {
  if (state.page !== null && state.page !== m.page) {
    location.reload(); // the gate that answers now brings another page
    return;
  }
  state.page = m.page;
  if (state.started !== null && state.started !== m.started) {
    announce('The gate has started anew.');
    Object.assign(state, { seconds: new Map(), newest: -1, containers: [], cursor: null, started: null });
  }
  state.started ??= m.started;
  state.clock = m.clock;
  state.wall = m.wall;
  state.now = m.now;
  takeSeconds(m.seconds);
  takeContainers(m.containers);
  if (m.errors) state.errors = m.errors;
  if (m.facts) {
    state.facts = m.facts;
    showFacts();
  }
  if (state.gate !== '' && state.gate !== m.state) announce(`The gate is ${m.state}.`);
  state.gate = m.state;
  link('live');
  show();
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
  list.forEach((c, i) => {
    if (before[i] && before[i].state !== c.state) {
      const last = state.containers[i].changes.at(-1);
      announce(`${c.name} is ${c.state}${last?.cause ? ': ' + last.cause : ''}.`);
    }
  });
}

function announce(text) { $('announce').textContent = text; }

function link(to) {
  if (to === 'lost' && state.link === 'live') announce('The gate does not answer.');
  if (to === 'live' && state.link === 'lost') announce('The gate answers again.');
  state.link = to;
  showState();
}

// ---- showing --------------------------------------------------------------

const charts = new Charts(model, (second) => {
  state.cursor = second;
  showCursor();
  charts.draw();
});

function model() {
  const first = state.newest - span() + 1;
  return {
    first, span: span(), seconds: state.seconds, rows: state.facts?.rows ?? [],
    limit: state.now?.limit ?? 0, capacity: state.now?.capacity ?? 0,
    containers: state.containers, cursor: state.cursor,
    fromClock: first * 1000, toClock: Math.min(state.clock, (state.newest + 1) * 1000),
  };
}

function show() {
  showState();
  showNow();
  showContainers();
  showErrors();
  showHistory();
}

function showState() {
  const words = { live: state.gate, lost: 'no answer', paused: 'paused', connecting: 'connecting' };
  put('state-word', words[state.link]);
  $('state').dataset.state = state.link === 'live' ? state.gate : state.link;
  document.body.toggleAttribute('data-stale', state.link === 'lost');
  const notice = {
    lost: state.now === null ? 'The gate does not answer, or eight pages are open already. Trying again.'
      : `The gate has not answered since ${time(state.clock)}. Trying again; the figures are from then.`,
    live: { draining: 'The gate is draining: it serves what comes, tells probes that it is going, and ends when it has been quiet.',
      closing: 'The gate is closing: it waits for the last requests.' }[state.gate],
  }[state.link];
  $('notice').hidden = !notice;
  put('notice', notice ?? '');
  document.title = `${words[state.link]} · ${state.facts?.pod || 'queuegate'}`;
}

function showNow() {
  const { now } = state;
  const s = state.seconds.get(state.newest);
  put('in-flight', number(s?.inFlight ?? 0));
  put('limit', now.limit > 0 ? `of ${whole.format(now.limit)}` : 'no limit');
  put('queue', number(s?.queue ?? 0));
  put('capacity', `of ${whole.format(now.capacity)}`);
  put('rate', number(s?.arrivals ?? 0));
  put('failed', number(s?.failures ?? 0));
  for (const id of ['p50', 'p99']) {
    const [value, unit] = now[id] > 0 ? duration(now[id]) : ['–', ''];
    put(id, value);
    put(id + '-unit', unit);
  }
  for (const [id, v] of [['bytes-in', s?.bytesIn], ['bytes-out', s?.bytesOut]]) {
    const [value, unit] = bytes(v ?? 0);
    put(id, value);
    put(id + '-unit', unit);
  }
  $('limit-key').hidden = now.limit === 0;
  $('capacity-key').hidden = now.capacity === 0;
  $('upstream').hidden = !now.upstream;
  for (const [k, v] of Object.entries(now.upstream ?? {})) put('up-' + k, whole.format(v));
  const outcomes = $('outcomes');
  const shown = (state.facts?.outcomes ?? []).map((name, i) => [name, now.outcomes[i] ?? 0]).filter(([, n]) => n > 0);
  const text = shown.map(([name, n]) => name + n).join();
  if (outcomes.dataset.text !== text) {
    outcomes.dataset.text = text;
    outcomes.replaceChildren(...shown.map(([name, n]) => {
      const row = element('div');
      row.append(element('dt', name), element('dd', whole.format(n)));
      return row;
    }));
  }
  if (shown.length === 0) put(outcomes, 'None has ended yet.');
  const f = state.facts;
  if (f) put('build', `${f.version} · up ${since(state.clock)}`);
}

function showHistory() {
  describe();
  showCursor();
  showTable();
  $('readiness').querySelector('.key').hidden = state.containers.length === 0;
  $('chart-readiness').style.height = `${1.5 * Math.max(1, state.containers.length)}rem`;
  charts.draw();
}

// describe gives each chart its figures as text.
function describe() {
  const list = [...state.seconds.values()];
  const most = (f) => list.reduce((m, s) => Math.max(m, f(s)), 0);
  const sum = (f) => list.reduce((m, s) => m + f(s), 0);
  const s = state.seconds.get(state.newest);
  const say = (id, text) => $(id).setAttribute('aria-label', text);
  say('chart-concurrency', `Concurrency: ${number(s?.concurrency ?? 0)} in the last second, at most ${number(most((x) => x.concurrency))} in five minutes.`);
  say('chart-queue', `Queue depth: ${number(s?.queue ?? 0)} now, at most ${number(most((x) => x.queue))} in five minutes.`);
  say('chart-latency', `Latency of the last seconds: median ${latency(state.now.p50)}, 99th percentile ${latency(state.now.p99)}; slowest second of five minutes ${latency(most((x) => x.p99))}.`);
  say('chart-failures', `Refused or failed: ${whole.format(sum((x) => x.failures))} in five minutes.`);
  const m = model();
  say('chart-readiness', state.containers.map((c) => `${c.name}: ` + parts(c, m)
    .map((p) => `${p.state} for ${since(p.to - p.from)}`).join(', ')).join('. ') || 'No readiness probe is set.');
}

// ---- the cursor -----------------------------------------------------------

$('cursor').addEventListener('input', (event) => {
  const back = Number(event.target.value);
  state.cursor = back === 0 ? null : state.newest + back;
  showCursor();
  charts.draw();
});
$('cursor').addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  state.cursor = null;
  showCursor();
  charts.draw();
});

function showCursor() {
  if (state.cursor !== null && state.cursor <= state.newest - span()) state.cursor = null;
  const n = state.cursor ?? state.newest;
  const s = state.seconds.get(n);
  const slider = $('cursor');
  slider.min = String(1 - span());
  slider.value = String(n - state.newest);
  const when = state.cursor === null ? 'now' : time(n * 1000);
  const m = model();
  const states = state.containers.map((c) => {
    const at = parts(c, m).findLast((p) => p.from < (n + 1) * 1000);
    return `${state.containers.length > 1 ? c.name + ' ' : ''}${at?.state ?? c.state}`;
  });
  const figures = s ? [
    `concurrency ${number(s.concurrency)}`, `in flight ${number(s.inFlight)}`, `queue ${number(s.queue)}`,
    `${number(s.arrivals)} requests/s`, `p50 ${latency(s.p50)}`, `p99 ${latency(s.p99)}`,
    `${number(s.failures)} failed`, ...states,
  ] : [n === state.newest ? 'the first second is not over yet' : 'before the gate started'];
  const text = `${when}: ${figures.join(', ')}`;
  slider.setAttribute('aria-valuetext', state.cursor === null ? 'now' : text);
  const line = $('readout');
  if (line.dataset.text === text) return;
  line.dataset.text = text;
  line.replaceChildren(element('strong', when), ' ' + figures.join(' · '));
}

connect();
