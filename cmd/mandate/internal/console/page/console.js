// The page: rows of elections, as the events of api/live describe them. Names and texts come from
// Redis, where anyone may have written them: they become text nodes, and never markup.

const rows = new Map(); // election -> what was received
const bodies = new Map(); // election -> its <tbody>
const $ = (id) => document.getElementById(id);
let site = {};
let skew = 0; // of this browser's clock, in ms
let lost = 0; // since when the console does not answer

let by = "rank"; // the field that rows are sorted by; with a - the largest first
let urgent = 0; // how many rows have the rank of those without a leader, or with two

// make makes an element that has children: elements, or texts.
function make(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children.filter((c) => c !== "" && c !== undefined));
  return e;
}

const name = (text) => make("bdi", "", text);
const now = () => Date.now() + skew;
const natural = new Intl.Collator("en", { numeric: true }); // 9 before 10

function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  if (s < 172800) return `${Math.floor(s / 3600)}h ${Math.floor(s / 60) % 60}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

// clock returns a time of day, with the date if that is not today's.
function clock(ms) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString(undefined, { hour12: false });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

// age is an element with the time since an instant, which tick keeps up to date.
function age(since, suffix = "") {
  if (!since) return "";
  const e = make("time", "num cut");
  e.dateTime = e.title = new Date(since).toISOString();
  e.dataset.since = since;
  e.dataset.suffix = suffix;
  showAge(e);
  return e;
}

function showAge(e) {
  e.textContent = duration(now() - e.dataset.since) + e.dataset.suffix;
}

// opened are the elections in the page's address. What is typed by hand may be no valid encoding.
const opened = () => new Set(new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B").replaceAll(",", "&")).keys());

function toggle(election) {
  const open = opened();
  if (!open.delete(election)) open.add(election);
  history.replaceState(null, "", "#" + [...open].map(encodeURIComponent).join(","));
  draw(election);
}

const ending = (term) => make("span", term.current ? "ok" : term.wanted ? "" : "bad", term.current ? "leads" : term.reason || "end not reported");

// draw makes the <tbody> of an election anew, or removes it.
function draw(election) {
  const row = rows.get(election);
  const old = bodies.get(election);
  if (!row) {
    old?.remove();
    bodies.delete(election);
    return;
  }
  const focused = old?.contains(document.activeElement);
  const open = opened().has(election);
  const body = make("tbody", `rank${row.rank}`, line(row, open));
  body.id = `e-${election}`;
  if (open) body.append(detail(row));
  bodies.set(election, body);
  if (old) old.replaceWith(body);
  if (focused) body.querySelector("button").focus();
}

function line(row, open) {
  const button = make("button", "name", name(row.election));
  button.type = "button";
  button.ariaExpanded = String(open);
  button.addEventListener("click", () => toggle(row.election));
  const leader = row.leader ? [name(row.leader)] : [make("span", row.rank === 0 ? "bad" : "note", row.state === "unknown" ? "not known" : row.state)];
  if (row.address) leader.push(make("span", "note num", " ", name(row.address)));
  const last = row.terms.find((t) => !t.current);
  const why = row.problem ? [make("span", row.rank === 0 ? "bad" : "warn", name(row.problem)), row.next ? make("code", "", name(row.next)) : ""] : [];
  const cells = [[button], leader, [age(row.since)], [row.token || ""], [row.able || "?"], last ? [ending(last), " ", age(last.until, " ago")] : [], why];
  const tr = make("tr");
  cells.forEach((children, i) => {
    const td = make("td", i === 6 ? "why" : i === 3 || i === 4 ? "num cut" : "", ...children);
    if (i % 6 && td.hasChildNodes()) td.dataset.label = $("elections").tHead.rows[0].cells[i].textContent;
    tr.append(td);
  });
  return tr;
}

function list(caption, titles, lines) {
  const table = make("table", "", make("caption", "", caption), make("thead", "", make("tr", "", ...titles.map((t) => make("th", "", t)))));
  table.append(make("tbody", "", ...lines.map((cells) => make("tr", "", ...cells))));
  return table;
}

const sub = (text) => (text ? make("span", "sub", name(text)) : "");

function detail(row) {
  const candidates = row.candidates.map((c) => [
    make("td", "", name(c.id), sub([c.host, c.version].filter(Boolean).join(" · "))),
    make("td", "", c.role),
    make("td", "", make("span", c.health === "rests" ? "note" : c.ok ? "ok" : "bad", c.health), sub(c.detail)),
  ]);
  const terms = row.terms.map((t) => [
    make("td", "", name(t.id), make("span", "sub num cut", t.token)),
    make("td", "num cut", t.from ? clock(t.from) : "–"),
    make("td", "num cut", t.current ? age(t.from) : t.from && t.until ? duration(t.until - t.from) : "–"),
    make("td", "", ending(t), sub(t.detail)),
  ]);
  const lists = make("div", "lists", list("Candidates", ["id", "role", "health"], candidates));
  if (terms.length > 0) lists.append(list("Terms", ["leader, token", "from", "lasted", "end"], terms));
  const cell = make("td", "", lists);
  cell.colSpan = 7;
  return make("tr", "detail", cell);
}

// arrange puts the rows in order, and shows those whose name, state, leader or problem has what the filter has.
function arrange() {
  const text = $("filter").value.trim().toLowerCase();
  const field = by.replace("-", "");
  const compare = (a, b) => natural.compare(a[field] ?? "", b[field] ?? "") * (by === field ? 1 : -1) || a.rank - b.rank || natural.compare(a.election, b.election);
  const order = [...rows.values()].sort(compare);
  const table = $("elections");
  for (const b of table.tHead.querySelectorAll("button")) b.parentNode.ariaSort = b.dataset.by !== by ? "none" : by === field ? "ascending" : "descending";
  const active = document.activeElement;
  let before = table.tHead;
  for (const row of order) {
    const body = bodies.get(row.election);
    if (before.nextElementSibling !== body) before.after(body);
    body.hidden = ![row.election, row.state, row.leader, row.problem].join("\n").toLowerCase().includes(text);
    before = body;
  }
  if (active !== document.activeElement) active.focus(); // a row that is moved loses it
  urgent = order.filter((r) => r.rank === 0).length;
  $("summary").textContent = `${order.length} elections` + (urgent ? `, ${urgent} urgent` : "") + (site.hidden ? `, ${site.hidden} more left out` : "");
  $("summary").hidden = order.length === 0 && !site.known;
  showLine();
  $("none").hidden = order.length > 0 || !site.known;
  table.hidden = order.length === 0;
}

function showSite() {
  $("prefix").textContent = site.prefix;
  $("problem").hidden = !site.problem;
  $("problem").textContent = site.problem ?? "";
  const nodes = site.nodes.map((n) => make("span", n.error ? "bad" : "", name(n.name), n.error ? ": " : " ok", n.error ? name(n.error) : ""));
  $("nodes").replaceChildren(make("span", "", `Redis ${site.nodes.filter((n) => !n.error).length}/${site.nodes.length}`), ...nodes);
}

// showLine shows whether the page is live. What can't be read again stays, grey, with its time.
function showLine() {
  let [state, text] = ["live", "live"];
  if (lost) [state, text] = ["lost", `no answer from the console; as of ${clock(lost)}`];
  else if (!site.nodes) [state, text] = ["connecting", "connecting"];
  else if (!site.known) [state, text] = ["lost", "no majority of the Redis nodes answers" + (site.as_of ? `; as of ${clock(site.as_of - skew)}` : "")];
  $("line").dataset.state = state;
  if ($("line").textContent !== text) $("line").textContent = text;
  document.body.classList.toggle("stale", state === "lost");
  document.title = state === "lost" ? "(?) mandate" : urgent ? `(${urgent}) mandate` : "mandate";
}

// Changes that arrive together are drawn together.
const changed = new Set();

function drawSoon(election) {
  if (changed.size === 0) setTimeout(drawChanged, 20);
  changed.add(election);
}

function drawChanged() {
  const all = [...changed];
  changed.clear();
  all.forEach(draw);
  arrange();
}

// connect reads the events. The console sends one each second: without any the connection is dead,
// although the browser may not have noticed.
function connect() {
  const events = new EventSource("api/live");
  let last = Date.now();
  const on = (kind, take) => events.addEventListener(kind, (e) => {
    last = Date.now();
    lost = 0;
    take(JSON.parse(e.data));
    showLine();
  });
  events.addEventListener("open", () => {
    for (const election of rows.keys()) drawSoon(election); // what is not sent again is gone
    rows.clear();
    drawSoon("");
  });
  on("site", (s) => {
    site = s;
    skew = s.now - Date.now();
    showSite();
    drawSoon("");
  });
  on("row", (row) => {
    row.ended = row.terms.find((t) => !t.current)?.until;
    rows.set(row.election, row);
    drawSoon(row.election);
  });
  on("gone", ({ election }) => {
    rows.delete(election);
    drawSoon(election);
  });
  const watch = setInterval(() => {
    if (Date.now() - last < 10000 && events.readyState !== EventSource.CLOSED) {
      if (events.readyState === EventSource.CONNECTING && site.nodes) lost ||= last;
      return;
    }
    lost ||= last;
    events.close();
    clearInterval(watch);
    setTimeout(connect, 2000);
  }, 1000);
}

$("filter").addEventListener("input", arrange);
$("elections").tHead.addEventListener("click", (e) => {
  by = e.target.dataset.by ?? by;
  arrange();
});
addEventListener("hashchange", () => [...rows.keys()].forEach(drawSoon));
setInterval(() => {
  document.querySelectorAll("time[data-since]").forEach(showAge);
  showLine();
}, 1000);
connect();
