// Tooltips, keys, sorting and saving for the page. All content can be read without this script.
"use strict";
(() => {
  const said = document.getElementById("said");
  const all = (from, what) => Array.from(from.querySelectorAll(what));
  const make = (name, attributes, text) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const say = (text) => { said.textContent = text; };
  const linesOf = (element) => element.getAttribute("aria-label").split("\n");

  // Charts.

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.svg = figure.querySelector("svg.chart");
      this.picture = figure.querySelector(".picture");
      this.lines = all(this.svg, ".series").sort((a, b) => a.dataset.series - b.dataset.series)
        .map((group) => all(group, ".point")).filter((points) => points.length > 0);
      this.hidden = new Set();
      this.here = null;
      this.tip = make("div", { class: "tip", hidden: "" });
      this.picture.append(this.tip);
      if (this.lines.length > 0) this.takeKeys();
      if (this.svg.querySelector(".cell")) this.takeCellKeys();
      this.takeFocus();
      this.takePointer();
      all(this.svg, ".entry").forEach((entry) => this.makeSwitch(entry));
      this.addActions();
    }

    // A chart with points is interactive; with the role of an image, screen readers would skip its points. The name stays.
    becomeInteractive() {
      this.svg.setAttribute("role", "application");
      this.svg.setAttribute("aria-roledescription", "chart; arrow keys move between its points");
    }

    takeKeys() {
      this.becomeInteractive();
      for (const points of this.lines) {
        for (const point of points) {
          point.setAttribute("role", "img");
          point.setAttribute("tabindex", "-1");
        }
      }
      this.lines[0][0].setAttribute("tabindex", "0");
      this.svg.addEventListener("keydown", (event) => {
        const from = event.target.closest(".point");
        const to = from && this.next(from, event.key);
        if (!to) return;
        event.preventDefault();
        this.moveTo(to);
      });
    }

    shownLines() { return this.lines.filter((points) => !this.hidden.has(points[0].parentNode.dataset.name)); }

    next(from, key) {
      if (key === "Escape") { this.leave(); return null; }
      const lines = this.shownLines();
      const row = lines.findIndex((points) => points.includes(from));
      if (row < 0) return null;
      const column = lines[row].indexOf(from);
      switch (key) {
        case "ArrowRight": return lines[row][Math.min(column + 1, lines[row].length - 1)];
        case "ArrowLeft": return lines[row][Math.max(column - 1, 0)];
        case "Home": return lines[row][0];
        case "End": return lines[row][lines[row].length - 1];
        case "ArrowDown": return nearest(lines[Math.min(row + 1, lines.length - 1)], from);
        case "ArrowUp": return nearest(lines[Math.max(row - 1, 0)], from);
        default: return null;
      }
    }

    moveTo(point) {
      all(this.svg, ".point[tabindex='0'], .cell[tabindex='0']").forEach((other) => other.setAttribute("tabindex", "-1"));
      point.setAttribute("tabindex", "0");
      point.focus({ preventScroll: true });
    }

    // Cells of a heat map: right and left in time, up and down in value.
    takeCellKeys() {
      this.becomeInteractive();
      const cells = new Map();
      for (const cell of all(this.svg, ".cell")) {
        cells.set(`${cell.dataset.column} ${cell.dataset.row}`, cell);
        cell.setAttribute("role", "img");
        cell.setAttribute("tabindex", "-1");
      }
      this.svg.querySelector(".cell").setAttribute("tabindex", "0");
      const ways = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      const columns = Math.max(...all(this.svg, ".cell").map((cell) => Number(cell.dataset.column)));
      const rows = Math.max(...all(this.svg, ".cell").map((cell) => Number(cell.dataset.row)));
      this.svg.addEventListener("keydown", (event) => {
        const from = event.target.closest(".cell");
        const way = ways[event.key];
        if (!from || !way) return;
        event.preventDefault();
        let column = Number(from.dataset.column) + way[0];
        let row = Number(from.dataset.row) + way[1];
        // Empty cells are not drawn: the next one that way that is.
        for (; column >= 0 && row >= 0 && column <= columns && row <= rows; column += way[0], row += way[1]) {
          const to = cells.get(`${column} ${row}`);
          if (to) { this.moveTo(to); return; }
        }
      });
    }

    // Listens outside of the picture: an SVG element that listens itself becomes a stop for Tab.
    takeFocus() {
      this.picture.addEventListener("focusin", (event) => {
        const found = event.target.closest(".point, .cell");
        if (found) this.arrive(found, true); else this.leave();
      });
      this.picture.addEventListener("focusout", () => this.leave());
    }

    takePointer() {
      this.svg.addEventListener("pointermove", (event) => {
        const found = event.target.closest(".cell") || this.pointAt(event);
        if (found) this.arrive(found, false); else this.leave();
      });
      this.svg.addEventListener("pointerleave", () => this.leave());
    }

    pointAt(event) {
      let best = null;
      let least = 28;
      for (const point of this.shownLines().flat()) {
        const [x, y] = centre(point);
        const distance = Math.hypot(x - event.clientX, y - event.clientY);
        if (distance < least) { least = distance; best = point; }
      }
      return best;
    }

    arrive(element, isKeyboard) {
      if (this.here === element && !isKeyboard) return;
      if (this.here) this.here.classList.remove("here");
      this.here = element;
      element.classList.add("here");
      const [first, ...rest] = linesOf(element);
      this.tip.replaceChildren(make("b", {}, first), ...rest.map((line) => make("span", {}, line)));
      this.tip.hidden = false;
      this.place(element);
      if (isKeyboard) say(linesOf(element).join(", "));
    }

    // Beside the point, inside of the picture.
    place(element) {
      const [x, y] = centre(element);
      const box = this.picture.getBoundingClientRect();
      const tip = this.tip.getBoundingClientRect();
      let left = x - box.left + 14;
      if (left + tip.width > box.width) left = x - box.left - 14 - tip.width;
      const top = y - box.top - tip.height - 10;
      this.tip.style.left = `${Math.max(0, Math.min(left, box.width - tip.width))}px`;
      this.tip.style.top = `${top < 0 ? y - box.top + 14 : top}px`;
    }

    leave() {
      if (this.here) this.here.classList.remove("here");
      this.here = null;
      this.tip.hidden = true;
    }

    makeSwitch(entry) {
      const name = entry.dataset.name;
      const label = entry.querySelector(".name").textContent;
      for (const [key, value] of Object.entries({ role: "button", tabindex: "0", "aria-pressed": "true" })) {
        entry.setAttribute(key, value);
      }
      entry.setAttribute("aria-label", `Show ${label}`);
      const turn = () => {
        const hide = !this.hidden.has(name);
        // A picture without any line shows nothing.
        const names = new Set(this.lines.map((points) => points[0].parentNode.dataset.name));
        if (hide && this.hidden.size + 1 >= names.size) return;
        if (hide) this.hidden.add(name); else this.hidden.delete(name);
        entry.setAttribute("aria-pressed", String(!hide));
        all(this.svg, `.series[data-name="${name}"]`).forEach((group) => {
          if (hide) group.setAttribute("display", "none"); else group.removeAttribute("display");
        });
        const shown = this.shownLines();
        const reachable = this.svg.querySelector(".point[tabindex='0']");
        if (reachable && !shown.flat().includes(reachable)) {
          reachable.setAttribute("tabindex", "-1");
          shown[0][0].setAttribute("tabindex", "0");
        }
        say(`${label} is ${hide ? "hidden" : "shown"}`);
      };
      entry.addEventListener("click", turn);
      entry.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); turn(); }
      });
    }

    addActions() {
      const title = this.figure.querySelector("h3").textContent;
      const actions = make("div", { class: "actions" });
      const svg = make("button", { class: "small", type: "button", "aria-label": `Save SVG of ${title}` }, "Save SVG");
      const csv = make("button", { class: "small", type: "button", "aria-label": `Save CSV of ${title}` }, "CSV");
      svg.addEventListener("click", () => save(`${this.figure.id}.svg`, "image/svg+xml", this.alone()));
      csv.addEventListener("click", () => {
        save(`${this.figure.id}.csv`, "text/csv", asCsv(this.figure.querySelector("table.data")));
      });
      actions.append(svg, csv);
      this.figure.append(actions);
    }

    // The picture as a file: with its style, without what only a page can do.
    alone() {
      const copy = this.svg.cloneNode(true);
      copy.setAttribute("role", "img");
      copy.removeAttribute("aria-roledescription");
      all(copy, "[tabindex]").forEach((element) => element.removeAttribute("tabindex"));
      const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
      style.textContent = document.getElementById("chart-style").textContent;
      const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      for (const [key, value] of [["class", "paper"], ["width", "100%"], ["height", "100%"]]) paper.setAttribute(key, value);
      copy.querySelector("desc").after(style, paper);
      return new XMLSerializer().serializeToString(copy);
    }
  }

  const centre = (element) => {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };

  const nearest = (points, from) => {
    const x = centre(from)[0];
    return points.reduce((best, point) =>
      (Math.abs(centre(point)[0] - x) < Math.abs(centre(best)[0] - x) ? point : best));
  };

  const save = (name, type, text) => {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = make("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    say(`${name} is saved`);
  };

  // Tables.

  const valueOf = (cell) => (cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent);

  const asCsv = (table) => {
    const rows = Array.from(table.tBodies[0].rows);
    const heads = Array.from(table.tHead.rows[0].cells);
    const spread = heads.map((_, column) => rows.some((row) => row.cells[column].dataset.low !== undefined));
    const quoted = (field) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
    const record = (cells, own, low, high) => cells.flatMap((cell, column) =>
      (spread[column] ? [own(cell), low(cell), high(cell)] : [own(cell)])).map(quoted).join(",");
    const key = (cell) => cell.dataset.key;
    const lines = [record(heads, key, (cell) => `${key(cell)}_low`, (cell) => `${key(cell)}_high`)];
    for (const row of rows) {
      lines.push(record(Array.from(row.cells), valueOf, (cell) => cell.dataset.low ?? "", (cell) => cell.dataset.high ?? ""));
    }
    return lines.map((line) => `${line}\r\n`).join("");
  };

  const sortBy = (table, column) => {
    const head = table.tHead.rows[0].cells[column];
    const isDown = head.getAttribute("aria-sort") === "ascending";
    Array.from(table.tHead.rows[0].cells).forEach((cell) => cell.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const isNumber = head.classList.contains("number");
    const keyed = Array.from(table.tBodies[0].rows).map((row) => [valueOf(row.cells[column]), row]);
    const order = isDown ? -1 : 1;
    keyed.sort(([a], [b]) => {
      // Missing measurements come last in either order.
      if (a === "" || b === "") return (a === "") - (b === "");
      return order * (isNumber ? a - b : a.localeCompare(b, undefined, { numeric: true }));
    });
    table.tBodies[0].append(...keyed.map(([, row]) => row));
    say(`Sorted by ${head.textContent}, ${isDown ? "descending" : "ascending"}`);
  };

  const enhance = (table) => {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const button = make("button", { class: "sort", type: "button" }, head.textContent);
      button.addEventListener("click", () => sortBy(table, column));
      head.replaceChildren(button);
    });
    const section = table.closest(".table");
    const title = section.querySelector("h3").textContent;
    const rows = Array.from(table.tBodies[0].rows);
    const shown = make("span", { class: "shown", "aria-live": "polite" }, `${rows.length} rows`);
    const box = make("input", { type: "search", placeholder: "Filter rows", "aria-label": `Filter rows of ${title}` });
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        // Words of different cells must not grow together into one that was not written.
        const text = Array.from(row.cells, (cell) => cell.textContent.toLowerCase()).join("\n");
        row.hidden = !words.every((word) => text.includes(word));
        count += row.hidden ? 0 : 1;
      }
      shown.textContent = count === rows.length ? `${count} rows` : `${count} of ${rows.length} rows`;
    });
    const csv = make("button", { class: "small", type: "button", "aria-label": `Save CSV of ${title}` }, "Save CSV");
    csv.addEventListener("click", () => save(`${table.dataset.name}.csv`, "text/csv", asCsv(table)));
    section.querySelector(".bar").append(shown, box, csv);
  };

  all(document, "figure").forEach((figure) => new Chart(figure));
  all(document, "table.sortable").forEach(enhance);
})();
