// Changes of what is served: one is put together, shown before it is made, with what it would come to and the command that
// does the same, and made by a second press. Whether it may be is the target's to say.

import { link } from "./views.js";
import { make, name, plural, put, say, visible } from "./text.js";

const part = encodeURIComponent;
// A word of a command line, as a shell takes it for one.
const quoted = (text) => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
const command = (...parts) => ["selvedge", ...parts.filter((text) => text !== "")].map(quoted).join(" ");
// A limit as a request has it: nothing typed leaves it as it is, `none` takes it away.
const limit = (text) => text === "" ? undefined : text === "none" ? null : /^\d+$/.test(text) ? Number(text) : text;
const flag = (option, text) => text === "" ? [] : [option, text];
const within = (fields) => `/v1/subsystems/${part(fields.subsystem)}`;

// Fields of the forms: label and note. Choices come from the target or are fixed.
const SUBSYSTEM = { key: "subsystem", label: "Subsystem", of: (model) => model.roster.subsystems.map(({ nqn }) => nqn) };
const NSID = { key: "nsid", label: "Namespace", of: (model, fields) => model.roster.namespaces
  .filter((namespace) => namespace.subsystem === fields.subsystem).map((namespace) => String(namespace.nsid)) };
const HOST = { key: "host", label: "Host", note: "Its NQN" };
const LIMITS = [
  { key: "iops", label: "IOPS", note: "Commands per second, or none for no limit", optional: true },
  { key: "bw", label: "Bandwidth", note: "Bytes per second, such as 200m, or none", optional: true },
];

const KEYS = [
  { key: "secret", label: "Secret file", note: "Absolute path on the target's machine; empty for a TLS key alone", optional: true },
  { key: "tls", label: "TLS key file", note: "Absolute path on the target's machine; empty for a secret alone", optional: true },
];
const hostKeys = (fields) => `${within(fields)}/host_keys/${part(fields.host)}`;

const GATEWAY = { key: "gateway", label: "Gateway", of: (model) => (model.gateways?.gateways ?? []).map((gateway) => gateway.name) };
const gateway = (fields, body) => ["PATCH", `/v1/gateways/${part(fields.gateway)}`, body];

const KINDS = {
  allow: { title: "Allow a host", fields: [SUBSYSTEM, HOST],
    request: (fields) => ["POST", `${within(fields)}/hosts`, { nqn: fields.host }],
    command: (fields) => command("host", "allow", fields.subsystem, fields.host) },
  deny: { title: "Deny a host", fields: [SUBSYSTEM, HOST],
    request: (fields) => ["DELETE", `${within(fields)}/hosts/${part(fields.host)}`],
    command: (fields) => command("host", "deny", fields.subsystem, fields.host) },
  key: { title: "Set the keys of a host", fields: [SUBSYSTEM, HOST, ...KEYS],
    request: (fields) => ["PUT", hostKeys(fields), { ...(fields.secret === "" ? {} : { dhchap_secret_file: fields.secret }),
      ...(fields.tls === "" ? {} : { tls_key_file: fields.tls }) }],
    command: (fields) => command("host", "set-key", fields.subsystem, fields.host,
      ...flag("--dhchap-secret-file", fields.secret), ...flag("--tls-key-file", fields.tls)) },
  unkey: { title: "Remove the keys of a host", fields: [SUBSYSTEM, HOST],
    request: (fields) => ["DELETE", hostKeys(fields)],
    command: (fields) => command("host", "remove-key", fields.subsystem, fields.host) },
  limit: { title: "Limit a namespace", fields: [SUBSYSTEM, NSID, ...LIMITS],
    request: (fields) => ["PATCH", `${within(fields)}/namespaces/${fields.nsid}`,
      { qos: { iops: limit(fields.iops), bytes: limit(fields.bw) } }],
    command: (fields) => command("namespace", "set", fields.subsystem, fields.nsid, ...flag("--iops", fields.iops), ...flag("--bw", fields.bw)) },
  add: { title: "Add a namespace", fields: [SUBSYSTEM,
    { key: "backend", label: "Storage", of: () => ["memory", "file", "block", "null"] },
    { key: "path", label: "Path", note: "Absolute path on the target's machine", optional: true },
    { key: "size", label: "Size", note: "Such as 10g; leave it empty for an existing file or device", optional: true }],
    request: (fields) => ["POST", `${within(fields)}/namespaces`, { backend: { [fields.backend]: {
      ...(fields.path === "" ? {} : { path: fields.path }), ...(fields.size === "" ? {} : { size: fields.size }) } } }],
    command: (fields) => command("namespace", "add", fields.subsystem, `${fields.backend}:${fields.path === "" ? fields.size
      : fields.size === "" ? fields.path : `${fields.path},size=${fields.size}`}`) },
  resize: { title: "Resize a namespace", fields: [SUBSYSTEM, NSID, { key: "size", label: "Size", note: "Such as 20g; an image is resized in its cluster" },
    { key: "smaller", label: "Smaller size", note: "Data beyond the new end is lost", of: () => ["refuse", "allow"] }],
    request: (fields) => ["PATCH", `${within(fields)}/namespaces/${fields.nsid}`,
      { size: fields.size, ...(fields.smaller === "allow" ? { shrink: true } : {}) }],
    command: (fields) => command("namespace", "resize", fields.subsystem, fields.nsid, fields.size, fields.smaller === "allow" ? "--shrink" : "") },
  remove: { title: "Remove a namespace", fields: [SUBSYSTEM, NSID],
    request: (fields) => ["DELETE", `${within(fields)}/namespaces/${fields.nsid}`],
    command: (fields) => command("namespace", "remove", fields.subsystem, fields.nsid) },
  ana: { title: "Set the state of an ANA group", fields: [SUBSYSTEM, { key: "group", label: "ANA group", note: "Its number" },
    { key: "state", label: "State", of: () => ["optimized", "non-optimized", "inaccessible", "persistent-loss", "change"] }],
    request: (fields) => ["PUT", `${within(fields)}/ana-groups/${part(fields.group)}`, { state: fields.state }],
    command: (fields) => command("ana", "set", fields.subsystem, fields.group, fields.state) },
  drain: { title: "Drain a gateway", fields: [GATEWAY], isOfGateways: true,
    request: (fields) => gateway(fields, { drained: true }), command: (fields) => command("gateways", "drain", fields.gateway) },
  resume: { title: "Resume a gateway", fields: [GATEWAY], isOfGateways: true,
    request: (fields) => gateway(fields, { drained: false }), command: (fields) => command("gateways", "resume", fields.gateway) },
};

const code = (text) => make("code", { dir: "ltr" }, visible(text));

export class Changes {
  constructor([kind, ...given], _ask, send) {
    this.send = send;
    this.kind = Object.hasOwn(KINDS, kind) ? kind : "allow";
    this.given = given;
    this.pending = null;
    this.inputs = new Map();
    const kinds = Object.entries(KINDS).map(([key, { title }]) => make("li", key === this.kind ? { "aria-current": "true" } : {},
      link(["changes", key], make("span", {}, title))));
    this.ofGateways = kinds.filter((_, at) => Object.values(KINDS)[at].isOfGateways);
    this.fields = make("div", { class: "fields" });
    this.form = make("form", { class: "change", "aria-labelledby": "change-title" },
      make("h2", { id: "change-title" }, KINDS[this.kind].title), this.fields,
      make("button", { type: "submit" }, "Preview"));
    this.trouble = make("p", { role: "alert", hidden: true });
    this.outcome = make("section", { class: "outcome", tabindex: "-1", "aria-labelledby": "outcome-title", hidden: true });
    this.element = make("div", {}, make("section", {}, make("h2", {}, "Change"), make("ul", { class: "kinds" }, ...kinds)),
      this.form, this.trouble, this.outcome,
      make("p", { class: "note" }, "Nothing changes until you apply the preview. Changes need the role operate for the subsystem, or admin; changes of gateways need admin."));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.preview();
    });
    // The preview belongs to the former input.
    this.form.addEventListener("input", () => {
      this.given = [];
      this.withdraw();
    });
    this.model = null;
  }

  update(model) {
    const isFirst = this.model === null;
    this.model = model;
    this.ofGateways.forEach((kind) => { kind.hidden = !model.gateways; });
    if (isFirst) this.lay();
    else this.choices();
  }

  lay() {
    this.fields.replaceChildren(...KINDS[this.kind].fields.map((field, at) => {
      const id = `change-${field.key}`;
      const input = field.of ? make("select", { id, required: true })
        : make("input", { id, autocomplete: "off", spellcheck: "false", required: !field.optional, maxlength: "4096" });
      this.inputs.set(field, input);
      const note = field.note ? [make("p", { class: "note", id: `${id}-note` }, field.note)] : [];
      if (field.note) input.setAttribute("aria-describedby", `${id}-note`);
      if (!field.of && this.given[at] !== undefined) input.value = this.given[at];
      return make("div", {}, make("label", { for: id }, field.label), input, ...note);
    }));
    this.choices();
  }

  // Choices follow what the target has; what is chosen stays while it is there. What the address names is chosen once it is known.
  choices() {
    KINDS[this.kind].fields.forEach((field, at) => {
      if (!field.of) return;
      const input = this.inputs.get(field);
      const wanted = this.given[at] ?? input.value;
      const all = field.of(this.model, this.values());
      const shown = JSON.stringify(all);
      if (input.dataset.shown !== shown) {
        input.dataset.shown = shown;
        input.replaceChildren(...all.map((value) => make("option", { value }, visible(value))));
      }
      if (!all.includes(wanted)) return;
      input.value = wanted;
      this.given[at] = undefined;
    });
  }

  values() {
    return Object.fromEntries([...this.inputs].map(([field, input]) => [field.key, input.value.trim()]));
  }

  withdraw() {
    this.pending = null;
    this.outcome.hidden = true;
    this.trouble.hidden = true;
    this.choices();
  }

  complain(error) {
    this.outcome.hidden = true;
    this.trouble.hidden = false;
    put(this.trouble, visible(error.message));
  }

  async preview() {
    this.withdraw();
    const fields = this.values();
    const [method, path, body] = KINDS[this.kind].request(fields);
    const asked = { method, path, body, command: KINDS[this.kind].command(fields) };
    this.pending = asked;
    try {
      const answer = await (await this.send("POST", "/v1/preview", { method, path, body })).json();
      // Something else may have been typed since.
      if (this.pending === asked) this.show(asked, answer);
    } catch (error) {
      if (this.pending === asked) this.complain(error);
    }
  }

  show(asked, { words, controllers_ending: ending }) {
    const button = make("button", { type: "button" }, "Apply");
    button.addEventListener("click", () => this.commit(asked, button));
    const list = words.length === 0 ? [make("p", { class: "empty" }, "Nothing would change.")]
      : [make("ul", {}, ...words.map((text) => make("li", {}, name(text))))];
    const hosts = ending > 0 ? [make("p", { class: "mark", "data-level": "warning" }, `${plural(ending, "controller")} of hosts would end.`)] : [];
    this.outcome.replaceChildren(make("h2", { id: "outcome-title" }, "Preview"), ...list, ...hosts,
      make("p", {}, "Command: ", code(asked.command)), ...(words.length === 0 ? [] : [button]));
    this.outcome.hidden = false;
    this.outcome.focus({ preventScroll: true });
  }

  async commit(asked, button) {
    button.disabled = true;
    try {
      await this.send(asked.method, asked.path, asked.body);
      if (this.pending !== asked) return;
      this.pending = null;
      this.outcome.replaceChildren(make("h2", { id: "outcome-title" }, "Done"), make("p", {}, code(asked.command)));
      say("Done");
    } catch (error) {
      button.disabled = false;
      this.complain(error);
    }
  }
}
