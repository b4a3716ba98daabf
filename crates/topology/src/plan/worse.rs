//! Whether a plan would make a machine slower, by the same model that predicts what a plan brings.

use std::fmt;

use super::applied::applied;
use super::{Change, Plan};
use crate::Topology;
use crate::model::{Costs, Load, simulate};

/// A difference that counts: the model counts the commands that end within some milliseconds.
const DIFFERENCE: f64 = 0.01;

/// Why a plan is worse than what is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Worse {
    /// By the model it brings this part of the IOPS.
    Slower(f64),
    /// The IOPS are the same, with queues that are served by fewer of the workers' processors: now,
    /// and then.
    Apart(u32, u32),
}

impl Worse {
    /// Why the plan is worse; none where it is not, or where that cannot be known yet.
    pub(super) fn of(topology: &Topology, plan: &Plan) -> Option<Self> {
        let waits = plan.steps.iter().any(|step| matches!(step.change, Change::Channels { .. }));
        if plan.steps.is_empty() || plan.before.flows == 0 || waits {
            return None;
        }
        let iops = |topology: &Topology| simulate(topology, &Costs::FITTED, &Load::SEED).iops;
        let ratio = iops(&applied(topology, &plan.steps)) / iops(topology).max(1.0);
        let (now, then) = (plan.before, plan.after);
        if ratio < 1.0 - DIFFERENCE {
            return Some(Self::Slower(ratio));
        }
        let is_apart = then.on_workers_cpu < now.on_workers_cpu && ratio < 1.0 + DIFFERENCE;
        is_apart.then_some(Self::Apart(now.on_workers_cpu, then.on_workers_cpu))
    }
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slower(ratio) => {
                write!(f, "{ratio:.2} times as fast as what is there, by the model that --model shows")
            }
            Self::Apart(now, then) => write!(
                f,
                "as fast as what is there by the model that --model shows, with {then} instead of {now} queues served by \
                 their workers' CPUs"
            ),
        }
    }
}
