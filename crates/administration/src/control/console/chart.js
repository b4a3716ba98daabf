// Pictures: lines, shares, and heat over the last hour, and curves over a number. Each is one stop of Tab, in which the arrow
// keys move from moment to moment, or from number to number; what is there is shown and said. Colours are those of the reports
// (chart.css).

import { clock, count, draw, make, put, say, visible } from "./text.js";

// Width of a picture before it has a place; later it has the width of its place, which keeps the size of its text.
const WIDTH = 720;
const WIDTH_MIN = 240;
export const LEFT = 62;
const RIGHT = 8;
export const TOP = 8;
export const BOTTOM = 22;
const HEATS = 8;

export class Picture {
  constructor(title, height, moves = "through time", bottom = BOTTOM) {
    this.height = height;
    this.bottom = bottom;
    this.width = WIDTH;
    this.moves = moves;
    this.points = [];
    this.at = null;
    this.svg = draw("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "application", tabindex: "0",
      "aria-roledescription": "chart" });
    this.ground = draw("g");
    this.content = draw("g");
    this.cursor = draw("path", { class: "cursor", d: "" });
    this.svg.append(this.ground, this.content, this.cursor);
    this.reading = make("p", { class: "reading" });
    this.legend = make("ul", { class: "legend" });
    this.heading = make("h3");
    this.figure = make("figure", {}, make("figcaption", {}, this.heading, this.legend), this.svg, this.reading);
    this.entitle(title);
    this.watcher = new ResizeObserver(() => this.fit());
    this.watcher.observe(this.figure);
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.show(null));
    this.svg.addEventListener("blur", () => this.show(null));
  }

  entitle(title) {
    put(this.heading, title);
    this.svg.setAttribute("aria-label", `${title}; the arrow keys move ${this.moves}`);
  }

  fit() {
    const width = Math.max(WIDTH_MIN, Math.round(this.svg.clientWidth || this.width));
    if (width === this.width) return;
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.update(this.points);
  }

  // A value of an axis: nothing is nothing, whatever a value of nothing means elsewhere.
  axis(value) { return value === 0 ? "0" : this.unit(value); }

  // Moments that the picture spans: an hour, or as much of it as there is.
  span(points) {
    const last = points.length > 0 ? points[points.length - 1].time_s : 0;
    const first = points.length > 0 ? points[0].time_s : 0;
    this.last = last;
    this.first = Math.min(first, last - 300);
  }

  // Place and name of a stop of the arrow keys, and the text while none is chosen.
  place(point) { return this.x(point.time_s); }

  called(point) { return clock(point.time_s); }

  idle() { return this.points.length > 0 ? `now: ${this.tell(this.points[this.points.length - 1])}` : "No data yet"; }

  x(time) { return LEFT + (time - this.first) / (this.last - this.first) * (this.width - LEFT - RIGHT); }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || this.points.length === 0) return;
    event.preventDefault();
    const from = this.at ?? (step < 0 ? this.points.length : -1);
    this.show(Math.max(0, Math.min(this.points.length - 1, from + step)));
    say(this.reading.textContent);
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * this.width;
    let nearest = null;
    this.points.forEach((point, at) => {
      if (nearest === null || Math.abs(this.place(point) - x) < Math.abs(this.place(this.points[nearest]) - x)) nearest = at;
    });
    this.show(nearest);
  }

  show(at) {
    this.at = at;
    const point = at === null ? null : this.points[at];
    this.cursor.setAttribute("d", point ? `M${this.place(point).toFixed(1)} ${TOP}V${this.height - this.bottom}` : "");
    put(this.reading, point ? `${this.called(point)}: ${this.tell(point)}` : this.idle());
  }

  // Lines across with their values, and moments below.
  frame(rows) {
    const parts = [];
    for (const { y, text } of rows) {
      parts.push(draw("path", { class: "grid", d: `M${LEFT} ${y.toFixed(1)}H${this.width - RIGHT}` }));
      parts.push(draw("text", { class: "tick", x: LEFT - 6, y: (y + 4).toFixed(1), "text-anchor": "end" }, text));
    }
    for (const [x, anchor, text] of this.points.length > 0 ? this.feet() : []) {
      parts.push(draw("text", { class: "tick", x: x.toFixed(1), y: this.height - this.bottom + 17, "text-anchor": anchor }, text));
    }
    this.ground.replaceChildren(...parts);
  }

  feet() {
    return [[this.first, "start"], [(this.first + this.last) / 2, "middle"], [this.last, "end"]]
      .map(([time, anchor]) => [this.x(time), anchor, clock(time)]);
  }

  explain(entries) {
    if (this.legend.childElementCount > 0) return;
    this.legend.append(...entries.map(([kind, text]) => make("li", { class: kind }, make("span", { class: "swatch" }),
      make("span", { class: "text" }, text))));
  }

  // Gaps where steps are missing: no page was open, and a line would be a guess.
  gaps(points) {
    return points.map((point, at) => at === 0 || point.time_s - points[at - 1].time_s > 2.5 * (points[at - 1].interval_s + 1));
  }
}

const rounded = (value, factors = [1, 2, 5, 10]) => {
  const scale = 10 ** Math.floor(Math.log10(value));
  return factors.map((factor) => factor * scale).find((end) => end >= value);
};

// Lines over time: `series` are [class, name, value of a point or null]; `unit` writes a value.
export class Lines extends Picture {
  constructor(title, series, unit) {
    super(title, 190);
    this.series = series;
    this.unit = unit;
    this.explain(series);
  }

  tell(point) {
    return this.series.map(([, name, of]) => `${name} ${of(point) === null ? "none" : this.unit(of(point))}`).join(", ");
  }

  update(points) {
    this.points = points;
    this.span(points);
    const values = this.series.flatMap(([, , of]) => points.map(of)).filter((value) => value !== null);
    const most = rounded(Math.max(1, ...values));
    const y = (value) => this.height - BOTTOM - value / most * (this.height - BOTTOM - TOP);
    this.frame([0, 0.5, 1].map((share) => ({ y: y(most * share), text: this.axis(most * share) })));
    const gaps = this.gaps(points);
    this.content.replaceChildren(...this.series.map(([kind, , of]) => {
      let path = "";
      let pen = "M";
      points.forEach((point, at) => {
        const value = of(point);
        if (value === null) { pen = "M"; return; }
        if (gaps[at]) pen = "M";
        path += `${pen}${this.x(point.time_s).toFixed(1)} ${y(value).toFixed(1)}`;
        // A point on its own would not be seen.
        if (pen === "M") path += "h0.01";
        pen = "L";
      });
      return draw("path", { class: `line ${kind}`, d: path });
    }));
    this.show(this.at !== null && this.at < points.length ? this.at : null);
  }
}

// Bars of several parts over time: `parts` are [class, name, value of a point].
export class Parts extends Picture {
  constructor(title, parts, unit) {
    super(title, 190);
    this.parts = parts;
    this.unit = unit;
    this.explain(parts);
  }

  tell(point) {
    const spent = this.parts.filter(([, , of]) => of(point) > 0);
    return spent.length === 0 ? "no time" : spent.map(([, name, of]) => `${name} ${this.unit(of(point))}`).join(", ");
  }

  update(points) {
    this.points = points;
    this.span(points);
    const whole = (point) => this.parts.reduce((sum, [, , of]) => sum + of(point), 0);
    const most = rounded(Math.max(1, ...points.map(whole)));
    const scale = (this.height - BOTTOM - TOP) / most;
    this.frame([0, 0.5, 1].map((share) => ({ y: this.height - BOTTOM - most * share * scale, text: this.axis(most * share) })));
    const paths = this.parts.map(() => "");
    for (const point of points) {
      const width = Math.max(0.6, this.x(this.first + point.interval_s) - LEFT);
      let y = this.height - BOTTOM;
      this.parts.forEach(([, , of], number) => {
        const high = of(point) * scale;
        if (high <= 0) return;
        y -= high;
        paths[number] += `M${(this.x(point.time_s) - width).toFixed(1)} ${y.toFixed(2)}h${width.toFixed(1)}v${high.toFixed(2)}`
          + `h${(-width).toFixed(1)}z`;
      });
    }
    this.content.replaceChildren(...paths.map((d, number) => draw("path", { class: `area ${this.parts[number][0]}`, d })));
    this.show(this.at !== null && this.at < points.length ? this.at : null);
  }
}

// Heat: how many commands took how long, over time. A bucket's end is twice the one before.
const COLUMNS_MAX = 240;

export class Heat extends Picture {
  constructor(title, buckets, tell, unit) {
    super(title, 260);
    this.buckets = buckets;
    this.tell = tell;
    this.unit = unit;
    this.explain([...Array(HEATS).keys()].filter((heat) => heat % 2 === 1)
      .map((heat) => [`heat h${heat}`, heat === 1 ? "few" : heat === HEATS - 1 ? "most" : ""]));
  }

  update(points) {
    this.points = points;
    this.span(points);
    // Several steps share a column where there are more steps than columns.
    const span = (this.last - this.first) / COLUMNS_MAX;
    const shared = new Map();
    for (const point of points) {
      const number = Math.floor((point.time_s - this.first) / span);
      const column = shared.get(number) ?? { from: point.time_s - point.interval_s, to: point.time_s, counts: [] };
      column.to = point.time_s;
      this.buckets(point).forEach((commands, bucket) => { column.counts[bucket] = (column.counts[bucket] ?? 0) + commands; });
      shared.set(number, column);
    }
    const columns = [...shared.values()];
    const rows = Math.max(8, ...columns.map((column) => column.counts.length));
    const high = (this.height - BOTTOM - TOP) / rows;
    const y = (bucket) => this.height - BOTTOM - (bucket + 1) * high;
    const ends = [...Array(rows).keys()].filter((bucket) => bucket % Math.ceil(rows / 6) === 0);
    this.frame(ends.map((bucket) => ({ y: y(bucket), text: this.unit(2 ** bucket) })));
    // A few slow commands among a million must be seen, so that colours go by powers.
    const most = Math.max(1, ...columns.flatMap((column) => column.counts));
    const paths = Array(HEATS).fill("");
    for (const column of columns) {
      const [left, right] = [Math.max(LEFT, this.x(column.from)), this.x(column.to)];
      column.counts.forEach((commands, bucket) => {
        if (!commands) return;
        const heat = Math.min(HEATS - 1, Math.floor(Math.log1p(commands) / Math.log1p(most) * HEATS));
        paths[heat] += `M${left.toFixed(1)} ${y(bucket).toFixed(1)}H${right.toFixed(1)}v${high.toFixed(1)}H${left.toFixed(1)}z`;
      });
    }
    this.content.replaceChildren(...paths.map((d, heat) => draw("path", { class: `cell h${heat}`, d })));
    this.show(this.at !== null && this.at < points.length ? this.at : null);
  }
}

// Lines over a number that they share, with what may be chance at each point. Shapes are those of the reports, for those who do
// not tell colours apart.
const SHAPES = [
  "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z", "M-3.17 -3.17h6.34v6.34h-6.34z", "M0 -4.39L4.39 3.51H-4.39z",
  "M0 -4.39L4.39 0L0 4.39L-4.39 0z", "M0 4.39L4.39 -3.51H-4.39z",
  "M-1.51 -4.32h3.02v2.81h2.81v3.02h-2.81v2.81h-3.02v-2.81h-2.81v-3.02h2.81z",
  "M-4.39 0L-2.16 -3.17H2.16L4.39 0L2.16 3.17H-2.16z",
];
const COLOURS = 8;
// Between the frame and the first and last points, and between two numbers below.
const MARGIN = 20;
const FOOT = 46;

export class Curves extends Picture {
  // `axis` is what the number is called, `unit` writes a value.
  constructor(title, caption, axis, unit) {
    super(title, 230, "from point to point", 42);
    this.caption = make("p", {}, caption);
    this.figure.firstElementChild.append(this.caption);
    this.name = axis;
    this.unit = unit;
    this.lines = [];
    this.named = "";
  }

  // `lines` are `{ name, points }`, each point with `x`, `y`, and `low` and `high` where they are known.
  take(lines, isLogarithmic) {
    this.lines = lines;
    this.scale = isLogarithmic ? Math.log2 : (value) => value;
    const stops = new Map();
    for (const { name, points } of lines) {
      for (const { x, y } of points) stops.set(x, [...stops.get(x) ?? [], [name, y]]);
    }
    this.explainLines(lines.map((line) => line.name));
    this.update([...stops].map(([x, values]) => ({ x, values })).sort((a, b) => a.x - b.x));
  }

  place(point) { return this.x(point.x); }

  called(point) { return `${this.name} ${count(point.x)}`; }

  tell({ values }) { return values.map(([name, y]) => `${name ? `${visible(name)} ` : ""}${this.unit(y)}`).join(", "); }

  idle() { return this.points.length > 0 ? "" : "No measurements yet"; }

  x(value) {
    const [first, last] = [this.points[0], this.points[this.points.length - 1]].map((point) => this.scale(point.x));
    const [left, right] = [LEFT + MARGIN, this.width - RIGHT - MARGIN];
    return last > first ? left + (this.scale(value) - first) / (last - first) * (right - left) : (left + right) / 2;
  }

  // The numbers that were measured, as far as there is room.
  feet() {
    const feet = [];
    for (const point of this.points) {
      const x = this.place(point);
      if (feet.length === 0 || x - feet[feet.length - 1][0] >= FOOT) feet.push([x, "middle", count(point.x)]);
    }
    return feet;
  }

  explainLines(names) {
    const named = names.join("\n");
    if (named === this.named) return;
    this.named = named;
    this.legend.replaceChildren(...named === "" ? [] : names.map((name, at) => make("li", { class: `s${at % COLOURS}` },
      draw("svg", { viewBox: "-6 -6 12 12", "aria-hidden": "true" }, draw("path", { d: SHAPES[at % SHAPES.length] })),
      make("span", { class: "text" }, visible(name)))));
  }

  update(points) {
    this.points = points;
    const values = this.lines.flatMap((line) => line.points.map((point) => point.y));
    const most = rounded(Math.max(1e-3, ...values), [1, 1.5, 2, 3, 4, 5, 6, 8, 10]);
    const y = (value) => this.height - this.bottom - Math.min(1, value / most) * (this.height - this.bottom - TOP);
    this.frame([0, 0.5, 1].map((share) => ({ y: y(most * share), text: this.axis(most * share) })));
    this.ground.append(draw("text", { class: "label", x: ((LEFT + this.width - RIGHT) / 2).toFixed(1), y: this.height - 6,
      "text-anchor": "middle" }, this.name));
    // The first one lies above the others.
    this.content.replaceChildren(...this.lines.map((line, number) => this.line(line, number, y)).reverse());
    this.show(this.at !== null && this.at < points.length ? this.at : null);
  }

  line({ points }, number, y) {
    const places = points.map((point) => [this.x(point.x).toFixed(1), y(point.y).toFixed(1), point]);
    const known = places.filter(([, , point]) => point.low !== undefined && point.high !== undefined);
    // Whiskers of several lines would hide each other.
    const gaps = this.lines.length - 1;
    const aside = (number - gaps / 2) * Math.min(3, 18 / Math.max(1, gaps));
    const whiskers = known.map(([x, , { low, high }]) => {
      const [at, from, to] = [Number(x) + aside, y(low), y(high)].map((value) => value.toFixed(1));
      return `M${at} ${from}V${to}m-3.5 0h7M${at} ${from}m-3.5 0h7`;
    });
    return draw("g", { class: `s${number % COLOURS}` }, draw("path", { class: "whisker", d: whiskers.join("") }),
      draw("path", { class: "line", d: places.map(([x, top], at) => `${at === 0 ? "M" : "L"}${x} ${top}`).join("") }),
      ...places.map(([x, top]) => draw("path", { class: "point", transform: `translate(${x} ${top})`,
        d: SHAPES[number % SHAPES.length] })));
  }
}
