// The views that explain: where time goes, what limits hold back, by which paths hosts come, who serves in a group.

import { bandwidth, clock, count, make, name, percent, put, say, time, visible } from "./text.js";
import { Heat, Parts } from "./chart.js";
import { commands, flow, place, total, within } from "./model.js";
import { Table } from "./table.js";
import { Timeline } from "./timeline.js";
import { link } from "./views.js";

const STAGES = [["s0", "storage"], ["s1", "limits"], ["s2", "receive"], ["s3", "buffer"], ["s4", "others"]];
const MEANING = {
  storage: "at the storage", limits: "delayed by limits", receive: "waiting for data from the host",
  buffer: "waiting for a buffer", others: "waiting for other commands",
};
const TITLE = "Latency over time";
const words = (...texts) => texts.map(visible).join(" ").toLowerCase();
const marked = (text, level) => make("span", { class: "mark", "data-level": level, "data-content": text }, text);
const named = (text) => {
  const element = name(text);
  element.dataset.content = element.textContent;
  return element;
};
const numeric = (head, of, text) => ({ head, number: true, sort: of, of: (row) => text(of(row)) });

// Time of commands by stage over an hour: of all, or of one namespace, for which the target is asked.
export class Latency {
  constructor(_parts, ask) {
    this.ask = ask;
    this.kind = "read";
    this.place = "";
    this.own = null;
    this.asked = 0;
    this.choice = make("select", {}, make("option", { value: "" }, "all namespaces"));
    this.choice.addEventListener("change", () => { this.place = this.choice.value; this.own = null; this.asked = 0; this.renew(); });
    this.kinds = make("select", {}, make("option", { value: "read" }, "reads"), make("option", { value: "write" }, "writes"));
    this.kinds.addEventListener("change", () => { this.kind = this.kinds.value; this.renew(); });
    // The part of a command's time that the heat is of; none is the whole.
    this.part = "";
    this.shown = make("select", {}, make("option", { value: "" }, "whole command"),
      ...STAGES.map(([, stage]) => make("option", { value: stage }, stage)));
    this.shown.addEventListener("change", () => { this.part = this.shown.value; this.renew(); this.announce(); });
    this.remark = make("p", { class: "note" });
    const of = (point) => point[this.kind];
    const buckets = (point) => this.part === "" ? of(point).buckets : of(point).stage_buckets?.[this.part] ?? [];
    const tell = (point) => {
      const [half, most] = [within(buckets(point), 0.5), within(buckets(point), 0.99)];
      if (half === null) {
        if (this.part === "") return "no commands";
        return of(point).stages_us?.[this.part] > 0 ? "not kept for this step" : "no commands in this stage";
      }
      return `${count(total(buckets(point)) / point.interval_s)} IOPS, p50 ≤ ${time(half)}, p99 ≤ ${time(most)}`;
    };
    this.heat = new Heat(TITLE, buckets, tell, time);
    const mean = (stage) => (point) => (of(point).stages_us?.[stage] ?? 0) / Math.max(1, commands(of(point)));
    this.split = new Parts("Mean time of a command by stage", STAGES.map(([kind, stage]) => [kind, stage, mean(stage)]), time);
    this.table = new Table("Stages in the latest step", [
      { head: "Stage", sort: (row) => row.at, of: (row) => row.stage },
      { head: "Meaning", sort: (row) => row.at, of: (row) => MEANING[row.stage] },
      numeric("Mean", (row) => row.mean, time),
      numeric("Share", (row) => row.share, percent),
    ], { filter: false, empty: "No stage took time: commands on memory complete at once" });
    this.element = make("div", {}, make("div", { class: "bar" }, make("h2", {}, "Latency by stage"),
      make("label", {}, "Commands", this.kinds), make("label", {}, "of", this.choice), make("label", {}, "Time in", this.shown)), this.remark,
    make("section", { class: "figures" }, this.heat.figure, this.split.figure), make("section", {}, make("h2", {}, "Stages in the latest step"), this.table.element));
  }

  renew() { if (this.model) this.update(this.model); }

  // Tells those who do not see the heat what it shows now.
  announce() { say(`${this.heat.heading.textContent}: ${this.heat.idle()}`); }

  update(model) {
    this.model = model;
    if (!model.roster) return;
    this.offer(model.roster.namespaces);
    this.heat.entitle(this.part === "" ? TITLE : `${TITLE}, ${this.part}: ${MEANING[this.part]}`);
    if (this.place !== "" && Date.now() - this.asked > 5000) this.fetch();
    const points = this.place === "" ? model.steps : this.own ?? [];
    const missing = this.part === "" ? "" : " Commands that spent no time in the stage are left out.";
    put(this.remark, points.length > 0 ? `Durations at the target, without the network. Each colour stands for several times the commands of the one before.${missing}`
      : this.place === "" ? "The first data follows in a few seconds: history is collected while a page is open."
        : "No history of this namespace: it was idle, or others were in use before it.");
    this.heat.update(points);
    this.split.update(points);
    const last = points[points.length - 1]?.[this.kind];
    const all = last ? Object.values(last.stages_us ?? {}).reduce((sum, us) => sum + us, 0) : 0;
    this.table.update(STAGES.filter(([, stage]) => last?.stages_us?.[stage] > 0).map(([, stage], at) => ({
      key: stage, words: stage, at, stage, mean: last.stages_us[stage] / Math.max(1, commands(last)), share: last.stages_us[stage] / all,
    })));
  }

  // The namespaces there are; the choice stays.
  offer(namespaces) {
    const places = namespaces.map((namespace) => JSON.stringify([namespace.subsystem, namespace.nsid]));
    const shown = places.join();
    if (shown === this.offered) return;
    this.offered = shown;
    const options = namespaces.map((namespace, at) => make("option", { value: places[at], dir: "auto" },
      `namespace ${namespace.nsid} of ${visible(namespace.subsystem)}`));
    this.choice.replaceChildren(make("option", { value: "" }, "all namespaces"), ...options);
    if (!places.includes(this.place)) this.place = "";
    this.choice.value = this.place;
  }

  async fetch() {
    this.asked = Date.now();
    const place = this.place;
    const [nqn, nsid] = JSON.parse(place);
    try {
      const response = await this.ask(`/v1/subsystems/${encodeURIComponent(nqn)}/namespaces/${nsid}/history`);
      const history = await response.json();
      if (place === this.place) this.own = history.points;
    } catch {
      // The stream says how the target is; what was there stays.
    }
  }
}

const LIMITS = [
  ["iops", "IOPS", count], ["read_iops", "read IOPS", count], ["write_iops", "write IOPS", count],
  ["bytes", "all", bandwidth], ["read_bytes", "read", bandwidth], ["write_bytes", "write", bandwidth],
];

const used = (load) => {
  const [read, write, other] = [flow(load, "read"), flow(load, "write"), flow(load, "other")];
  return {
    iops: read.iops + write.iops + other.iops, read_iops: read.iops, write_iops: write.iops,
    bytes: read.bytes_per_s + write.bytes_per_s, read_bytes: read.bytes_per_s, write_bytes: write.bytes_per_s,
  };
};

// Limits in force: namespaces by their limits, hosts by the target's quotas.
export class Limits {
  constructor() {
    this.namespaces = new Table("Limits of namespaces", [
      { head: "Subsystem", sort: (row) => row.nqn, of: (row) => link(["subsystems", row.nqn], named(row.nqn)) },
      numeric("Namespace", (row) => row.nsid, String),
      { head: "Limit", sort: (row) => row.limit, of: (row) => row.limit },
      numeric("Used", (row) => row.share, percent),
      numeric("Delayed", (row) => row.held, (held) => held > 0 ? `${percent(held)} of commands` : "none"),
      numeric("Mean delay", (row) => row.wait_us, (us) => us > 0 ? time(us) : "–"),
    ], { sort: 4, descending: true, empty: "No namespace has a limit: selvedge namespace set" });
    this.hosts = new Table("Quotas of hosts", [
      { head: "Host", sort: (row) => row.host, of: (row) => named(row.host) },
      numeric("Controllers", (row) => row.controllers, String),
      numeric("Limit of controllers", (row) => row.controllersMax, count),
      numeric("Queues", (row) => row.queues, String),
      numeric("Limit of queues", (row) => row.queuesMax, count),
    ], { sort: 3, descending: true, empty: "No connected hosts" });
    this.refusals = new Table("Refused Connects", [
      { head: "Rule", sort: (row) => row.rule, of: (row) => row.rule.replaceAll("_", " ") },
      numeric("Since the start", (row) => row.times, count),
    ], { filter: false, sort: 1, descending: true, empty: "No refused Connects" });
    this.element = make("div", {}, ...[["Namespaces", this.namespaces], ["Hosts", this.hosts], ["Refused", this.refusals]]
      .map(([title, table]) => make("section", {}, make("h2", {}, title), table.element)));
  }

  update(model) {
    const { roster } = model;
    if (!roster) return;
    const rows = model.subsystems.flatMap((subsystem) => subsystem.namespaces
      .filter((namespace) => Object.keys(namespace.qos ?? {}).length > 0)
      .map((namespace) => this.limited(model, subsystem.nqn, namespace)));
    this.namespaces.update(rows);
    const hosts = new Map();
    for (const { host, controllers, queues } of model.hosts) {
      const known = hosts.get(host) ?? { key: host, host, words: words(host), controllers: 0, queues: 0,
        controllersMax: roster.quotas.controllers_per_host, queuesMax: roster.quotas.queues_per_host };
      known.controllers += controllers.length;
      known.queues += queues;
      hosts.set(host, known);
    }
    this.hosts.update([...hosts.values()]);
    this.refusals.update(Object.entries(roster.refusals).filter(([, times]) => times > 0)
      .map(([rule, times]) => ({ key: rule, words: rule, rule, times })));
  }

  limited(model, nqn, namespace) {
    const load = model.load(nqn, namespace.nsid);
    const now = used(load);
    const limits = LIMITS.filter(([limit]) => namespace.qos[limit] !== undefined);
    const flows = ["read", "write", "other"].map((kind) => flow(load, kind));
    const held = flows.reduce((sum, flow) => sum + (flow.held_per_s ?? 0), 0);
    const waited = flows.reduce((sum, flow) => sum + (flow.stages_us?.limits ?? 0) * flow.iops, 0);
    return {
      key: `${nqn} ${String(namespace.nsid).padStart(6, "0")}`, nqn, nsid: namespace.nsid, words: words(nqn, namespace.nsid),
      limit: limits.map(([limit, what, text]) => `${what} ${text(namespace.qos[limit])}`).join(", "),
      share: Math.max(...limits.map(([limit]) => now[limit] / namespace.qos[limit])),
      held: held / Math.max(1e-9, now.iops), wait_us: held > 0 ? waited / held : 0,
    };
  }
}

// By which ports each host comes to each subsystem. One that misses a port that others of it have is marked.
export class Paths {
  constructor() {
    this.table = new Table("Paths of hosts", [
      { head: "Host", sort: (row) => row.host, of: (row) => link(["subsystems", row.subsystem, row.host], named(row.host)) },
      { head: "Subsystem", sort: (row) => row.subsystem, of: (row) => named(row.subsystem) },
      { head: "Paths", number: true, sort: (row) => row.paths,
        of: (row) => row.paths < row.possible ? marked(`${row.paths} of ${row.possible}`, "warning") : `${row.paths} of ${row.possible}` },
      { head: "Ports", sort: (row) => row.ports, of: (row) => row.ports },
      { head: "State", sort: (row) => row.state, of: (row) => row.state },
      numeric("IOPS", (row) => row.iops, count),
      numeric("In flight", (row) => row.depth, String),
      numeric("RTT", (row) => row.rtt_us, time),
      numeric("Retransmits", (row) => row.retransmits, count),
      { head: "Authentication", sort: (row) => row.proof, of: (row) => row.proof },
    ], { sort: 2, empty: "No connected hosts" });
    this.element = make("section", {}, make("h2", {}, "Paths of hosts"),
      make("p", { class: "note" }, "A path is a port through which a host has a controller. Hosts with fewer paths than ports are marked: "
        + "a failed port disconnects them, unless they have paths to other targets."), this.table.element);
  }

  update(model) {
    const { roster } = model;
    if (!roster) return;
    const addresses = new Map(roster.ports.map((port) => [port.id, port.address]));
    const portsOf = new Map(model.subsystems.map((subsystem) => [subsystem.nqn, subsystem.ports ?? []]));
    this.table.update(model.hosts.map((host) => {
      const ports = [...new Set(host.controllers.map((controller) => controller.port))].sort((a, b) => a - b);
      const found = (portsOf.get(host.subsystem) ?? []).filter((port) => addresses.has(port));
      const [ending, early] = ["ending", "ready"].map((state) => host.controllers.filter((controller) => controller[state]).length);
      const first = host.controllers[0];
      const tls = first.queues.every((queue) => queue.tls_cipher) ? "TLS" : "";
      const secret = first.authentication ? `DH-HMAC-CHAP ${first.authentication.dhchap_hash}` : "";
      const texts = ports.map((port) => addresses.get(port) ?? `port ${port}`).join(", ");
      return {
        ...host, words: words(host.host, host.subsystem, texts), paths: ports.length, ports: texts,
        possible: Math.max(ports.length, found.length > 0 ? found.length : addresses.size),
        state: ending > 0 ? `${ending} ending` : early < host.controllers.length ? "connecting" : "ready",
        proof: [tls, secret].filter(Boolean).join(", ") || "none",
      };
    }));
  }
}

// The group of gateways, as this one sees it.
export class Gateways {
  constructor() {
    this.remark = make("p", { class: "empty" });
    this.gateways = new Table("Gateways", [
      { head: "Gateway", sort: (row) => row.name, of: (row) => named(row.name) },
      { head: "Location", sort: (row) => row.place, of: (row) => row.place },
      { head: "State", sort: (row) => row.state, of: (row) => row.level ? marked(row.state, row.level) : row.state },
      { head: "Serves", sort: (row) => row.serves, of: (row) => row.serves },
      { head: "Has hosts", sort: (row) => row.hosts, of: (row) => row.hosts },
      { head: "Listens on", sort: (row) => row.listeners, of: (row) => row.listeners },
      { head: "Change", sort: (row) => row.change, of: (row) => link(["changes", row.change, row.name], make("span", {}, row.change)) },
      numeric("Cluster connections", (row) => row.connections, String),
    ], { filter: false });
    this.groups = new Table("Load-balancing groups", [
      { head: "Group", sort: (row) => row.id, of: (row) => make("span", { class: "plain", "data-content": String(row.id) }, String(row.id)) },
      { head: "Served by", sort: (row) => row.owner ?? "", of: (row) => row.owner === null ? marked("no gateway", "critical") : named(row.owner) },
      { head: "Preferred gateway", sort: (row) => row.preferred, of: (row) => named(row.preferred) },
      { head: "Location", sort: (row) => row.place, of: (row) => row.is_degraded ? marked(row.place, "warning") : row.place },
      { head: "State", sort: (row) => row.state, of: (row) => row.state.replaceAll("_", " ") },
      numeric("Namespaces", (row) => row.namespaces, String),
    ], { filter: false });
    this.unreached = new Table("Hosts without a path", [
      { head: "Host", sort: (row) => row.host, of: (row) => named(row.host) },
      { head: "Subsystem", sort: (row) => row.subsystem, of: (row) => named(row.subsystem) },
      { head: "Unreached gateway", sort: (row) => row.gateway, of: (row) => named(row.gateway) },
      numeric("Group", (row) => row.load_balancing_group, String),
      { head: "Connected to", sort: (row) => row.connected_to, of: (row) => named(row.connected_to) },
    ], { empty: "All hosts have their paths" });
    this.events = new Table("Events", [
      { head: "Time", sort: (row) => row.at, of: (row) => make("span", { class: "plain", "data-content": row.time }, row.time) },
      { head: "Event", sort: (row) => row.text, of: (row) => named(row.text) },
    ], { descending: true });
    this.timeline = new Timeline();
    this.parts = make("div", {}, make("section", {}, make("h2", {}, "Last hour"), this.timeline.figure), ...[["Gateways", this.gateways],
      ["Load-balancing groups", this.groups], ["Hosts without a path", this.unreached], ["Events", this.events]]
      .map(([title, table]) => make("section", {}, make("h2", {}, title), table.element)));
    this.element = make("div", {}, this.remark, this.parts);
  }

  update(model) {
    const group = model.gateways;
    this.parts.hidden = !group;
    put(this.remark, group === undefined ? "Loading" : group === null
      ? "This target is not in a gateway group; selvedge serve --gateway-group starts one"
      : `Group ${visible(group.group)}, as of gateway ${visible(group.gateway)}; shared state ${group.has_lease ? "reachable" : "not reachable"}, version ${group.version}`);
    if (!group) return;
    const owned = (gateway) => group.load_balancing_groups.filter((found) => found.owner === gateway).map((found) => found.id);
    this.gateways.update(group.gateways.map((gateway) => ({
      ...gateway, key: gateway.name, words: words(gateway.name), place: visible(gateway.location ?? "–"), hosts: gateway.has_hosts ? "yes" : "no",
      state: gateway.life === "left" ? "ended" : !gateway.is_well ? "silent" : gateway.life === "dead" ? "given up"
        : gateway.is_drained ? "drained" : "healthy",
      level: gateway.life !== "left" && (!gateway.is_well || gateway.life === "dead") ? "warning" : null,
      change: gateway.is_drained ? "resume" : "drain",
      serves: owned(gateway.name).map((id) => `group ${id}`).join(", ") || "nothing",
      listeners: gateway.listeners.map(({ address, service }) => `${address.includes(":") ? `[${address}]` : address}:${service}`).join(", "),
    })));
    this.groups.update(group.load_balancing_groups.map((found) => {
      const served = model.locationOf(found.owner);
      // Degraded at its own location: a namespace in it prefers another one.
      const more = found.is_degraded && served === found.location ? ", not that of all its namespaces" : "";
      return { ...found, key: String(found.id).padStart(6, "0"), words: "", place: visible(place(found.location, found.owner, served) + more) };
    }));
    this.unreached.update(group.unreached_hosts.map((host) => ({ ...host, words: words(host.host, host.subsystem, host.gateway),
      key: JSON.stringify([host.host, host.subsystem, host.gateway, host.load_balancing_group]) })));
    // An older gateway of the group keeps no events.
    const { events = [] } = group;
    const shown = this.timeline.take({ ...group, events }, model.tick?.time_s ?? Date.now() / 1000);
    this.events.update(shown.map(({ time_s, text }, at) => ({ key: `${at} ${time_s}`, at, time: clock(time_s), text, words: words(text) })));
  }
}
