// State of the target: the last events, their sums by host, and an hour of steps. Draws nothing.

// As the target keeps them.
const STEP_S = 5;
const STEPS_MAX = 720;

const NOTHING = { iops: 0, bytes_per_s: 0, mean_us: 0 };
export const flow = (load, kind) => load?.[kind] ?? NOTHING;

const emptyFlow = () => ({ bytes: 0, took_us: 0, buckets: [], stages_us: {}, stage_buckets: {}, held: 0 });

const addBuckets = (sum, more = []) => {
  more.forEach((count, bucket) => { sum[bucket] = (sum[bucket] ?? 0) + count; });
  for (let bucket = 0; bucket < sum.length; bucket += 1) sum[bucket] ??= 0;
};

const add = (sum, flow, seconds) => {
  if (!flow) return;
  const commands = flow.iops * seconds;
  sum.bytes += flow.bytes_per_s * seconds;
  sum.took_us += flow.mean_us * commands;
  sum.held += (flow.held_per_s ?? 0) * seconds;
  addBuckets(sum.buckets, flow.buckets);
  for (const [stage, buckets] of Object.entries(flow.stage_buckets ?? {})) addBuckets(sum.stage_buckets[stage] ??= [], buckets);
  for (const [stage, us] of Object.entries(flow.stages_us ?? {})) {
    sum.stages_us[stage] = (sum.stages_us[stage] ?? 0) + us * commands;
  }
};

// Text of a location at which gateways are to serve something, and of the one from which they do.
export const place = (wanted, owner, served) => wanted === undefined ? "–" : served === wanted ? wanted
  : `${wanted}, ${(owner ?? null) === null ? "not served" : `served ${served === undefined ? "elsewhere" : `from ${served}`}`}`;

export const total = (buckets) => buckets.reduce((sum, count) => sum + count, 0);
export const commands = (flow) => total(flow.buckets);

// The end of the bucket within which this share of the commands was done, in microseconds; null without any.
export const within = (buckets, share) => {
  const all = total(buckets);
  let sum = 0;
  for (let bucket = 0; bucket < buckets.length; bucket += 1) {
    sum += buckets[bucket];
    if (all > 0 && sum >= Math.ceil(all * share)) return 2 ** bucket;
  }
  return null;
};

export class Model {
  constructor() {
    this.roster = null;
    this.tick = null;
    // Findings of the rules of `doctor`; the target applies them every few seconds.
    this.findings = null;
    this.subsystems = [];
    // Undefined until the target has reported if it is a gateway.
    this.gateways = undefined;
    this.steps = [];
    this.step = null;
    this.loads = new Map();
    this.queues = new Map();
  }

  takeRoster(roster) {
    this.roster = roster;
    this.hosts = this.byHost();
  }

  takeTick(tick) {
    this.tick = tick;
    this.loads = new Map(tick.subsystems.flatMap(({ nqn, namespaces }) => namespaces.map((load) => [`${load.nsid} ${nqn}`, load])));
    this.queues = new Map(tick.controllers.flatMap(({ cntlid, queues }) => queues.map((queue) => [`${cntlid} ${queue.queue_id}`, queue])));
    this.keep(tick);
    if (this.roster) this.hosts = this.byHost();
  }

  // The target's own steps, to which what comes now is added.
  takeHistory(history) {
    this.steps = history.points;
    this.step = null;
  }

  keep(tick) {
    this.step ??= { time_s: 0, interval_s: 0, read: emptyFlow(), write: emptyFlow(), other: 0, errors: 0 };
    const [step, seconds] = [this.step, tick.interval_s];
    step.time_s = tick.time_s;
    step.interval_s += seconds;
    add(step.read, tick.all.read, seconds);
    add(step.write, tick.all.write, seconds);
    step.other += flow(tick.all, "other").iops * seconds;
    step.errors += (tick.all.errors_per_s ?? 0) * seconds;
    if (step.interval_s >= STEP_S - 0.5) {
      this.steps = [...this.steps.filter((point) => point.time_s > tick.time_s - STEP_S * STEPS_MAX && point.time_s < tick.time_s), step];
      this.step = null;
    }
  }

  load(nqn, nsid) { return this.loads.get(`${nsid} ${nqn}`); }

  queue(cntlid, id) { return this.queues.get(`${cntlid} ${id}`); }

  // A controller with what its queues do.
  busy(controller) {
    let [iops, depth, rtt_us, retransmits, count] = [0, 0, 0, 0, 0];
    for (const line of controller.queues) {
      const queue = this.queue(controller.cntlid, line.queue_id);
      iops += queue?.iops ?? 0;
      depth += queue?.depth ?? 0;
      rtt_us = Math.max(rtt_us, line.rtt_us ?? 0);
      retransmits += line.retransmits ?? 0;
      count += line.queue_id > 0 ? 1 : 0;
    }
    return { iops, depth, rtt_us, retransmits, count };
  }

  // Hosts of a subsystem, each with its controllers. Hosts at the discovery service are left out: they use nothing.
  byHost() {
    const served = new Set(this.roster.subsystems.map((subsystem) => subsystem.nqn));
    const hosts = new Map();
    for (const controller of this.roster.controllers) {
      if (!served.has(controller.subsystem)) continue;
      const key = JSON.stringify([controller.subsystem, controller.host_nqn]);
      if (!hosts.has(key)) {
        hosts.set(key, { key, subsystem: controller.subsystem, host: controller.host_nqn, controllers: [], iops: 0, depth: 0,
          queues: 0, rtt_us: 0, retransmits: 0 });
      }
      const host = hosts.get(key);
      const busy = this.busy(controller);
      host.controllers.push(controller);
      host.iops += busy.iops;
      host.depth += busy.depth;
      host.queues += busy.count;
      host.rtt_us = Math.max(host.rtt_us, busy.rtt_us);
      host.retransmits += busy.retransmits;
    }
    return [...hosts.values()];
  }

  // Location of a gateway of the group.
  locationOf(gateway) { return this.gateways?.gateways.find((found) => found.name === gateway)?.location; }

  // Location that a namespace prefers, or else that of its load-balancing group, with the one from which it is served.
  placeOf(namespace) {
    if (!this.gateways || !namespace) return { place: namespace?.location ?? "–", isElsewhere: false };
    const group = this.gateways.load_balancing_groups.find((found) => found.id === namespace.ana_group);
    const [wanted, served] = [namespace.location ?? group?.location, this.locationOf(group?.owner)];
    return { place: place(wanted, group?.owner, served), isElsewhere: wanted !== undefined && served !== wanted };
  }

  // The configuration of a namespace, as far as it was seen.
  config(nqn, nsid) {
    return this.subsystems.find((subsystem) => subsystem.nqn === nqn)?.namespaces.find((namespace) => namespace.nsid === nsid);
  }
}
