//! Changes that the tuner would make: flows that share a receive queue, and interrupts and workers
//! on the wrong processors. Finding, plan and model are the tuner's own.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "queue-placement", judge };

/// A plan that brings less by its model is not worth a change.
const GAIN_MIN: f64 = 1.05;

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let Some(plan) = host.plan.as_ref().filter(|plan| !plan.plan.steps.is_empty()) else { return Vec::new() };
    let Some(prediction) = &plan.prediction else { return Vec::new() };
    let gain = prediction.after.iops / prediction.before.iops.max(1.0);
    let cautions: Vec<_> = host.survey.findings.iter().filter(|finding| finding.kind.is_caution()).collect();
    let Some(first) = cautions.first().filter(|_| gain >= GAIN_MIN) else { return Vec::new() };
    let subject = first.interface.as_deref().unwrap_or("queues");
    let finding =
        Finding::new(Severity::MayCost, subject, first.kind.title().to_owned()).costing(1.0 - 1.0 / gain);
    let evidence = cautions.iter().map(|caution| caution.text.trim_end_matches('.').to_owned());
    vec![
        evidence
            .fold(finding, Finding::seen)
            .cure(
                "Give each flow a receive queue of its own, served by its worker's processor.",
                &format!(
                    "{gain:.2} times the IOPS at full load, by the tuner's model; nothing of it was measured."
                ),
            )
            .command("selvedge tune plan --model".to_owned())
            .command("selvedge tune apply".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use topology::plan::{PlanOptions, plan};
    use topology::sample;

    use super::*;
    use crate::doctor::sample::{healthy, named_first};
    use crate::packet_path::Survey;
    use crate::tune::{PlanReport, Prediction};

    fn recorded(name: &str) -> Case {
        let mut case = healthy();
        let topology = sample::topology(name).unwrap();
        let plan = plan(&topology, &PlanOptions::default()).unwrap();
        let prediction = (!plan.steps.is_empty()).then(|| Prediction::of(&topology, &plan));
        case.host.plan = Some(PlanReport { plan, prediction });
        case.host.survey = Survey::new(topology);
        case.host.paths.clear();
        case
    }

    #[test]
    fn machines_that_the_tuner_would_change_are_named() {
        for name in ["cpu72-queues32", "two-nodes", "no-ntuple"] {
            let case = recorded(name);
            let found = RULE.findings(&case);
            assert_eq!(found.len(), 1, "{name}");
            assert!(
                found[0].commands[1].contains("tune apply") && !found[0].evidence.is_empty(),
                "{found:?}"
            );
        }
        assert_eq!(named_first(&recorded("cpu72-queues32"), RULE.name).subject, "eth0");
    }

    #[test]
    fn look_alikes_are_well() {
        // After the plan; where one queue is all there is; and without a flow.
        let mut done = recorded("cpu72-queues32");
        let steps = done.host.plan.take().unwrap().plan.steps;
        let topology = topology::plan::applied(&done.host.survey.topology, &steps);
        let plan = plan(&topology, &PlanOptions::default()).unwrap();
        let prediction = (!plan.steps.is_empty()).then(|| Prediction::of(&topology, &plan));
        done.host.plan = Some(PlanReport { plan, prediction });
        done.host.survey = Survey::new(topology);
        for case in [done, recorded("virtio-one-queue"), healthy()] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
