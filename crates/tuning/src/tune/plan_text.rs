//! A plan as text: the rule, the changes with their reasons, what is in the way, what it should bring.

use std::fmt;

use chart::units::{count, plural};
use schemars::JsonSchema;
use serde::Serialize;
use topology::Topology;
use topology::model::{Costs, Load, Modelled, simulate};
use topology::plan::{Plan, Standing, applied};

use crate::report::paragraph;
use crate::report::table::{Side, Table};

/// A plan, and what a model says of it where that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlanReport {
    #[serde(flatten)]
    pub(crate) plan: Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prediction: Option<Prediction>,
}

/// Estimate of a plan by a contention model; nothing of it was measured.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Prediction {
    pub(crate) costs: Costs,
    pub(crate) load: Load,
    pub(crate) before: Modelled,
    pub(crate) after: Modelled,
}

impl Prediction {
    /// Before and after a plan.
    pub(crate) fn of(topology: &Topology, plan: &Plan) -> Self {
        let after = applied(topology, &plan.steps);
        Self {
            costs: Costs::FITTED,
            load: Load::SEED,
            before: simulate(topology, &Costs::FITTED, &Load::SEED),
            after: simulate(&after, &Costs::FITTED, &Load::SEED),
        }
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        for interface in &plan.interfaces {
            let limit = &interface.limit;
            let rule = format!(
                "{}: {} in use; at most {} by the rule ({})",
                interface.interface,
                plural(interface.io_queues.into(), "I/O queue"),
                limit.queues,
                limit.reason
            );
            write!(f, "{}", paragraph::shown(&rule, 0))?;
        }
        for queues in &plan.kernel_queues {
            write!(f, "{}", paragraph::shown(&queues.to_string(), 0))?;
        }
        if plan.steps.is_empty() {
            writeln!(f, "\nNothing to change: everything is as a plan would have it")?;
        } else {
            writeln!(f, "\n{}", plural(plan.steps.len() as u64, "change"))?;
            for step in &plan.steps {
                writeln!(f, "  {}", step.change)?;
                // A command is never wrapped, for copying.
                writeln!(f, "{}      {}", paragraph::shown(&step.why, 6), step.change.shell())?;
            }
        }
        if plan.before.flows > 0 {
            writeln!(f, "\nWhat it should bring")?;
            write!(f, "{}", standing(&plan.before, &plan.after))?;
        }
        for note in &plan.notes {
            write!(f, "\n{}", paragraph::shown(&format!("* {note}"), 0))?;
        }
        self.prediction.as_ref().map_or(Ok(()), |prediction| model(f, prediction))
    }
}

fn standing(before: &Standing, after: &Standing) -> Table {
    let mut table =
        Table::new(&[("", Side::Left), ("now", Side::Right), ("planned", Side::Right)]).indented(2);
    let mut row = |what: &str, of: &dyn Fn(&Standing) -> String| {
        table.row(vec![what.to_owned(), of(before), of(after)]);
    };
    row("flows of I/O queues", &|standing| standing.flows.to_string());
    row("flows whose receive queue is known", &|standing| standing.queue_known.to_string());
    row("flows that share a receive queue", &|standing| standing.share_a_queue.to_string());
    row("most flows on one queue", &|standing| standing.most_on_a_queue.to_string());
    row("queue served by the worker's CPU", &|standing| {
        format!("{} of {}", standing.on_workers_cpu, standing.cpus_known)
    });
    row("queue served off the NIC's node", &|standing| standing.off_node.to_string());
    table
}

fn model(f: &mut fmt::Formatter<'_>, prediction: &Prediction) -> fmt::Result {
    let Prediction { costs, load, before, after } = prediction;
    writeln!(f, "\nOn paper (a contention model, nothing was measured)")?;
    let mut table =
        Table::new(&[("", Side::Left), ("now", Side::Right), ("planned", Side::Right)]).indented(2);
    let mut row = |what: &str, of: &dyn Fn(&Modelled) -> String| {
        table.row(vec![what.to_owned(), of(before), of(after)]);
    };
    row("IOPS", &|modelled| count(modelled.iops));
    row("mean, µs", &|modelled| format!("{:.0}", modelled.mean_us));
    row("p99, µs", &|modelled| format!("{:.0}", modelled.p99_us));
    row("flows handed over between CPUs", &|modelled| modelled.handed_over.to_string());
    row("CPUs used", &|modelled| modelled.cpus_used.to_string());
    row("CPUs over 90 % busy", &|modelled| modelled.cpus_full.to_string());
    write!(f, "{table}")?;
    let us = |ns: u64| ns as f64 / 1e3;
    writeln!(
        f,
        "  costs of one I/O: receiving {} µs, worker {} µs; handed over to another CPU {} µs more on each side, to \
         another\n  node {} µs; {} µs more for each other CPU that sends by the same queue; {} µs away; {} outstanding \
         on each queue,\n  at most {} IOPS",
        us(costs.receive_ns),
        us(costs.worker_ns),
        us(costs.handover_ns),
        us(costs.handover_far_ns),
        us(costs.shared_sender_ns),
        us(costs.away_ns),
        load.depth,
        count(load.iops_max as f64)
    )?;
    if before.iops > 0.0 {
        writeln!(f, "  ratio: {:.2}", after.iops / before.iops)?;
    }
    Ok(())
}
