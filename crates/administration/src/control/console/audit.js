// The end of the audit log: who did what, when and with which result. It takes the role admin.

import { make, name, plural, put, visible } from "./text.js";
import { Table } from "./table.js";

// Interval of requests while the view is shown.
const PAUSE_MS = 10000;

const EVENTS = { refused: "warning", failed_login: "warning", refused_connect: "warning", gap: "critical" };

const named = (text) => {
  const element = name(text);
  element.className = "wide";
  element.dataset.content = element.textContent;
  return element;
};
const short = (text) => make("span", { class: "plain short", "data-content": text }, visible(text));
const event = ({ event, omitted }) => {
  const text = visible(event).replaceAll("_", " ") + (omitted > 0 ? `, and ${omitted} before it` : "");
  return EVENTS[event] ? make("span", { class: "mark", "data-level": EVENTS[event], "data-content": text }, text) : text;
};

export class Audit {
  constructor(_parts, ask) {
    this.ask = ask;
    this.asked = 0;
    this.remark = make("p", { class: "note" }, "Loading");
    this.table = new Table("Audit log", [
      { head: "Time", sort: (row) => row.seq, of: (row) => short(row.time.replace("T", " ")) },
      { head: "Event", sort: (row) => row.event, of: event },
      { head: "User", sort: (row) => row.who ?? "", of: (row) => named(row.who ?? "–") },
      { head: "From", sort: (row) => row.from ?? "", of: (row) => short(row.from ?? "–") },
      { head: "Request", sort: (row) => row.what ?? "", of: (row) => named(row.what ?? "–") },
      { head: "Result", sort: (row) => row.result, of: (row) => named(row.result) },
    ], { descending: true, empty: "No records" });
    this.table.element.hidden = true;
    this.element = make("section", {}, make("h2", {}, "Audit log"), this.remark, this.table.element);
  }

  update() {
    // A client without the role is refused once: each refusal is a record.
    if (this.asked !== null && Date.now() - this.asked > PAUSE_MS) this.fetch();
  }

  async fetch() {
    this.asked = Date.now();
    try {
      const { records, has_older } = await (await this.ask("/v1/audit")).json();
      this.table.element.hidden = false;
      put(this.remark, `${plural(records.length, "record")}, the latest${has_older ? "; older ones are in its file" : ""}. `
        + "Contents of requests are in the file only.");
      this.table.update(records.map((record) => ({
        ...record, key: String(record.seq), words: [record.time, record.event, record.who, record.from, record.what, record.result]
          .map((text) => visible(text ?? "")).join(" ").toLowerCase(),
      })));
    } catch (error) {
      if (!error.status) return;
      this.asked = null;
      this.table.element.hidden = true;
      put(this.remark, visible(error.message));
    }
  }
}
