// Sweeps that `selvedge sweep --publish` measures here, running and past, in the words and colours of their reports.

import { bandwidth, clock, count, make, name, percent, plural, put, since, time, visible } from "./text.js";
import { Curves } from "./chart.js";
import { Table } from "./table.js";
import { link } from "./views.js";

// Interval of requests while the view is shown.
const PAUSE_MS = 3000;
// As many lines as a picture of a report has, and workloads that have pictures here.
const LINES_MAX = 8;
const WORKLOADS_MAX = 8;

// Horizontal axis of pictures: name in titles, name below the axis, and true if it is logarithmic.
const ALONG = {
  outstanding: ["outstanding I/O", "outstanding commands", true],
  queues: ["I/O queues", "I/O queues of each path (-i)", true],
  load: ["load", "load", false],
};
const PICTURES = [
  ["IOPS", "More is better.", (point) => point.iops, count],
  ["p99 latency", "Less is better. 99 of 100 commands took no longer.", (point) => point.p99_ns, (ns) => time(ns / 1000)],
];
const LEVELS = { running: "notice", silent: "warning", complete: "ok", interrupted: "notice", failed: "critical" };

const words = (...texts) => texts.map(visible).join(" ").toLowerCase();
const named = (text) => {
  const element = name(text);
  element.className = "wide";
  element.dataset.content = element.textContent;
  return element;
};
const short = (text) => make("span", { class: "plain short", "data-content": text }, text);
const moment = (seconds) => {
  const date = new Date(seconds * 1000);
  // Swedes write dates as everybody can read them.
  return date.toDateString() === new Date().toDateString() ? clock(seconds) : `${date.toLocaleDateString("sv")} ${clock(seconds)}`;
};
const begun = (sweep) => moment(Date.parse(sweep.began) / 1000);
const state = (sweep) => sweep.state === "silent" ? `no message since ${moment(sweep.heard_s)}` : sweep.state;
const mark = (sweep) => make("span", { class: "mark short", "data-level": LEVELS[sweep.state] ?? "notice", "data-content": state(sweep) },
  state(sweep));
const keyOf = (sweep) => JSON.stringify([sweep.subsystem, sweep.name]);
const measured = (sweep) => `${sweep.done} of ${sweep.planned}${sweep.failed > 0 ? `, ${sweep.failed} failed` : ""}`;

export class Sweeps {
  constructor([nqn, title], ask) {
    this.ask = ask;
    this.chosen = title === undefined ? null : JSON.stringify([nqn, title]);
    this.asked = 0;
    this.shown = null;
    this.remark = make("p", { class: "note" }, "Loading");
    this.none = make("p", { class: "empty", hidden: true }, "No sweep has been published here since the target started. "
      + "To publish one from the measuring machine: ", make("code", { dir: "ltr" },
      "selvedge sweep -a ADDRESS --preset quick --publish --control tls:ADDRESS:PORT --control-token-file FILE"));
    this.one = new Sweep();
    this.table = new Table("Sweeps", [
      { head: "Sweep", sort: (row) => row.name, of: (row) => link(["sweeps", row.subsystem, row.name], named(row.name)) },
      { head: "State", sort: (row) => state(row), of: mark },
      { head: "Measurements", number: true, sort: (row) => row.done / Math.max(1, row.planned), of: (row) => short(measured(row)) },
      { head: "Last message", sort: (row) => row.heard_s, of: (row) => short(moment(row.heard_s)) },
      { head: "Subsystem", sort: (row) => row.subsystem, of: (row) => named(row.subsystem) },
      { head: "Namespace", number: true, sort: (row) => row.nsid, of: (row) => String(row.nsid) },
      { head: "Machine", sort: (row) => row.machine ?? "", of: (row) => named(row.machine ?? "–") },
      { head: "Started", sort: (row) => row.began, of: (row) => short(begun(row)) },
    ], { sort: 3, descending: true });
    this.all = make("section", { hidden: true }, make("h2", {}, "Running and past sweeps"), this.table.element);
    this.element = make("div", {}, this.remark, this.none, this.one.element, this.all);
  }

  update(model) {
    this.now_s = model.tick?.time_s ?? Date.now() / 1000;
    if (Date.now() - this.asked > PAUSE_MS && !this.asks) this.fetch();
  }

  async fetch() {
    this.asked = Date.now();
    this.asks = true;
    try {
      const { sweeps } = await (await this.ask("/v1/sweeps")).json();
      const sweep = this.choose(sweeps);
      const lost = this.chosen !== null && !sweep;
      this.remark.hidden = !lost;
      put(this.remark, lost ? "This sweep is no longer kept: the target keeps the latest ones until it ends." : "");
      this.none.hidden = sweeps.length > 0;
      this.all.hidden = sweeps.length === 0;
      this.table.update(sweeps.map((row) => ({ ...row, key: keyOf(row),
        words: words(row.name, state(row), row.machine ?? "", row.subsystem, row.nsid) })));
      this.one.element.hidden = !sweep;
      if (!sweep) return;
      this.one.progress(sweep, this.now_s);
      // Points are requested when they have changed.
      const version = [keyOf(sweep), sweep.began, sweep.heard_s, sweep.done, sweep.state].join();
      if (version === this.shown) return;
      const path = `/v1/subsystems/${encodeURIComponent(sweep.subsystem)}/sweeps/${encodeURIComponent(sweep.name)}`;
      this.one.take(await (await this.ask(path)).json());
      this.shown = version;
    } catch (error) {
      // The stream reports the state of the connection.
      if (!error.status) return;
      this.remark.hidden = false;
      put(this.remark, visible(error.message));
    } finally {
      this.asks = false;
    }
  }

  // The chosen sweep; else a running one, and the same one as long as it runs.
  choose(sweeps) {
    if (this.chosen !== null) return sweeps.find((sweep) => keyOf(sweep) === this.chosen);
    const running = sweeps.filter((sweep) => sweep.state === "running");
    const some = running.length > 0 ? running : sweeps;
    const sweep = some.find((sweep) => keyOf(sweep) === this.last) ?? some[0];
    this.last = sweep && keyOf(sweep);
    return sweep;
  }
}

// One sweep: how far it is, its pictures, and its points.
class Sweep {
  constructor() {
    this.title = make("bdi", { dir: "auto" });
    this.state = make("span", { role: "status" });
    this.bar = make("progress", { "aria-label": "Completed measurements", max: "1", value: "0" });
    this.far = make("p", { class: "note" });
    this.facts = make("dl", { class: "elsewhere facts" });
    this.figures = make("section", { class: "figures" });
    this.left = make("p", { class: "note", hidden: true });
    this.points = new Table("Points", [
      { head: "Point", sort: (row) => row.at, of: (row) => named(row.label || "single point") },
      { head: "Workload", sort: (row) => row.workload, of: (row) => short(visible(row.workload)) },
      { head: "IOPS", number: true, sort: (row) => row.iops.mean, of: (row) => count(row.iops.mean) },
      { head: "±", number: true, sort: (row) => row.doubt ?? -1, of: (row) => row.doubt === null ? "–" : percent(row.doubt) },
      { head: "Bandwidth", number: true, sort: (row) => row.bytes_per_s, of: (row) => bandwidth(row.bytes_per_s) },
      { head: "Mean", number: true, sort: (row) => row.mean_ns, of: (row) => time(row.mean_ns / 1000) },
      { head: "p99", number: true, sort: (row) => row.p99_ns.mean, of: (row) => time(row.p99_ns.mean / 1000) },
      { head: "Runs", number: true, sort: (row) => row.runs, of: (row) => String(row.runs) },
    ], { empty: "No measurements yet" });
    this.element = make("section", { hidden: true, class: "sweep" }, make("div", { class: "bar" }, make("h2", {}, this.title), this.state),
      this.bar, this.far, this.facts, this.figures, this.left, make("section", {}, make("h2", {}, "Points"), this.points.element));
    this.curves = new Map();
    this.known = "";
  }

  progress(sweep, now_s) {
    put(this.title, visible(sweep.name));
    this.state.className = "mark";
    this.state.dataset.level = LEVELS[sweep.state] ?? "notice";
    put(this.state, state(sweep));
    [this.bar.max, this.bar.value] = [Math.max(1, sweep.planned), sweep.done];
    const left_s = Math.max(0, (sweep.left_s ?? 0) - Math.max(0, now_s - sweep.heard_s));
    const runs = sweep.state === "running";
    put(this.far, [`${sweep.done} of ${plural(sweep.planned, "measurement")}`, sweep.failed > 0 ? `${sweep.failed} failed` : "",
      runs && sweep.left_s !== undefined ? `about ${since(left_s)} left` : "",
      sweep.measuring && runs ? `measuring ${visible(sweep.measuring)}` : "",
      sweep.measuring && sweep.state === "silent" ? `last measuring ${visible(sweep.measuring)}` : ""].filter(Boolean).join("; "));
    const facts = [["Namespace", `${sweep.nsid} of ${sweep.subsystem}`], ["Measured by", sweep.machine], ["Started", begun(sweep)],
      ["Reason", sweep.reason]].filter(([, text]) => text);
    const text = JSON.stringify(facts);
    if (text === this.known) return;
    this.known = text;
    this.facts.replaceChildren(...facts.flatMap(([label, text]) => [make("dt", {}, label), make("dd", {}, name(text))]));
  }

  take(sweep) {
    const workloads = [...new Set(sweep.points.map((point) => point.workload))];
    const drawn = workloads.slice(0, WORKLOADS_MAX);
    const kind = JSON.stringify([keyOf(sweep), sweep.along, drawn]);
    if (kind !== this.kind) {
      this.kind = kind;
      this.curves = new Map(drawn.map((workload) => [workload, this.pair(sweep, drawn.length > 1 ? `: ${visible(workload)}` : "")]));
      this.figures.replaceChildren(...[...this.curves.values()].flat().map((curves) => curves.figure));
    }
    for (const [workload, pair] of this.curves) this.draw(pair, sweep.points.filter((point) => point.workload === workload), sweep.along);
    const left = [[workloads.length - drawn.length, "workload"], [sweep.points_omitted, "point"]].filter(([number]) => number > 0);
    this.left.hidden = left.length === 0;
    put(this.left, left.map(([number, one]) => `${plural(number, one)} more ${one === "point" ? "are in its report" : "are in the table"}.`).join(" "));
    this.points.update(sweep.points.map((point, at) => ({ ...point, at, key: String(at).padStart(4, "0"),
      words: words(point.label, point.workload),
      doubt: point.iops.high === undefined ? null : (point.iops.high - point.iops.mean) / Math.max(1e-9, point.iops.mean) })));
  }

  pair(sweep, workload) {
    const [by, axis] = ALONG[sweep.along] ?? ALONG.outstanding;
    return PICTURES.map(([title, caption, , unit]) => new Curves(`${title} by ${by}${workload}`, caption, axis, unit));
  }

  draw(pair, points, along) {
    const names = [...new Set(points.map((point) => point.line))];
    const [, , isLogarithmic] = ALONG[along] ?? ALONG.outstanding;
    PICTURES.forEach(([, caption, of], number) => {
      const lines = names.slice(0, LINES_MAX).map((line) => ({ name: line, points: points
        .filter((point) => point.line === line && point.x > 0)
        .map((point) => ({ x: point.x, y: of(point).mean, low: of(point).low, high: of(point).high })) }));
      const more = names.length - LINES_MAX;
      put(pair[number].caption, caption + (more > 0 ? ` ${plural(more, "line")} more are in the table.` : ""));
      pair[number].take(lines.filter((line) => line.points.length > 0), isLogarithmic);
    });
  }
}
