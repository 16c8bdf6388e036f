// The connection to the feed: connects again after a break, says when what is shown is stale, and
// ends while the page is hidden, so that a page that nobody looks at costs nothing.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10000;
const STALE_AFTER = 5000;
const HIDDEN_AFTER = 15000;

export class Feed {
  constructor(model, told) {
    this.model = model;
    this.told = told;
    this.wait = FIRST_WAIT;
    this.heard = Date.now();
    this.state = "connecting";
    this.connect();
    setInterval(() => this.check(), 1000);
    document.addEventListener("visibilitychange", () => this.hidden());
  }

  connect() {
    clearTimeout(this.again);
    this.source?.close();
    const source = (this.source = new EventSource("feed"));
    source.addEventListener("begin", () => {
      this.model.clear();
      this.wait = FIRST_WAIT;
      this.hear();
    });
    source.addEventListener("frame", (event) => {
      this.model.apply(JSON.parse(event.data));
      this.hear();
    });
    source.addEventListener("glance", (event) => {
      this.model.glance = JSON.parse(event.data);
      this.model.version += 1;
      this.hear();
    });
    source.onerror = () => {
      if (source !== this.source) return;
      source.close();
      this.to("lost");
      this.again = setTimeout(() => this.connect(), this.wait * (0.75 + Math.random() / 2));
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    };
  }

  hear() {
    this.heard = Date.now();
    this.to("live");
  }

  check() {
    if (this.state === "live" && Date.now() - this.heard > STALE_AFTER) this.to("stale");
    else if (this.state !== "live") this.told();
  }

  to(state) {
    this.state = state;
    this.told();
  }

  hidden() {
    clearTimeout(this.rest);
    if (document.hidden) {
      this.rest = setTimeout(() => {
        clearTimeout(this.again);
        this.source.close();
        this.to("paused");
      }, HIDDEN_AFTER);
    } else if (this.state === "paused") this.connect();
  }

  quiet() {
    return Math.round((Date.now() - this.heard) / 1000);
  }
}
