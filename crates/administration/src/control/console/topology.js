// Packet paths: the tuner's picture of the target's own connections, its findings in words, and a row for each connection.
// Requested while the view is shown.

import { clock, draw, make, name, plural, put, visible } from "./text.js";
import { Table } from "./table.js";

const PAUSE_MS = 10000;

// Elements of the picture and their attributes. All others, style included, are dropped.
const PARTS = {
  svg: ["class", "viewBox"], g: ["class"], path: ["class", "d"], rect: ["class", "x", "y", "width", "height", "rx"],
  text: ["class", "x", "y", "text-anchor"], title: [],
};

// Findings about one connection, by kind; others are about the whole machine.
const FAULTS = {
  "shared-queue": "shares its receive queue", "worker-elsewhere": "reactor is on another CPU",
  "worker-off-node": "reactor is off the card's node",
};
const REMARKS = new Set(["irqbalance", "course-unknown", "packet-steering"]);

// A copy of these elements, with their text made visible.
const copied = (element) => {
  const children = Array.from(element.childNodes).flatMap((child) => {
    if (child.nodeType === Node.TEXT_NODE) return element.localName === "text" || element.localName === "title" ? [visible(child.data)] : [];
    return Object.hasOwn(PARTS, child.localName ?? "") ? [copied(child)] : [];
  });
  const kept = PARTS[element.localName].filter((key) => element.hasAttribute(key));
  return draw(element.localName, Object.fromEntries(kept.map((key) => [key, element.getAttribute(key)])), ...children);
};

const named = (text) => {
  const element = name(text);
  element.className = "wide";
  element.dataset.content = element.textContent;
  return element;
};
const plain = (text) => make("span", { class: "plain short", "data-content": text }, visible(text));
// Values of the legs of one connection, of which a bond has several.
const joined = (values, without) => values.length === 0 ? without : [...new Set(values)].map((value) => value ?? "unknown").join(" or ");
const place = (leg) => `${leg.queue} ${leg.interface}`;
const cpu = (leg) => leg.cpu ?? (leg.cpus === "" ? null : `one of ${leg.cpus}`);
// Numbers in texts are in the order of numbers.
const natural = (text) => text.replace(/\d+/g, (digits) => digits.padStart(6, "0"));
const column = (head, of, cell) => ({ head, sort: (row) => natural(of(row)), of: (row) => cell(of(row)) });

export class Topology {
  constructor(_parts, ask, _send, picture) {
    this.ask = ask;
    this.picture = picture;
    this.asked = 0;
    this.remark = make("p", { class: "note" }, "Loading");
    this.list = make("ul", { class: "findings" });
    this.empty = make("p", { class: "empty", hidden: true });
    this.paper = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Picture of the packet paths" });
    this.figure = make("figure", { class: "wider", hidden: true }, this.paper);
    this.table = new Table("Connections", [
      { head: "Queue", sort: (row) => row.place, of: (row) => plain(row.queue) },
      column("Host", (row) => row.host, named),
      column("Interface", (row) => row.by, plain),
      column("Receive queue", (row) => row.receive, plain),
      column("Interrupt", (row) => row.irq, plain),
      column("CPU", (row) => row.cpu, plain),
      column("Reactor", (row) => row.reactor, plain),
      { head: "State", sort: (row) => row.state, of: (row) => make("span", { class: `wide${row.level ? " mark" : ""}`,
        "data-level": row.level, "data-content": row.state }, visible(row.state)) },
    ], { empty: "No connected hosts" });
    this.table.element.hidden = true;
    this.elsewhere = make("dl", { class: "elsewhere" });
    this.unseen = make("section", { hidden: true }, make("h2", {}, "Unknown"), this.elsewhere);
    this.element = make("div", {}, make("section", {}, make("h2", {}, "Topology"), this.remark, this.list, this.empty), this.figure,
      this.table.element, this.unseen);
  }

  update(model) {
    this.hosts = new Map(model.roster.controllers.map((controller) => [`cntlid ${controller.cntlid}`, controller.host_nqn]));
    // A client without the role is refused once: each refusal is a record.
    if (this.asked !== null && Date.now() - this.asked > PAUSE_MS) this.fetch();
  }

  async fetch() {
    this.asked = Date.now();
    try {
      const seen = await (await this.ask("/v1/topology")).json();
      this.show(seen);
      if (!this.figure.hidden) this.paper.replaceChildren(this.drawn(await this.picture("/v1/topology/picture?bare")));
    } catch (error) {
      if (!error.status) return;
      if (error.status < 500) this.asked = null;
      put(this.remark, visible(error.message));
    }
  }

  drawn(picture) {
    const svg = copied(picture);
    const [, , width, height] = (svg.getAttribute("viewBox") ?? "").split(" ");
    for (const [key, value] of Object.entries({ width, height, role: "img", "aria-label": "Packet paths; the table below has the same data" })) {
      svg.setAttribute(key, value);
    }
    return svg;
  }

  show({ topology, courses, findings, time_s, flows_omitted }) {
    const omitted = flows_omitted > 0 ? `; ${flows_omitted} more are not shown` : "";
    const loopbacks = new Set(topology.interfaces.filter(({ kind }) => kind === "loopback").map((other) => other.name));
    const worth = findings.filter((finding) => !loopbacks.has(finding.interface));
    const isCostly = worth.some(({ kind }) => !REMARKS.has(kind));
    put(this.remark, `From the network card's queue to the reactor, the worker in the picture, as it was at ${clock(time_s)}: `
      + `${plural(topology.flows.length, "connection")}${omitted}.${isCostly ? " Remedy: selvedge tune plan, on this machine." : ""}`);
    this.list.hidden = worth.length === 0;
    this.list.replaceChildren(...worth.map((finding) => {
      const level = REMARKS.has(finding.kind) ? "notice" : "warning";
      return make("li", { "data-level": level }, make("span", { class: "kind" }, level === "notice" ? "Notice" : "Costs"), name(finding.text));
    }));
    const isOwn = courses.length > 0 && courses.every(({ legs }) => legs.length > 0 && legs.every((leg) => loopbacks.has(leg.interface)));
    this.empty.hidden = courses.length > 0 && !isOwn;
    put(this.empty, isOwn ? "All hosts are on this machine: their packets use the loopback, which has no receive queues or interrupts. "
      + "The sending CPU also receives them." : "No connected hosts");
    this.figure.hidden = courses.length === 0 || isOwn;
    this.table.element.hidden = courses.length === 0;
    const ways = new Map(courses.map(({ flow, legs }) => [flow, legs]));
    // I/O queues that come in by one receive queue; where another were free, that would be a finding.
    this.shared = new Map();
    for (const { flow, legs } of courses) {
      for (const leg of topology.flows[flow].queue_id > 0 ? legs : []) this.shared.set(place(leg), (this.shared.get(place(leg)) ?? 0) + 1);
    }
    this.table.update(topology.flows.map((flow, at) => this.row(flow, ways.get(at) ?? [], loopbacks,
      findings.filter(({ flows }) => flows.includes(at)))));
    this.unseen.hidden = topology.shortfalls.length === 0;
    this.elsewhere.replaceChildren(...topology.shortfalls.flatMap(({ what, reason }) => [make("dt", {}, name(what)), make("dd", {}, name(reason))]));
  }

  row(flow, all, loopbacks, findings) {
    const faults = findings.map(({ kind }) => FAULTS[kind]).filter(Boolean);
    const legs = all.filter((leg) => !loopbacks.has(leg.interface));
    const isOwn = all.length > legs.length;
    const without = isOwn ? "none" : "unknown";
    const unknown = legs.map(({ steering }) => steering.reason).find(Boolean);
    const isShared = flow.queue_id > 0 && legs.some((leg) => leg.queue !== null && this.shared.get(place(leg)) > 1);
    const isGood = legs.length > 0 && legs.every((leg) => leg.is_workers);
    const { worker } = flow;
    const isKept = worker?.allowed === String(worker?.cpu);
    const where = worker === null ? "unknown" : worker.cpu === null ? `one of ${worker.allowed}` : `CPU ${worker.cpu}${isKept ? "" : ", last seen"}`;
    const row = {
      key: JSON.stringify([flow.controller, flow.queue_id, flow.local, flow.peer]),
      place: Number(/\d+$/.exec(flow.controller)?.[0] ?? 0) * 65536 + flow.queue_id,
      queue: `${flow.controller.replace("cntlid", "controller")}, ${flow.queue_id === 0 ? "admin" : `queue ${flow.queue_id}`}`,
      host: this.hosts?.get(flow.controller) ?? "unknown",
      by: flow.interface === null ? "unknown" : all.every((leg) => leg.interface === flow.interface) ? flow.interface
        : `${flow.interface} (${all.map((leg) => leg.interface).join(", ")})`,
      receive: joined(legs.map((leg) => leg.queue), without),
      irq: joined(legs.map((leg) => leg.irq), without),
      cpu: joined(legs.map(cpu), isOwn ? "the sender's" : "unknown"),
      reactor: where,
      state: faults.length > 0 ? faults.join(", ") : isOwn ? "on this machine" : unknown ? `unknown: ${unknown}` : isShared ? "shares its receive queue; none is free" : isGood ? "good" : "no known problem",
      level: faults.length > 0 ? "warning" : undefined,
    };
    row.words = visible([row.queue, row.host, row.by, flow.peer, row.state].join(" ")).toLowerCase();
    return row;
  }
}
