// The parts of the page that are text: containers, failures, the table and the
// configuration.

import { state, span, time } from './state.js';
import { $, element, fine, latency, plural, put, since, whole } from './text.js';

const LISTED = { changes: 5, failures: 10 }; // rows of a list that is not expanded

// shorten hides the rows of a list beyond count until its button is pressed.
function shorten(rows, button, count) {
  const open = button.getAttribute('aria-expanded') === 'true';
  rows.forEach((row, i) => { row.hidden = !open && i >= count; });
  button.hidden = rows.length <= count;
  put(button, open ? `Show the last ${count} only` : `Show all ${rows.length}`);
  button.onclick = () => {
    button.setAttribute('aria-expanded', String(!open));
    shorten(rows, button, count);
  };
}

export function showContainers() {
  const box = $('containers');
  if (state.containers.length === 0) {
    box.replaceChildren(element('p', 'Readiness is not probed: the container counts as ready at all times.', { class: 'none' }));
    return;
  }
  if (box.querySelectorAll('.container').length !== state.containers.length) {
    box.replaceChildren(...state.containers.map((c, i) => {
      const card = element('div', undefined, { class: 'container' });
      card.append(element('h3', (state.containers.length > 1 ? `${i + 1} ` : '') + c.name), element('span', '', { class: 'badge' }),
        element('span', '', { class: 'since' }), element('p', '', { class: 'cause' }), element('p', '', { class: 'probes' }),
        element('ol', undefined, { class: 'changes', 'aria-label': `Changes of ${c.name}, newest first` }),
        element('button', '', { class: 'all' }));
      return card;
    }));
  }
  state.containers.forEach((c, i) => {
    const card = box.children[i];
    const last = c.changes.at(-1);
    const badge = card.querySelector('.badge');
    put(badge, c.state);
    badge.dataset.state = c.state;
    put(card.querySelector('.since'), last ? `for ${since(state.clock - last.at)}` : '');
    put(card.querySelector('.cause'), c.cause);
    put(card.querySelector('.probes'), `${c.probe}: ${plural(c.attempts, 'probe')}, ${whole.format(c.reached)} reached the container`);
    const list = card.querySelector('.changes');
    const key = c.changes.map((x) => x.at + x.to).join();
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    list.replaceChildren(...c.changes.toReversed().map((x) => {
      const row = element('li');
      const what = element('div', `${x.to}${x.cause ? ': ' + x.cause : ''} `);
      what.append(element('span', `after ${plural(x.attempts, 'probe')} while ${x.from}`));
      row.append(element('time', time(x.at)), what);
      return row;
    }));
    shorten([...list.children], card.querySelector('.all'), LISTED.changes);
  });
}

export function showErrors() {
  const { refused, failed, clientErrors, list } = state.errors;
  const total = refused + failed + clientErrors;
  put('failures-note', total === 0 ? 'None since the start.'
    : `${whole.format(failed)} failed, ${whole.format(refused)} refused, ${plural(clientErrors, 'client error')} since the start` +
      (total > list.length ? `; ${list.length} are listed, at most 8 a second of one outcome.` : '.'));
  $('failures').hidden = list.length === 0;
  const body = $('failures-body');
  const key = list.length === 0 ? '' : `${total} ${list[0].at} ${state.started}`;
  if (body.dataset.key === key) return;
  body.dataset.key = key;
  body.replaceChildren(...alike(list).map(([x, times]) => {
    const row = element('tr', undefined, { role: 'row', 'data-class': x.class });
    const cell = (text, name = '') => element('td', text, { role: 'cell', class: name });
    const request = cell(x.method === '' ? 'not read' : `${x.method} ${x.path}${x.cut ? '…' : ''}`, 'path');
    const outcome = x.outcome === 'served' ? 'from container' : x.outcome;
    const notes = [times > 1 ? `${times} times` : '', x.more > 0 ? `and ${whole.format(x.more)} more ${outcome}` : ''].filter(Boolean);
    if (notes.length > 0) request.append(' ', element('span', notes.join(' '), { class: 'times' }));
    row.append(cell(time(x.at)), cell(outcome, 'outcome'),
      cell(String(x.status)), request, cell(latency(x.took), 'number'));
    return row;
  }));
  shorten([...body.children], $('failures-all'), LISTED.failures);
}

// alike groups consecutive equal failures of the same second.
function alike(list) {
  const groups = [];
  for (const x of list) {
    const last = groups.at(-1);
    const same = last && time(last[0].at) === time(x.at) &&
      ['outcome', 'status', 'method', 'path'].every((name) => last[0][name] === x[name]);
    if (same) last[1]++;
    else groups.push([x, 1]);
  }
  return groups;
}

$('table').addEventListener('toggle', showTable);

export function showTable() {
  if (!$('table').open) return;
  const rows = [];
  const step = 15;
  for (let to = state.newest; to > state.newest - span(); to -= step) {
    const list = [];
    for (let n = to - step + 1; n <= to; n++) if (state.seconds.has(n)) list.push(state.seconds.get(n));
    if (list.length === 0) break;
    const mean = (f) => list.reduce((m, s) => m + f(s), 0) / list.length;
    const most = (f) => list.reduce((m, s) => Math.max(m, f(s)), 0);
    const row = element('tr');
    row.append(...[
      time(Math.max(to - step + 1, 0) * 1000), fine.format(mean((s) => s.concurrency)), whole.format(most((s) => s.queue)),
      fine.format(mean((s) => s.arrivals)), latency(most((s) => s.p50)), latency(most((s) => s.p99)),
      ...['refused', 'failed', 'clientErrors'].map((name) => whole.format(list.reduce((n, s) => n + s[name], 0))),
    ].map((text) => element('td', text)));
    rows.push(row);
  }
  $('table-body').replaceChildren(...rows);
}

export function showFacts() {
  const f = state.facts;
  put('who', [f.pod, f.revision || f.service, f.namespace].filter(Boolean).join(' · '));
  $('build').title = `commit ${f.commit}, ${f.goVersion}`;
  let all = 0;
  let set = 0;
  let masked = 0;
  $('settings-groups').replaceChildren(...f.settings.map((g) => {
    const group = element('div', undefined, { class: 'group' });
    const list = element('dl');
    for (const s of g.settings) {
      all++;
      const row = element('div');
      if (s.source !== 'default') {
        set++;
        row.className = 'set';
      }
      const value = element('dd', s.value);
      if (s.value === '') value.append(element('small', s.empty ?? 'none'));
      const notes = [s.source === 'default' ? '' : s.source, s.masked ? 'masked' : ''].filter(Boolean);
      if (s.masked) masked++;
      if (notes.length > 0) value.append(' ', element('small', notes.join(', ')));
      const name = element('dt');
      name.append(...s.name.split(/(?<=_)/).flatMap((part) => [part, element('wbr')]));
      row.append(name, value);
      list.append(row);
    }
    group.append(element('h3', g.title), list);
    return group;
  }));
  put('settings-summary', `${all} settings, ${set} not at the default${masked > 0 ? `, ${masked} masked in part` : ''}`);
}

// showSettings shows the state of the live settings.
export function showSettings(live) {
  put('settings-generation', live?.generation > 0 ? `Settings of this service have changed ${plural(live.generation, 'time')} since the start.` : '');
  $('settings-generation').hidden = !(live?.generation > 0);
  put('settings-error', live?.error ? `The latest settings of this service are not in force: ${live.error}` : '');
  $('settings-error').hidden = !live?.error;
}

$('only-set').addEventListener('change', (event) => {
  $('settings-groups').classList.toggle('only-set', event.target.checked);
});
