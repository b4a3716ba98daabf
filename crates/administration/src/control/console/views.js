// Views of the target, one for each question. A view makes its elements once, and changes their text when an event
// arrives.

import { bandwidth, count, make, name, percent, plural, put, size, since, time, visible } from "./text.js";
import { Lines } from "./chart.js";
import { commands, flow, within } from "./model.js";
import { Table } from "./table.js";

export const LEVELS = { ok: "Healthy", notice: "Notice", warning: "Warning", critical: "Critical", unknown: "Unknown" };

export const link = (parts, content) => make("a", { href: `#${parts.map(encodeURIComponent).join("/")}`, "data-content": content.textContent },
  content);
const words = (...texts) => texts.map(visible).join(" ").toLowerCase();
const named = (text) => {
  const element = name(text);
  element.dataset.content = element.textContent;
  return element;
};
const plain = (text) => make("span", { class: "plain", "data-content": text }, text);
const latency = (flow) => flow.iops > 0 ? time(flow.mean_us) : "–";
const bound = (flow) => flow.iops === 0 ? 0 : flow.p99_us_max ?? Infinity;
const bounded = (flow) => flow.iops === 0 ? "–" : flow.p99_us_max === undefined ? "> 16.8 s" : `≤ ${time(flow.p99_us_max)}`;
const numeric = (head, of, text) => ({ head, number: true, sort: of, of: (row) => text(of(row)) });

// Load of a namespace or of the whole target, as columns.
const loads = [
  numeric("Read IOPS", (row) => flow(row.load, "read").iops, count),
  numeric("Write IOPS", (row) => flow(row.load, "write").iops, count),
  numeric("Read", (row) => flow(row.load, "read").bytes_per_s, bandwidth),
  numeric("Write", (row) => flow(row.load, "write").bytes_per_s, bandwidth),
  { head: "Read mean", number: true, sort: (row) => flow(row.load, "read").mean_us, of: (row) => latency(flow(row.load, "read")) },
  { head: "Read p99", number: true, sort: (row) => bound(flow(row.load, "read")), of: (row) => bounded(flow(row.load, "read")) },
  { head: "Write p99", number: true, sort: (row) => bound(flow(row.load, "write")), of: (row) => bounded(flow(row.load, "write")) },
];

const sum = (all) => {
  const total = { read: { iops: 0, bytes_per_s: 0, took: 0 }, write: { iops: 0, bytes_per_s: 0, took: 0 } };
  for (const load of all) {
    for (const kind of ["read", "write"]) {
      const done = flow(load, kind);
      total[kind].iops += done.iops;
      total[kind].bytes_per_s += done.bytes_per_s;
      total[kind].took += done.iops * done.mean_us;
      if (done.iops > 0) total[kind].p99_us_max = Math.max(total[kind].p99_us_max ?? 0, done.p99_us_max ?? Infinity);
    }
  }
  for (const kind of ["read", "write"]) total[kind].mean_us = total[kind].took / Math.max(1e-9, total[kind].iops);
  return total;
};

class Tiles {
  constructor(titles) {
    this.tiles = titles.map((title) => {
      const [value, more] = [make("span", { class: "value" }, "–"), make("span", { class: "more" })];
      return { value, more, element: make("div", { class: "tile" }, make("dt", {}, title), make("dd", {}, value, more)) };
    });
    this.element = make("dl", { class: "tiles" }, ...this.tiles.map((tile) => tile.element));
  }

  update(texts) {
    texts.forEach(([value, more], at) => {
      put(this.tiles[at].value, value);
      put(this.tiles[at].more, more ?? "");
    });
  }
}

export class Findings {
  constructor() {
    this.element = make("ul", { class: "findings" });
    this.shown = "";
  }

  update(health) {
    const shown = JSON.stringify(health.findings);
    if (shown === this.shown) return;
    this.shown = shown;
    const omitted = health.findings_omitted > 0 ? [make("li", {}, `and ${health.findings_omitted} more`)] : [];
    this.element.replaceChildren(...health.findings.map((finding) => {
      const place = finding.subsystem ? [make("p", {}, link(["subsystems", finding.subsystem], name(finding.subsystem)))] : [];
      return make("li", { "data-level": finding.level }, make("span", { class: "kind" }, LEVELS[finding.level] ?? finding.level),
        name(finding.what), ...place, make("p", {}, finding.cure));
    }), ...omitted);
  }
}

export class Overview {
  constructor() {
    this.findings = new Findings();
    this.tiles = new Tiles(["Read", "Write", "Read latency", "Write latency", "Errors", "Hosts", "Namespaces", "Uptime"]);
    const rate = (kind) => (point) => commands(point[kind]) / point.interval_s;
    const p99 = (kind) => (point) => within(point[kind].buckets, 0.99);
    this.rates = new Lines("IOPS in the last hour", [["s0", "read", rate("read")], ["s1", "write", rate("write")]], count);
    this.latency = new Lines("Latency, p99 at most", [["s0", "read", p99("read")], ["s1", "write", p99("write")]], time);
    this.reactors = new Table("Reactors", [
      { head: "Reactor", sort: (row) => row.number, of: (row) => plain(String(row.number)) },
      numeric("Busy", (row) => row.busy_percent, (value) => percent(value / 100)),
      numeric("Connections", (row) => row.connections, String),
    ], { filter: false });
    this.why = make("section", { hidden: true }, make("h2", {}, "Causes"), this.findings.element);
    this.element = make("div", {}, this.why, make("section", {}, make("h2", {}, "Load"), this.tiles.element),
      make("section", { class: "figures" }, this.rates.figure, this.latency.figure),
      make("section", {}, make("h2", {}, "Reactors"), this.reactors.element));
  }

  update(model) {
    const { tick, roster } = model;
    if (!tick || !roster) return;
    this.findings.update(tick.health);
    this.why.hidden = tick.health.findings.length === 0;
    const [read, write] = [flow(tick.all, "read"), flow(tick.all, "write")];
    const hosts = new Set(model.hosts.map((host) => host.host)).size;
    const bad = roster.namespaces.filter((namespace) => namespace.state !== "ready").length;
    const seen = roster.namespaces_omitted > 0 ? ` of the first ${roster.namespaces.length}` : "";
    const queues = model.hosts.reduce((sum, host) => sum + host.queues, 0);
    this.tiles.update([
      [`${count(read.iops)} IOPS`, bandwidth(read.bytes_per_s)],
      [`${count(write.iops)} IOPS`, bandwidth(write.bytes_per_s)],
      [latency(read), `p99 ${bounded(read)}`],
      [latency(write), `p99 ${bounded(write)}`],
      [`${count(tick.all.errors_per_s ?? 0)}/s`, "failed commands"],
      [hosts.toLocaleString("en"), `${plural(model.hosts.reduce((sum, host) => sum + host.controllers.length, 0), "controller")}, ${plural(queues, "queue")}`],
      [String(roster.namespaces.length + roster.namespaces_omitted), bad > 0 ? `${bad}${seen} not ready` : `all${seen} ready`],
      [since(tick.time_s - roster.started_s), `version ${roster.version}`],
    ]);
    this.reactors.update(tick.reactors.map((reactor) => ({ key: String(reactor.number), words: "", ...reactor })));
    this.rates.update(model.steps);
    this.latency.update(model.steps);
  }
}

// A list of subsystems; one of them with its namespaces and hosts; one of its hosts with its queues.
export class Subsystems {
  constructor([nqn, host]) {
    this.nqn = nqn;
    this.host = host;
    const crumbs = [["subsystems", "Subsystems"]];
    this.element = make("div");
    if (nqn !== undefined) {
      const trail = [link(["subsystems"], make("span", {}, "Subsystems")), link(["subsystems", nqn], name(nqn))];
      if (host !== undefined) trail.push(name(host));
      this.element.append(make("nav", { "aria-label": "Breadcrumb" }, make("ol", { class: "crumbs" },
        ...trail.map((part, at) => make("li", at === trail.length - 1 ? { "aria-current": "page" } : {}, part)))));
      const changes = host === undefined ? [["allow", "Allow a host"], ["add", "Add a namespace"], ["limit", "Limit a namespace"],
        ["resize", "Resize a namespace"]] : [["deny", "Deny this host"], ["key", "Set its keys"]];
      this.element.append(make("ul", { class: "kinds" }, ...changes.map(([kind, text]) => make("li", {},
        link(["changes", kind, nqn, ...(host === undefined ? [] : [host])], make("span", {}, text))))));
    }
    this.remark = make("p", { class: "note", hidden: true });
    this.element.append(this.remark);
    this.tables = host !== undefined ? [this.queues()] : nqn !== undefined ? [this.namespaces(), this.hosts()] : [this.all()];
    for (const { title, table } of this.tables) this.element.append(make("section", {}, make("h2", {}, title), table.element));
  }

  all() {
    const table = new Table("Subsystems", [
      { head: "Subsystem", sort: (row) => row.nqn, of: (row) => link(["subsystems", row.nqn], named(row.nqn)) },
      numeric("Namespaces", (row) => row.namespaces, String),
      numeric("Hosts", (row) => row.hosts, String),
      ...loads,
    ], { empty: "No subsystems. To add one: selvedge subsystem add" });
    const rows = (model) => model.roster.subsystems.map(({ nqn }) => {
      const namespaces = model.roster.namespaces.filter((namespace) => namespace.subsystem === nqn);
      return { key: nqn, nqn, words: words(nqn), namespaces: namespaces.length,
        hosts: model.hosts.filter((host) => host.subsystem === nqn).length,
        load: sum(namespaces.map((namespace) => model.load(nqn, namespace.nsid))) };
    });
    return { title: "Subsystems", table, rows };
  }

  namespaces() {
    const table = new Table("Namespaces", [
      { head: "Namespace", sort: (row) => row.nsid, of: (row) => plain(String(row.nsid)) },
      { head: "State", sort: (row) => row.state, of: (row) => row.state === "ready" ? "ready"
        : make("span", { class: "mark", "data-level": "critical", "data-content": row.state }, row.state) },
      numeric("Size", (row) => row.size_bytes ?? 0, (bytes) => bytes > 0 ? size(bytes) : "–"),
      { head: "Backend", sort: (row) => row.backend, of: (row) => row.backend },
      { head: "Location", sort: (row) => row.place, of: (row) => row.isElsewhere
        ? make("span", { class: "mark", "data-level": "warning", "data-content": row.place }, row.place) : row.place },
      ...loads,
    ], { empty: "No namespaces. To add one: selvedge namespace add" });
    const rows = (model) => model.roster.namespaces.filter((namespace) => namespace.subsystem === this.nqn).map((namespace) => {
      const config = model.config(this.nqn, namespace.nsid);
      const backend = Object.keys(config?.backend ?? {})[0] ?? "";
      const { place, isElsewhere } = model.placeOf(config);
      return { key: String(namespace.nsid).padStart(6, "0"), words: words(namespace.nsid, namespace.state, backend, place), backend,
        place: visible(place), isElsewhere, load: model.load(this.nqn, namespace.nsid), ...namespace };
    });
    return { title: "Namespaces", table, rows };
  }

  hosts() {
    const table = new Table("Hosts", [
      { head: "Host", sort: (row) => row.host, of: (row) => link(["subsystems", this.nqn, row.host], named(row.host)) },
      numeric("Controllers", (row) => row.controllers.length, String),
      numeric("Queues", (row) => row.queues, String),
      numeric("IOPS", (row) => row.iops, count),
      numeric("In flight", (row) => row.depth, String),
      numeric("RTT", (row) => row.rtt_us, time),
      numeric("Retransmits", (row) => row.retransmits, count),
    ], { empty: "No connected hosts" });
    const rows = (model) => model.hosts.filter((host) => host.subsystem === this.nqn)
      .map((host) => ({ words: words(host.host), ...host }));
    return { title: "Hosts", table, rows };
  }

  queues() {
    const table = new Table("Queues", [
      { head: "Queue", sort: (row) => row.key, of: (row) => plain(row.label) },
      { head: "From", sort: (row) => row.peer ?? "", of: (row) => row.peer ?? "–" },
      numeric("Reactor", (row) => row.reactor, String),
      numeric("IOPS", (row) => row.iops, count),
      numeric("In flight", (row) => row.depth, String),
      { head: "Longest stage", sort: (row) => row.stage ?? "", of: (row) => row.stage ? `${row.stage} ${Math.round(row.stage_percent)} %` : "–" },
      numeric("RTT", (row) => row.rtt_us ?? 0, time),
      numeric("Retransmits", (row) => row.retransmits ?? 0, count),
      numeric("Unsent", (row) => row.unsent_bytes ?? 0, size),
      { head: "TLS", sort: (row) => row.tls_cipher ?? "", of: (row) => row.tls_cipher ?? "none" },
    ], { empty: "This host is not connected" });
    const rows = (model) => model.roster.controllers
      .filter((controller) => controller.subsystem === this.nqn && controller.host_nqn === this.host)
      .flatMap((controller) => controller.queues.map((line) => {
        const label = `controller ${controller.cntlid}, ${line.queue_id === 0 ? "admin" : line.queue_id}`;
        const busy = model.queue(controller.cntlid, line.queue_id);
        const key = `${String(controller.cntlid).padStart(6, "0")} ${String(line.queue_id).padStart(6, "0")}`;
        return { key, label, words: words(label, line.peer ?? ""), iops: busy?.iops ?? 0, depth: busy?.depth ?? 0, stage: busy?.stage, stage_percent: busy?.stage_percent, ...line };
      }));
    return { title: "Queues", table, rows };
  }

  update(model) {
    if (!model.roster) return;
    const { namespaces: { length }, namespaces_omitted: omitted } = model.roster;
    this.remark.hidden = omitted === 0 || this.host !== undefined;
    put(this.remark, `The first ${length} of ${length + omitted} namespaces are listed. All of them: selvedge namespace list`);
    for (const { table, rows } of this.tables) table.update(rows(model));
  }
}
