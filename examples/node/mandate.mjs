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
// A promise is to the machine, not to the process: all workers of a cluster would lead. Let one process of the machine
// call leader: start it with `flock /run/lock/orders node worker.mjs`, or by `mandate run`.
//
// As a program: node mandate.mjs ELECTION [URL [PORT]], whose health is served on PORT; or node mandate.mjs --events [URL].

import http from "node:http";
import https from "node:https";
import { existsSync, openSync, readSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const defaultURL = "http://127.0.0.1:7480";

// get resolves to an answer. fetch, and the agents of all others, may ask a proxy, and follow redirects: another server's
// answer is no promise.
const direct = { "http:": [http, new http.Agent()], "https:": [https, new https.Agent()] };
function get(url, signal) {
  const [by, agent] = direct[new URL(url).protocol];
  return new Promise((resolve, reject) => by.get(url, { agent, signal }, (answer) => resolve(answer.setEncoding("utf8"))).on("error", reject));
}

// whole returns whether a value is a number that mandate sends: an integer that is exact in every language.
const whole = (number, least) => Number.isSafeInteger(number) && number >= least;

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
      const answer = await get(this.url + "/leader", AbortSignal.timeout(1000));
      let text = "";
      for await (const part of answer) text += part;
      if (answer.statusCode !== 200) {
        this.until = 0;
        return;
      }
      body = JSON.parse(text);
      if (typeof body?.election !== "string" || !whole(body.token, 1) || !whole(body.valid_for_ms, 0)) throw new Error("it is not mandate's");
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
      const answer = await get(url + "/events", control.signal);
      unusable.delete(url + "/events");
      for await (const part of answer) {
        clearTimeout(timer);
        timer = setTimeout(() => control.abort(), 25000);
        const lines = (rest + part).split("\n");
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
  http.createServer((_, res) => res.writeHead(performance.now() - progress < 3000 ? 200 : 503).end()).listen(Number(port ?? 0), "127.0.0.1");
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
