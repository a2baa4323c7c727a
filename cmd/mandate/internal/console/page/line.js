// A line to the console: server-sent events that reconnect, and notice when they are dead.
const deadAfter = 25000; // there is a beat every 10 s

export class Line {
  /** on: handlers by kind of event; state is called with 'live' or 'lost'. */
  constructor(on, state) {
    this.on = on;
    this.state = state;
    setInterval(() => {
      if (this.source?.readyState === EventSource.OPEN && Date.now() - this.lastReceived > deadAfter) {
        this.state('lost');
        this.connect(this.path);
      }
    }, 1000);
  }

  connect(path) {
    this.close();
    this.path = path;
    const mine = new EventSource(path);
    this.source = mine;
    for (const [kind, handle] of Object.entries(this.on)) {
      mine.addEventListener(kind, (e) => {
        if (mine !== this.source) return;
        this.lastReceived = Date.now();
        this.state('live');
        handle(JSON.parse(e.data));
      });
    }
    mine.onopen = () => {
      if (mine !== this.source) return;
      this.lastReceived = Date.now();
      this.state('live');
      this.opened?.();
    };
    mine.onerror = () => {
      if (mine !== this.source) return;
      this.state('lost');
      // A browser gives up after an answer that is no stream: too many viewers.
      if (mine.readyState === EventSource.CLOSED) setTimeout(() => mine === this.source && this.connect(path), 5000);
    };
  }

  close() {
    this.source?.close();
    this.source = null;
  }
}
