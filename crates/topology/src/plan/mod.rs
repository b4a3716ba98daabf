//! A plan: which queue each flow shall come by, which processor shall serve it, and the changes that lead there, each
//! with its reason. A plan is data and follows from a topology alone; doing it is `apply`'s.

mod applied;
mod assignment;
mod change;
#[cfg(test)]
mod fixture_tests;
mod group;
mod placement;
mod standing;
mod steps;
#[cfg(test)]
mod tests;
mod worse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use applied::applied;
pub use change::{Change, Step};
pub use standing::Standing;

use self::assignment::Assignment;
use self::group::Group;
use self::placement::{Placement, Taken};
use self::worse::Worse;
use super::rule::{QueueLimit, counted, queue_limit};
use super::{Channels, CpuSet, Interface, InterfaceKind, KernelQueues, QueueCount, Topology};

/// Options of a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Interfaces it is for, also without flows; where there is none, all that have flows.
    pub interfaces: Vec<String>,
    /// Number of queues; absent: as they are.
    pub queues: Option<QueuesWanted>,
    /// Processors it may use; absent: all that run and are not isolated.
    pub cpus: Option<CpuSet>,
    /// True if queues may be used that the interface's table leaves out.
    pub uses_excluded_queues: bool,
    /// True if an interrupt goes to its worker's processor also where that is not on the
    /// interface's node and the worker cannot be moved: no hand-over between processors, for memory
    /// that is farther.
    pub follows_workers: bool,
}

/// Number of queues that an interface is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuesWanted {
    /// This many.
    Count(u32),
    /// As many as it can have, and no more than processors run.
    Most,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Each interface that flows use.
    pub interfaces: Vec<InterfacePlan>,
    /// I/O queues of the kernel's controllers, beside those that a kernel with the series of July 2026 chooses.
    #[serde(default)]
    pub kernel_queues: Vec<KernelQueues>,
    /// Changes, in this order.
    pub steps: Vec<Step>,
    /// Obstacles, things that cannot be done from here, and further possibilities.
    pub notes: Vec<String>,
    /// Present standing of the flows.
    pub before: Standing,
    /// Standing of the flows after the plan, by the same reckoning.
    pub after: Standing,
}

/// Interface in a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterfacePlan {
    /// Name of the interface.
    pub interface: String,
    /// Number of I/O queues that a host should have through it.
    pub limit: QueueLimit,
    /// I/O queues that the controller with the most has by it now; connections of targets on this machine do not count.
    pub io_queues: u32,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is no such interface.
    #[error("there is no interface `{0}`; those with NIC queues are {1}")]
    NoInterface(String, String),
    /// No connection to plan for.
    #[error("no NVMe/TCP connection was found: name what to plan for with --interface")]
    NothingToPlanFor,
    /// No processor may be used.
    #[error("none of the CPUs {0} runs")]
    NoCpu(CpuSet),
    /// The interface cannot have the number of queues that was requested.
    #[error("{interface} can have 1 to {max} queues, not {asked}")]
    Queues {
        /// The interface.
        interface: String,
        /// Requested number.
        asked: u32,
        /// Largest possible number.
        max: u32,
    },
}

/// Makes a plan. One that the tool's own model calls worse than what is there changes nothing.
///
/// # Errors
/// When an interface is not there, there is nothing to plan for, or no processor may be used.
pub fn plan(topology: &Topology, options: &PlanOptions) -> Result<Plan, PlanError> {
    let near = plan_as_asked(topology, options)?;
    let Some(worse) = Worse::of(topology, &near) else { return Ok(near) };
    if !options.follows_workers {
        let following = PlanOptions { follows_workers: true, ..options.clone() };
        let mut plan = plan_as_asked(topology, &following)?;
        if Worse::of(topology, &plan).is_none() {
            plan.notes.push(format!(
                "interrupts stay with their workers, or follow them: on the card's node they would be {worse}"
            ));
            return Ok(plan);
        }
    }
    let mut notes = near.notes;
    notes.push(format!("nothing is changed, since the plan would be {worse}"));
    Ok(Plan { steps: Vec::new(), notes, after: near.before, ..near })
}

fn plan_as_asked(topology: &Topology, options: &PlanOptions) -> Result<Plan, PlanError> {
    let kernel_queues = KernelQueues::all(topology, &options.interfaces);
    let mut plan = Plan { kernel_queues, ..Plan::default() };
    let mut planned = topology.clone();
    check(topology, options)?;
    let wait_for_channels = channels(&mut plan, &mut planned, options)?;
    for name in names(topology, options) {
        let io_queues = io_queues(topology, &name);
        let limit = queue_limit(&planned, &name);
        if io_queues > limit.queues {
            plan.notes.push(format!(
                "a controller has {io_queues} I/O queues by {name}, {} is the rule ({}): connect with `-i {}`, or with \
                 --match-hw-queues",
                limit.queues, limit.reason, limit.queues
            ));
        }
        if topology.interface(&name).is_some_and(|interface| interface.kind == InterfaceKind::Loopback) {
            plan.notes
                .push(format!("{name} is the machine itself, without NIC queues: nothing is planned for it"));
        }
        plan.notes.extend(limit.hint.iter().filter(|_| options.queues.is_none()).cloned());
        plan.interfaces.push(InterfacePlan { interface: name, limit, io_queues });
    }
    if !wait_for_channels {
        let mut taken = Taken::new(&planned, options);
        let mut placed = Vec::new();
        for group in Group::all(&planned, options) {
            if !group.has_choice(&planned) {
                let name = group.legs.join(", ");
                plan.notes.push(format!("{name}: it has no interrupts and one queue: nothing to plan"));
                continue;
            }
            let assignment = Assignment::new(&planned, &group);
            let placement = Placement::new(&planned, &group, &assignment, options, &mut taken);
            placed.push((group, assignment, placement));
        }
        // A thread may have been moved for the sake of another interface, so who is where is known only now.
        for (group, assignment, placement) in &mut placed {
            placement.follow(group, assignment, &taken);
            steps::of_group(&mut plan, &planned, group, options, assignment, placement);
        }
    }
    if let Some(pid) = topology.irqbalance.filter(|_| plan.steps.iter().any(|step| step.change.is_affinity()))
    {
        plan.notes.push(format!(
            "irqbalance (process {pid}) runs and would move the interrupts again within 10 s: stop it \
             (`systemctl stop irqbalance`), or have it leave them alone (`irqbalance --banirq=N` for each)"
        ));
    }
    plan.before = Standing::of(topology);
    plan.after = Standing::of(&applied(topology, &plan.steps));
    Ok(plan)
}

/// The interfaces a plan is for: those named, else those with flows.
fn names(topology: &Topology, options: &PlanOptions) -> Vec<String> {
    if !options.interfaces.is_empty() {
        return options.interfaces.clone();
    }
    let mut names: Vec<String> = Vec::new();
    for name in topology.flows.iter().filter_map(|flow| flow.interface.as_ref()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The I/O queues of the controller that has the most by an interface.
fn io_queues(topology: &Topology, name: &str) -> u32 {
    let initiators = topology.initiators();
    let here = initiators.iter().filter(|queues| queues.interface == Some(name));
    here.map(|queues| queues.flows.len() as u32).max().unwrap_or(0)
}

fn check(topology: &Topology, options: &PlanOptions) -> Result<(), PlanError> {
    for name in &options.interfaces {
        if topology.interface(name).is_none() {
            let known = topology.interfaces.iter().filter(|known| !known.receive.is_empty());
            let known: Vec<&str> = known.map(|known| known.name.as_str()).collect();
            return Err(PlanError::NoInterface(name.clone(), known.join(", ")));
        }
    }
    if names(topology, options).is_empty() {
        return Err(PlanError::NothingToPlanFor);
    }
    match &options.cpus {
        Some(cpus) if cpus.intersection(&topology.processors.online).is_empty() => {
            Err(PlanError::NoCpu(cpus.clone()))
        }
        _ => Ok(()),
    }
}

/// Changes the number of queues where that is asked for. Whether the rest of the plan has to wait for it, since the
/// interrupts and the table that come with the new queues are not known before.
fn channels(plan: &mut Plan, planned: &mut Topology, options: &PlanOptions) -> Result<bool, PlanError> {
    let Some(wanted) = options.queues else { return Ok(false) };
    let mut waits = false;
    let online = planned.processors.online.len() as u32;
    let names: Vec<String> = names(planned, options)
        .iter()
        .flat_map(|name| super::legs(planned, name))
        .map(|leg| leg.name.clone())
        .collect();
    for name in names {
        let Some(interface) = planned.interfaces.iter_mut().find(|interface| interface.name == name) else {
            continue;
        };
        let Some(now) = interface.channels else {
            plan.notes.push(format!("{name}: its driver does not let the number of queues be changed"));
            continue;
        };
        let Some(channels) = changed(now, wanted, online) else {
            let max = now.combined.max.max(now.receive.max.min(now.transmit.max));
            let asked = if let QueuesWanted::Count(asked) = wanted { asked } else { max };
            return Err(PlanError::Queues { interface: name, asked, max });
        };
        if channels == now || plan.steps.iter().any(|step| step.change.is_channels_of(&name)) {
            continue;
        }
        let count = channels.combined.now.max(channels.receive.now);
        plan.steps.push(Step {
            change: Change::Channels { interface: name.clone(), channels },
            why: format!("{} requested; the link may be down for a moment", counted(count, "queue")),
        });
        if interface.rss.is_some() || has_interrupts(interface) {
            waits = true;
            plan.notes.push(format!(
                "{name}: which interrupts and which table its new queues have is known when they are there: apply \
                 this, then plan again"
            ));
        }
        applied::set_channels(interface, channels);
    }
    Ok(waits)
}

fn has_interrupts(interface: &Interface) -> bool {
    interface.receive.iter().any(|queue| queue.interrupt.is_some())
}

/// The channels with as many queues as wanted; none where it cannot have them.
fn changed(now: Channels, wanted: QueuesWanted, online: u32) -> Option<Channels> {
    let fit = |count: QueueCount| {
        let asked = match wanted {
            QueuesWanted::Count(asked) => asked,
            QueuesWanted::Most => count.max.min(online),
        };
        (1..=count.max).contains(&asked).then_some(QueueCount { now: asked, ..count })
    };
    if now.combined.max > 0 {
        return Some(Channels { combined: fit(now.combined)?, ..now });
    }
    Some(Channels { receive: fit(now.receive)?, transmit: fit(now.transmit)?, ..now })
}
