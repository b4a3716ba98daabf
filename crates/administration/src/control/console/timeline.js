// Gateways that served each load-balancing group over time: a bar for each group, in the colour of the gateway that serves it.
// During a takeover the bar is a dashed outline; while no gateway serves the group, there is a gap.

import { BOTTOM, LEFT, Picture, TOP } from "./chart.js";
import { draw, visible } from "./text.js";

const SPAN_S = 3600;
const SPAN_S_MIN = 300;
const ROW = 26;
const BAR = 18;
const COLOURS = 5;
// A takeover takes seconds of an hour, and is what one looks for.
const WAY_MIN = 3;
// As wide as a letter of a name is at most.
const LETTER = 8;

const WHAT = {
  gateway_there: "joined", gateway_given_up: "sent no heartbeat; others take over its groups", gateway_left: "shut down",
  gateway_removed: "was removed from the group", gateway_drained: "was drained", gateway_resumed: "was resumed",
};
const STATES = { fencing: "takes over, waiting for fencing", handing_over: "takes over" };

// An event in words. `way_s` is how long the group was on its way, where it has come to its end.
const happened = (event, way_s) => {
  const gateway = visible(event.gateway ?? "unknown");
  if (event.what in WHAT) return `gateway ${gateway} ${WHAT[event.what]}`;
  const group = `group ${event.load_balancing_group}`;
  if (event.what === "load_balancing_group_gone") return `${group} was removed`;
  if (event.what !== "load_balancing_group_moves") return event.what.replaceAll("_", " ");
  if (event.gateway === undefined) return `${group}: not served`;
  if (event.state !== "serving") return `${group}: ${gateway} ${STATES[event.state] ?? event.state}`;
  return `${group}: served by ${gateway}${way_s === undefined ? "" : `, takeover took ${way_s.toFixed(1)} s`}`;
};

// The stretches of each group: from when to when who had it. An event is given how long its group was on its way.
const stretches = (events, now_ms) => {
  const groups = new Map();
  const ways = new Map();
  for (const event of events) {
    if (event.load_balancing_group === undefined) continue;
    const all = groups.get(event.load_balancing_group) ?? [];
    const before = all[all.length - 1];
    if (before) before.to_ms = event.time_ms;
    const serves = event.what === "load_balancing_group_moves" && event.state === "serving" && event.gateway !== undefined;
    if (serves && before && !before.serves) ways.set(event, (event.time_ms - before.since_ms) / 1000);
    if (event.what === "load_balancing_group_moves") {
      all.push({ from_ms: event.time_ms, to_ms: now_ms, gateway: event.gateway, serves,
        since_ms: before && !before.serves && !serves ? before.since_ms : event.time_ms });
    }
    groups.set(event.load_balancing_group, all);
  }
  return { groups, ways };
};

export class Timeline extends Picture {
  constructor() {
    super("Gateways that served each load-balancing group", 80);
    this.gateways = [];
  }

  tell(point) { return point.text; }

  // `update` of a picture is called again when its place has another width.
  update() { if (this.group) this.take(this.group, this.now_s); }

  // Draws a group, and gives all that happened, each with its time and in words.
  take(group, now_s) {
    this.group = group;
    this.now_s = now_s;
    const { groups, ways } = stretches(group.events, now_s * 1000);
    const moments = group.events.map((event) => ({ time_s: event.time_ms / 1000, text: happened(event, ways.get(event)) }));
    this.points = moments.filter((point) => point.time_s > now_s - SPAN_S);
    const began = Math.min(now_s, ...moments.map((point) => point.time_s));
    this.last = now_s;
    this.first = Math.min(Math.max(began, now_s - SPAN_S), now_s - SPAN_S_MIN);
    this.name(group);
    const rows = [...groups].filter(([, all]) => all.length > 0).sort(([one], [other]) => one - other);
    this.height = TOP + rows.length * ROW + BOTTOM;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const y = (row) => TOP + row * ROW;
    this.frame(rows.map(([number], row) => ({ y: y(row) + BAR / 2, text: `group ${number}` })));
    this.content.replaceChildren(...rows.flatMap(([, all], row) => this.bars(all, y(row))));
    this.show(this.at !== null && this.at < this.points.length ? this.at : null);
    return moments;
  }

  // Takeovers are drawn last, over the bars beside them: they are narrow.
  bars(all, top) {
    const seen = all.filter((one) => one.to_ms / 1000 > this.first && one.gateway !== undefined);
    return [true, false].flatMap((serves) => seen.filter((one) => one.serves === serves)).flatMap((one) => {
      const left = Math.max(LEFT, this.x(one.from_ms / 1000));
      const wide = Math.max(one.serves ? 0.5 : WAY_MIN, this.x(one.to_ms / 1000) - left);
      const kind = `${one.serves ? "area" : "way"} s${this.gateways.indexOf(one.gateway) % COLOURS}`;
      const bar = draw("rect", { class: kind, x: left.toFixed(1), y: top, width: wide.toFixed(1), height: BAR });
      const name = visible(one.gateway);
      if (!one.serves || wide < (name.length + 1) * LETTER) return [bar];
      return [bar, draw("text", { class: "within", x: (left + 6).toFixed(1), y: top + BAR - 5 }, name)];
    });
  }

  // The colours, and what an outline is.
  name(group) {
    const names = [...new Set([...group.gateways.map((gateway) => gateway.name),
      ...group.events.map((event) => event.gateway).filter((name) => name !== undefined)])];
    if (names.join("\n") === this.gateways.join("\n")) return;
    this.gateways = names;
    this.legend.replaceChildren();
    this.explain([...names.map((name, at) => [`s${at % COLOURS}`, visible(name)]), ["way", "takeover"]]);
  }
}
