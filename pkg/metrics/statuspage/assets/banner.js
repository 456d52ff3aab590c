// The banner: the state of the gate, or why it is unknown.

import { state, time } from './state.js';
import { $, put, since } from './text.js';

const WARNING = 'M8 1.800l6.800 12.200H1.200zM8 6.200v4M8 11.500v1'; // a triangle

// Name, severity, icon and note for each state.
const STATES = {
  connecting: { word: 'Connecting', level: 'idle', icon: 'M8 2a6 6 0 1 1-4.300 1.800' },
  starting: { word: 'Starting', level: 'warn', icon: 'M8 2a6 6 0 1 1-4.300 1.800M8 5v3.500l2.500 1.500',
    note: 'Probes are answered with 503. Requests wait until the container accepts connections.' },
  ready: { word: 'Ready', level: 'good', icon: 'M2.500 8.500l3.700 3.700L13.500 4.500' },
  failing: { word: 'Ready', level: 'warn', icon: WARNING }, // ready with a cause
  overloaded: { word: 'Overloaded', level: 'bad', icon: WARNING,
    note: 'There are more requests than the concurrency limit (CONTAINER_CONCURRENCY) and the queue (QUEUE_CAPACITY) admit.' },
  'not-ready': { word: 'Not ready', level: 'bad', icon: 'M3 3l10 10M13 3L3 13',
    note: 'Probes are answered with 503. Requests are still forwarded to the container, and fail while it does not listen.' },
  draining: { word: 'Draining', level: 'warn', icon: 'M8 1.500v8M4.500 6.500L8 10l3.500-3.500M2.500 14h11',
    note: 'Probes are answered with 503. Requests are served until none has arrived for a while, then the gate ends.' },
  ended: { word: 'Ended', level: 'idle', icon: 'M3.500 3.500h9v9h-9z', note: 'The gate has ended after its drain. The page waits for the next one.' },
  gone: { word: 'No answer', level: 'bad', icon: 'M8 1.800a6.200 6.200 0 1 1-.010 0M3.700 12.300l8.600-8.600',
    note: 'The gate does not answer. The page keeps trying; all figures are from before.' },
  full: { word: 'Not connected', level: 'idle', icon: 'M8 1.800a6.200 6.200 0 1 1-.010 0M8 4.500v4.500M8 10.800v1',
    note: 'Eight pages are open already, the most that are served. The page keeps trying.' },
  paused: { word: 'Paused', level: 'idle', icon: 'M5 3v10M11 3v10', note: 'The page was hidden and has disconnected.' },
};

// shownState is the gate's state while the link is live, otherwise the link's state.
function shownState(link) {
  if (link === 'live') return state.gate.name;
  return link === 'gone' && state.gate?.name === 'ended' ? 'ended' : link;
}

let announced = 'connecting';

export function showBanner(link) {
  const name = shownState(link);
  const live = link === 'live';
  const { word, level, icon, note } = STATES[name === 'ready' && state.gate.cause !== '' ? 'failing' : name];
  const began = live ? state.gate.since : state.now === null ? -1 : state.clock;
  const now = live ? state.clock : state.clock + Date.now() - state.wall;
  const cause = live ? state.gate.cause : name === 'gone' && state.gate ? last(state.gate) : '';
  Object.assign($('state').dataset, { state: name, level });
  $('state-icon').setAttribute('d', icon);
  put('state-word', word);
  put('state-since', began < 0 ? '' : live ? `for ${since(now - began)}` : `since ${time(began)}, ${since(now - began)} ago`);
  for (const [id, text] of [['state-cause', cause], ['state-note', note ?? '']]) {
    put(id, text);
    $(id).hidden = text === '';
  }
  document.body.toggleAttribute('data-stale', !live && state.now !== null);
  document.title = `${{ bad: '✖ ', warn: '▲ ' }[level] ?? ''}${word} · ${state.facts?.pod || 'queuegate'}`;
  const file = level === 'bad' ? 'icon-bad.svg' : 'icon.svg';
  if ($('icon').getAttribute('href') !== file) $('icon').setAttribute('href', file);
  if (announced !== name && !(announced === 'connecting' && name === 'ready')) announce(`${word}${cause ? ': ' + cause : ''}.`);
  announced = name;
}

// last describes the last known state.
function last({ name, cause }) {
  return `it was ${STATES[name].word.toLowerCase()}${cause ? ', ' + cause : ''}`;
}

export function announce(text) { $('announce').textContent = text; }
