// The connection to the stream of events, and its state.
//
//   from        on                                            to
//   any         an event                                      live
//   any         no connection, or SILENCE without an event    gone
//   live        an answer that is no stream                   gone
//   any other   an answer that is no stream                   full
//   any         HIDDEN without being visible                  paused
//   paused      visible again                                 connecting

const RETRY = 2000; // ms, after errors for which the browser does not reconnect
const SILENCE = 4000; // ms; events come each second
const HIDDEN = 30000; // ms that a hidden page stays connected

export class Link {
  // receive is called for each event. changed is called after receive, when the state
  // changes, and each second in the state gone.
  constructor(receive, changed) {
    Object.assign(this, { receive, changed, state: 'connecting', source: null });
    setInterval(() => this.check(), 1000);
    document.addEventListener('visibilitychange', () => this.show(!document.hidden));
    this.connect();
  }

  enter(next) {
    this.state = next;
    this.changed();
  }

  connect() {
    clearTimeout(this.retry);
    this.source?.close();
    this.latest = performance.now(); // time of the last event or connection attempt
    const source = this.source = new EventSource('events');
    source.onmessage = (event) => {
      this.latest = performance.now();
      this.receive(JSON.parse(event.data));
      this.enter('live');
    };
    source.onerror = () => {
      if (this.source !== source) return;
      const answered = source.readyState === EventSource.CLOSED;
      if (answered) this.retry = setTimeout(() => this.connect(), RETRY); // the browser does not reconnect
      this.enter(answered && this.state !== 'live' ? 'full' : 'gone');
    };
  }

  check() {
    const silent = this.source !== null && performance.now() - this.latest > SILENCE;
    if (this.state === 'gone' || this.state !== 'full' && silent) this.enter('gone');
  }

  show(visible) {
    clearTimeout(this.hiding);
    if (visible && this.source === null) {
      this.connect();
      this.enter('connecting');
    } else if (!visible) {
      this.hiding = setTimeout(() => this.pause(), HIDDEN);
    }
  }

  pause() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
    this.enter('paused');
  }
}
