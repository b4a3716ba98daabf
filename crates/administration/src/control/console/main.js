// The page: which view is shown, how the way to the target is, and who looks.

import { clock, put, visible } from "./text.js";
import { Audit } from "./audit.js";
import { Changes } from "./changes.js";
import { Gateways, Latency, Limits, Paths } from "./details.js";
import { Findings } from "./findings.js";
import { Link } from "./link.js";
import { Model } from "./model.js";
import { Sweeps } from "./sweeps.js";
import { Topology } from "./topology.js";
import { LEVELS, Overview, Subsystems } from "./views.js";

const VIEWS = { overview: Overview, findings: Findings, subsystems: Subsystems, latency: Latency,
  limits: Limits, paths: Paths, gateways: Gateways, sweeps: Sweeps, topology: Topology, audit: Audit, changes: Changes };
const TITLES = { overview: "Overview", findings: "Findings", subsystems: "Subsystems",
  latency: "Latency", limits: "Limits", paths: "Paths", gateways: "Gateways", sweeps: "Sweeps", topology: "Topology",
  audit: "Audit log", changes: "Change" };
// Interval of requests for what changes seldom.
const SELDOM_MS = 15000;
// A page that is hidden for this long leaves its place among the viewers to others.
const UNSEEN_MS = 300000;

const at = (id) => document.getElementById(id);
const own = document.documentElement.dataset;

let model = new Model();
let view = null;
let asked = 0;
let state = "";

const link = new Link(receive, is);
const ask = (path) => link.ask(path);
const picture = (path) => link.picture(path);
// A change is followed by a request for the new state.
const send = async (method, path, body) => {
  const response = await link.send(method, path, body);
  asked = 0;
  return response;
};

function receive(kind, data) {
  if (kind === "roster") model.takeRoster(data);
  if (kind === "findings") model.findings = data;
  if (kind === "tick") model.takeTick(data);
  if (Date.now() - asked > SELDOM_MS) refresh();
  show();
}

// Shows the state of the connection to the target.
function is(now, line) {
  if (now === state && now === "live") return;
  const was = state;
  state = now;
  const connection = at("connection");
  connection.dataset.state = now;
  put(connection, now === "live" ? "Live" : now === "lost" && model.tick ? `Not live since ${clock(model.tick.time_s)}` : line);
  document.body.classList.toggle("stale", now !== "live" && model.tick !== null);
  at("trouble").hidden = !["lost", "busy"].includes(now);
  put(at("trouble"), ["lost", "busy"].includes(now) ? visible(line) : "");
  at("login").hidden = now !== "stranger";
  at("forget").hidden = !link.token;
  if (now === "stranger") {
    put(at("login-reason"), visible(line));
    model = new Model();
    at("view").replaceChildren();
    view = null;
    tellHealth({ level: "unknown", line: "" });
    if (was !== "stranger") at("token").focus();
  }
  // Steps that were missed are in the target's history.
  if (now === "live" && was !== "live") catchUp();
}

async function catchUp() {
  // Another process may answer now.
  model.gateways ??= undefined;
  asked = 0;
  try {
    const response = await ask("/v1/history");
    model.takeHistory(await response.json());
    show();
  } catch {
    // Steps begin now.
  }
}

async function refresh() {
  asked = Date.now();
  const get = async (path) => (await ask(path)).json();
  try {
    model.subsystems = (await get("/v1/subsystems")).subsystems;
  } catch {
    // The stream says how the target is.
  }
  // A target that is in no group does not join one while it runs.
  try {
    if (model.gateways !== null) model.gateways = await get("/v1/gateways");
  } catch (error) {
    if (error.status === 404) model.gateways = null;
  }
  show();
}

function tellHealth(health) {
  const element = at("health");
  element.dataset.level = health.level;
  put(element.querySelector(".badge"), LEVELS[health.level] ?? health.level);
  put(element.querySelector(".line"), visible(health.line));
}

function show() {
  if (model.tick) tellHealth(model.tick.health);
  if (model.roster) {
    const other = model.roster.version !== own.version;
    put(at("target"), `${location.host}, version ${model.roster.version}${other ? `; this page has version ${own.version}: reload it` : ""}`);
  }
  if (!model.roster) return;
  if (!view) open(false);
  view.update(model);
  at("view").setAttribute("aria-busy", "false");
}

// Opens the view that the address names.
function open(isChosen) {
  const [wanted, ...parts] = location.hash.slice(1).split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const found = Object.hasOwn(VIEWS, wanted) ? wanted : "overview";
  for (const anchor of document.querySelectorAll("header nav a")) {
    if (anchor.getAttribute("href") === `#${found}`) {
      anchor.setAttribute("aria-current", "page");
      anchor.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else anchor.removeAttribute("aria-current");
  }
  document.title = `${TITLES[found]} – Selvedge console`;
  view = new VIEWS[found](parts, ask, send, picture);
  at("view").replaceChildren(view.element);
  view.update(model);
  if (isChosen) at("view").focus({ preventScroll: true });
}

addEventListener("hashchange", () => { if (model.roster) open(true); });
// The link's address names no view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("view").focus();
});
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = at("token").value.trim();
  at("token").value = "";
  at("login").hidden = true;
  link.start(token);
});
at("forget").addEventListener("click", () => {
  link.forget();
  is("stranger", "Signed out");
});
let unseen = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (document.hidden) unseen = setTimeout(() => { if (state !== "stranger") link.rest(); }, UNSEEN_MS);
  else if (link.rests) link.start(link.token);
});
put(at("made"), `Selvedge ${own.version}. Every change has a preview.`);

if (own.identity === "token" && !link.token) is("stranger", "This target requires a token.");
else link.start(link.token);
