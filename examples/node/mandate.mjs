// Lead an election from Node, beside `mandate serve`. No packages: copy this file.
//
//   await leader("orders", async (term) => {        // runs whenever this replica leads, until it throws
//     while (await term.allows(200)) {              // a step of at most 200 ms may begin
//       await step(term.token);                     // send the token along with every write
//     }
//   });
//
//   process.once("SIGTERM", () => { stopping = true; });           // a deploy
//   await leader("orders", work, { stop: () => stopping });        // allows nothing, and returns, once stop() is true
//   await resign("/run/mandate/token");           // the next replica leads within --grace, not after three failed health checks
//
//   const term = new Term("orders");              // a script of cron: it does not wait
//   while (rows.length && (await term.allows(200))) await step(rows.pop(), term.token);
//
//   for await (const event of events()) {           // information only: none permits to work
//     console.log(event.kind, event.candidate);
//   }
//
// A promise is to the machine, not to the process: all workers of a cluster would lead. Let one process of the machine
// call leader: start it with `flock /run/lock/orders node worker.mjs`, or by `mandate run`.
//
// As a program: node mandate.mjs ELECTION [URL [PORT [TOKENFILE]]], whose health is served on PORT, and which resigns at
// SIGTERM; or node mandate.mjs --events [URL].

import http from "node:http";
import https from "node:https";
import { existsSync, openSync, readFileSync, readSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const defaultURL = "http://127.0.0.1:7480";

// get resolves to an answer. fetch, and the agents of all others, may ask a proxy, and follow redirects: another server's
// answer is no promise.
const direct = { "http:": [http, new http.Agent()], "https:": [https, new https.Agent()] };
function get(url, signal, options = {}) {
  const [by, agent] = direct[new URL(url).protocol];
  return new Promise((resolve, reject) =>
    by.request(url, { agent, signal, ...options }, (answer) => resolve(answer.setEncoding("utf8"))).on("error", reject).end());
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

// Term is the leadership of this replica, under one token. It permits nothing once stop() is true.
export class Term {
  constructor(election, url = defaultURL, stop = () => false) {
    Object.assign(this, { election, url, stop, token: undefined, until: 0, length: 0 });
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
    if (!this.stop() && now() + Math.max(ms, this.length / 2) > this.until) await this.ask();
    if (!this.stop() && now() + ms <= this.until) return true;
    this.until = 0;
    return false;
  }
}

// leader calls work(term) whenever this replica leads, one term after the other, and waiting() meanwhile, until stop() is
// true. work must return when allows is false.
export async function leader(election, work, { url = defaultURL, pause = 200, waiting = () => {}, stop = () => false } = {}) {
  while (!stop()) {
    const term = new Term(election, url, stop);
    if (await term.allows(0)) await work(term);
    waiting();
    if (!stop()) await sleep(pause);
  }
}

// resign ends this replica's leadership, once its work has ended. It resolves to false if it did not lead, no other could, it
// was refused, or it takes longer than 10 s (with a lease of 50 s and more): then the leadership ends later.
export async function resign(tokenFile, url = defaultURL) {
  const authorization = "Bearer " + readFileSync(tokenFile, "utf8").trim(); // of mandate serve --http-token-file
  try {
    const answer = await get(url + "/resign", AbortSignal.timeout(10000), { method: "POST", headers: { authorization } });
    answer.resume();
    if (answer.statusCode !== 200 && answer.statusCode !== 409) throw new Error(`status ${answer.statusCode}`);
    return answer.statusCode === 200;
  } catch (error) {
    report(url + "/resign", error);
    return false;
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
async function main(election, url, port, tokenFile) {
  let stopping = false;
  process.once("SIGTERM", () => (stopping = true));
  let progress = performance.now();
  const beat = () => (progress = performance.now());
  http.createServer((_, res) => res.writeHead(performance.now() - progress < 3000 ? 200 : 503).end()).listen(Number(port ?? 0), "127.0.0.1").unref();
  const work = async (term) => {
    console.log("leads with token", term.token);
    while (await term.allows(100)) {
      await sleep(50); // a step of the work
      beat();
    }
    console.log("lost token", term.token);
  };
  console.log("waits to lead");
  await leader(election, work, { url, waiting: beat, stop: () => stopping });
  if (tokenFile) console.log("resigned:", await resign(tokenFile, url));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [first, url, ...rest] = process.argv.slice(2);
  if (first !== "--events") await main(first, url, ...rest);
  else for await (const e of events(url)) console.log(e.kind, e.candidate ?? "", e.token ?? "", e.reason ?? "");
}
