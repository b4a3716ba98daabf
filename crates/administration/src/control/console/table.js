// Tables whose rows stay where they are while their numbers change: the focus is kept, and so is what a reader has found.
// Tables sort by each column, filter by words, and show a limited number of rows.

import { make, put, visible } from "./text.js";

const ROWS_SHOWN = 200;

// Columns have `head`, `of(row)` for the cell, `sort(row)` for its place, and `number` where it is one. A cell is a text, or
// an element that is the same as long as `key` of the row is.
export class Table {
  constructor(caption, columns, { filter = true, sort = 0, descending = false, empty = "No data" } = {}) {
    this.columns = columns;
    this.sorted = { column: sort, descending };
    this.rows = new Map();
    this.filters = filter;
    this.empty = make("p", { class: "empty", hidden: true }, empty);
    this.heads = columns.map((column, at) => {
      const button = make("button", { type: "button", class: "sort" }, column.head);
      button.addEventListener("click", () => this.sortBy(at));
      return make("th", { scope: "col", class: column.number ? "number" : undefined }, button);
    });
    this.body = make("tbody");
    this.table = make("table", {}, make("caption", { class: "unseen" }, caption), make("thead", {}, make("tr", {}, ...this.heads)), this.body);
    this.shown = make("span", { class: "shown" });
    this.filter = make("input", { type: "search", spellcheck: "false", autocomplete: "off" });
    this.filter.addEventListener("input", () => this.update(this.data));
    const what = make("span", { class: "unseen" }, caption.toLowerCase());
    const label = make("label", { hidden: !filter }, "Filter ", what, this.filter);
    this.scroll = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, this.table);
    this.element = make("section", {}, make("div", { class: "bar" }, label, this.shown), this.empty, this.scroll);
    this.data = [];
    this.tellOrder();
  }

  sortBy(column) {
    const same = this.sorted.column === column;
    // Most numbers are looked at from the largest on.
    this.sorted = { column, descending: same ? !this.sorted.descending : Boolean(this.columns[column].number) };
    this.tellOrder();
    this.update(this.data);
  }

  tellOrder() {
    this.heads.forEach((head, at) => {
      if (at === this.sorted.column) head.setAttribute("aria-sort", this.sorted.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  // Shows these rows, each of which has a `key`.
  update(data) {
    this.data = data;
    const words = visible(this.filter.value).toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => words.every((word) => row.words.includes(word));
    const found = words.length > 0 ? data.filter(fits) : data.slice();
    const { sort } = this.columns[this.sorted.column];
    const order = this.sorted.descending ? -1 : 1;
    const places = new Map(found.map((row) => [row, sort(row)]));
    found.sort((a, b) => {
      const [x, y] = [places.get(a), places.get(b)];
      return x === y ? (a.key < b.key ? -1 : 1) : order * (x < y ? -1 : 1);
    });
    const some = found.slice(0, ROWS_SHOWN);
    this.place(some);
    const left = found.length - some.length;
    put(this.shown, data.length === 0 || !this.filters ? "" : left > 0 ? `${some.length} of ${data.length}; filter to see the others`
      : `${found.length} of ${data.length}`);
    this.empty.hidden = data.length > 0;
    this.scroll.hidden = data.length === 0;
  }

  place(rows) {
    const before = this.rows;
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    this.rows = new Map();
    let at = this.body.firstElementChild;
    for (const row of rows) {
      const line = before.get(row.key) ?? this.line();
      before.delete(row.key);
      this.rows.set(row.key, line);
      this.columns.forEach((column, number) => this.fill(line.cells[number], column.of(row)));
      if (line === at) at = at.nextElementSibling;
      else this.body.insertBefore(line, at);
    }
    for (const line of before.values()) line.remove();
    // A row that moves loses the focus within it.
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  }

  line() {
    return make("tr", {}, ...this.columns.map((column, at) => at === 0
      ? make("th", { scope: "row", class: column.number ? "number" : undefined })
      : make("td", { class: column.number ? "number" : undefined })));
  }

  fill(cell, content) {
    if (typeof content === "string") {
      if (cell.firstElementChild || cell.textContent !== content) cell.textContent = content;
    } else if (cell.dataset.content !== content.dataset.content || !cell.firstElementChild) {
      // An element says by `data-content` what it shows, so that one that is the same stays.
      if (content.dataset.content === undefined) cell.removeAttribute("data-content");
      else cell.dataset.content = content.dataset.content;
      cell.replaceChildren(content);
    } else if (content.dataset.content === undefined) {
      cell.replaceChildren(content);
    }
  }
}
