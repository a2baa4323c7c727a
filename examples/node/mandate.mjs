// Lead an election from Node, beside `mandate serve`. No packages: copy this file.
//
//   await leader("orders", async (term) => {        // runs whenever this replica leads, until it throws
//     while (await term.allows(200)) {              // a step of at most 200 ms may begin
//       await step(term.token);                     // send the token along with every write
//     }
//   });
//
//   for await (const event of events()) {           // information only: none permits to work
//     console.log(event.kind, event.candidate);
//   }
//
// As a program: node mandate.mjs ELECTION [URL [PORT]], whose health is served on PORT; or node mandate.mjs --events [URL].

import { createServer } from "node:http";
import { existsSync, openSync, readSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const defaultURL = "http://127.0.0.1:7480";

// now returns milliseconds, on a clock that cannot be set and that also runs while the machine sleeps, where there is
// one: Node's own stands still then. The clock is chosen once, and opened once: two clocks must never be compared, also
// when this process has no file descriptor left.
const uptime = existsSync("/proc/uptime") ? openSync("/proc/uptime") : undefined;
export function now() {
  if (uptime === undefined) return performance.now();
  const text = Buffer.alloc(64);
  return 1000 * parseFloat(text.toString("latin1", 0, readSync(uptime, text, 0, 64, 0))) + 10; // of 10 ms each; the later end
}

// report prints once for each outage why nobody can lead by this URL.
const unusable = new Set(); // the URLs that gave no usable answer, each of which was reported
function report(url, error) {
  if (!unusable.has(url)) console.error(`${url}: no usable answer: ${error.cause ?? error}`);
  unusable.add(url);
}

// Term is the leadership of this replica, under one token.
class Term {
  constructor(election, url) {
    Object.assign(this, { election, url, token: undefined, until: 0, length: 0 });
  }

  // ask requests a promise. Without an answer the last one still holds; a refusal ends it.
  async ask() {
    const sent = now() - 10; // before the request: the promise counts from here; the earlier end
    let body;
    try {
      const answer = await fetch(this.url + "/leader", { signal: AbortSignal.timeout(1000) });
      body = await answer.text();
      if (answer.status !== 200) {
        this.until = 0;
        return;
      }
      body = JSON.parse(body);
      if (typeof body?.valid_for_ms !== "number") throw new Error("it is not mandate's");
    } catch (error) {
      return report(this.url, error);
    }
    unusable.delete(this.url);
    if (body.election !== this.election) {
      throw new Error(`${this.url} campaigns in ${body.election}, not in ${this.election}`);
    }
    if (this.token !== undefined && this.token !== body.token) {
      this.until = 0; // another term: whoever worked under this one must begin anew
      return;
    }
    this.token = body.token;
    this.length = body.valid_for_ms;
    this.until = Math.max(this.until, sent + this.length);
  }

  // allows resolves to whether a step that takes at most so long may begin now. Once false, this term is over.
  async allows(ms) {
    if (now() + Math.max(ms, this.length / 2) > this.until) await this.ask();
    if (now() + ms <= this.until) return true;
    this.until = 0;
    return false;
  }
}

// leader calls work(term) whenever this replica leads, one term after the other, and waiting() meanwhile. work must
// return when allows is false.
export async function leader(election, work, { url = defaultURL, pause = 200, waiting = () => {} } = {}) {
  for (;;) {
    const term = new Term(election, url);
    if (await term.allows(0)) await work(term);
    waiting();
    await sleep(pause);
  }
}

// events yields the events of the election; after each disconnection from the current state on.
export async function* events(url = defaultURL) {
  for (;; await sleep(1000)) {
    // A comment comes every quarter of the lease, at most every 10 s: 25 s of silence are a dead connection.
    const control = new AbortController();
    let timer = setTimeout(() => control.abort(), 25000);
    try {
      let rest = "";
      const answer = await fetch(url + "/events", { signal: control.signal });
      unusable.delete(url + "/events");
      for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
        clearTimeout(timer);
        timer = setTimeout(() => control.abort(), 25000);
        const lines = (rest + bytes).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
      }
    } catch (error) {
      report(url + "/events", error); // and connect again
    } finally {
      clearTimeout(timer);
    }
  }
}

// main is an example of a worker: its progress is its health.
async function main(election, url, port) {
  let progress = performance.now();
  const beat = () => (progress = performance.now());
  createServer((_, res) => res.writeHead(performance.now() - progress < 3000 ? 200 : 503).end()).listen(Number(port ?? 0), "127.0.0.1");
  const work = async (term) => {
    console.log("leads with token", term.token);
    while (await term.allows(100)) {
      await sleep(50); // a step of the work
      beat();
    }
    console.log("lost token", term.token);
  };
  await leader(election, work, { url, waiting: beat });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [first, url, port] = process.argv.slice(2);
  if (first !== "--events") await main(first, url, port);
  for await (const e of events(url)) console.log(e.kind, e.candidate ?? "", e.token ?? "", e.reason ?? "");
}
