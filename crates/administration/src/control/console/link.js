// Connection to the target: one stream of events, and requests beside it. It reports its state, and connects again by itself.

// A stream that says nothing for this long has lost its target, whatever TCP thinks of it.
const SILENCE_MS = 10000;
const PAUSE_MS_MAX = 10000;
// No event is as large; what is would be something else than a target.
const EVENT_CHARACTERS_MAX = 16 << 20;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// An answer that is a refusal: its status, and the line that says why and what to do.
export class Refused extends Error {
  constructor(status, line) {
    super(line);
    this.status = status;
  }
}

export class Link {
  // `receive(name, data)` is called with each event; `is(state, line)` with each state of the connection: connecting, live,
  // lost, busy, resting, or stranger.
  constructor(receive, is) {
    this.receive = receive;
    this.is = is;
    this.token = sessionStorage.getItem("token");
    this.round = 0;
    this.rests = false;
  }

  // Connects again with this token; without one if the connection identifies the user.
  start(token) {
    this.token = token;
    if (token) sessionStorage.setItem("token", token);
    this.rests = false;
    this.follow(++this.round);
  }

  // Ends the stream until it is started again.
  rest() {
    this.rests = true;
    this.round += 1;
    this.abort?.abort();
    this.is("resting", "Disconnected while the page is hidden");
  }

  forget() {
    sessionStorage.removeItem("token");
    this.token = null;
    this.round += 1;
    this.abort?.abort();
  }

  // Asks for something else than to be shown something.
  send(method, path, body) {
    return this.ask(path, undefined, body === undefined ? { method } : { method, body: JSON.stringify(body) });
  }

  async ask(path, signal, how = {}) {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    const options = { ...how, headers, signal, cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" };
    const response = await fetch(path, options);
    if (response.ok) return response;
    let line = `the target answers with status ${response.status}`;
    try {
      const refusal = await response.json();
      const what = refusal.field ? `${refusal.field}: ${refusal.error}` : refusal.error;
      line = refusal.hint ? `${what}; ${refusal.hint}` : what;
    } catch {
      // The status says enough.
    }
    throw new Refused(response.status, line);
  }

  // A picture, as elements that are in no page. A browser that lets no text become markup reads none but what it fetches itself.
  picture(path) {
    return new Promise((done, failed) => {
      const request = new XMLHttpRequest();
      request.open("GET", path);
      request.responseType = "document";
      if (this.token) request.setRequestHeader("Authorization", `Bearer ${this.token}`);
      request.onload = () => {
        const root = request.status === 200 ? request.responseXML?.documentElement : null;
        if (root) done(root);
        else failed(new Refused(request.status, "the target has no picture"));
      };
      request.onerror = () => failed(new Error("no response"));
      request.send();
    });
  }

  async follow(round) {
    this.is("connecting", "Connecting");
    let failures = 0;
    while (round === this.round) {
      const began = Date.now();
      try {
        await this.view(round);
        // The target ends each stream after a minute; the next one begins at once.
        failures = 0;
        continue;
      } catch (error) {
        if (round !== this.round) return;
        if (error instanceof Refused) {
          if (error.status === 401 || error.status === 403) return this.is("stranger", error.message);
          this.is("busy", error.message);
          await pause(error.status === 429 ? 1000 : PAUSE_MS_MAX);
          continue;
        }
        // A stream that had worked for a while is requested again at once.
        failures = Date.now() - began > SILENCE_MS ? 1 : failures + 1;
        this.is("lost", "The target does not respond; retrying");
      }
      await pause(Math.min(PAUSE_MS_MAX, 250 * 2 ** failures));
    }
  }

  // Looks until the stream ends.
  async view(round) {
    const abort = new AbortController();
    this.abort = abort;
    let watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
    try {
      const response = await this.ask("/v1/live", abort.signal);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || round !== this.round) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
        text += value;
        if (text.length > EVENT_CHARACTERS_MAX) throw new Error("an event is too large");
        text = this.events(text);
      }
    } finally {
      clearTimeout(watchdog);
      abort.abort();
    }
  }

  // Takes whole events off the text, and gives back the rest.
  events(text) {
    const parts = text.split("\n\n");
    const rest = parts.pop();
    for (const part of parts) {
      const match = /^event: (\w+)\ndata: (.*)$/.exec(part);
      if (!match) continue;
      this.is("live", "Live");
      this.receive(match[1], JSON.parse(match[2]));
    }
    return rest;
  }
}
