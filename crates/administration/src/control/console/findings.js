// Findings of `selvedge doctor` at the target: cause, figures, cure and command, the most expensive first. All of it is shown
// as text: hosts choose some of the names.

import { clock, make, name, plural, put, visible } from "./text.js";

// Cost of a cause in words, and its level.
const SEVERITIES = {
  "outage": ["does not work", "critical"], "limits": ["limits now", "warning"], "slows": ["slows now", "warning"],
  "may-cost": ["may cost", "notice"],
};

const entry = (label, ...content) => content.length === 0 ? [] : [make("dt", {}, label), make("dd", {}, ...content)];
const line = (text) => make("p", {}, name(text));
const code = (text) => make("code", { dir: "ltr" }, visible(text));

export class Findings {
  constructor() {
    this.when = make("p", { class: "note" });
    this.list = make("ol", { class: "causes" });
    this.none = make("p", { class: "empty", hidden: true }, "Nothing found.");
    this.elsewhere = make("dl", { class: "elsewhere" });
    this.unseen = make("section", { hidden: true }, make("h2", {}, "Not examined"), this.elsewhere);
    this.element = make("div", {}, make("section", {}, make("h2", {}, "Findings"), this.when, this.none, this.list), this.unseen);
    this.shown = null;
  }

  update({ findings }) {
    put(this.when, findings ? `Rules of selvedge doctor, over the ${findings.interval_s.toFixed(1)} s before `
      + `${clock(findings.time_s)}: ${plural(findings.findings.length, "finding")}` : "Waiting for two samples of the target, a second apart.");
    if (!findings) return;
    this.none.hidden = findings.findings.length > 0;
    this.unseen.hidden = findings.not_looked_at.length === 0;
    // Unchanged findings keep their elements, for readers who select or copy the text.
    const shown = JSON.stringify([findings.findings, findings.not_looked_at]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.list.replaceChildren(...findings.findings.map((finding) => this.finding(finding)));
    this.elsewhere.replaceChildren(...findings.not_looked_at.flatMap(({ what, reason }) => entry(visible(what), name(reason))));
  }

  finding(finding) {
    const [severity, level] = SEVERITIES[finding.severity] ?? [visible(finding.severity), "notice"];
    const cost = finding.cost_percent >= 1 ? `, about ${finding.cost_percent.toFixed(0)} %` : "";
    return make("li", { "data-level": level },
      make("h3", {}, make("span", { class: "kind" }, severity + cost), " ", name(finding.cause)),
      make("dl", {}, ...entry("Evidence", ...finding.evidence.map(line)), ...entry("Remedy", name(finding.cure)),
        ...entry("Expected", name(finding.expected)), ...entry("Command", ...finding.commands.map((command) => make("p", {}, code(command)))),
        ...entry("Rule", code(finding.rule))));
  }
}
