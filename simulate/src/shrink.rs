//! Makes a scene that fails smaller, as long as it still fails.

use std::cell::RefCell;
use std::rc::Rc;

use engine::simulation::Outcome;

use crate::coverage::Coverage;
use crate::plan::Plan;
use crate::scene;

/// Lines of the trace that are shown.
const LINES_SHOWN: usize = 60;

fn play(plan: &Plan, traces: bool) -> Outcome {
    let coverage = Rc::new(RefCell::new(Coverage::default()));
    scene::play(plan, &coverage, traces)
}

/// Finds the fewest mishaps with which the seed fails, and shows that failure.
pub(crate) fn shrink(seed: u64) {
    let whole = Plan::new(seed);
    let mut keeps: Vec<usize> = (0..whole.mishaps.len()).collect();
    let fails = |keeps: &[usize]| {
        let mut plan = Plan::new(seed);
        plan.keep(keeps);
        play(&plan, false).failure.is_some()
    };
    let mut at = 0;
    while at < keeps.len() {
        let mut fewer = keeps.clone();
        fewer.remove(at);
        if fails(&fewer) {
            keeps = fewer;
        } else {
            at += 1;
        }
    }
    let mut plan = Plan::new(seed);
    plan.keep(&keeps);
    let outcome = play(&plan, true);
    let list: Vec<String> = keeps.iter().map(ToString::to_string).collect();
    println!("smallest: simulate --seed {seed} --keep {} --trace", list.join(","));
    println!("  {}", plan.summary());
    let from = outcome.trace.len().saturating_sub(LINES_SHOWN);
    outcome.trace[from..].iter().for_each(|line| println!("  {line}"));
    if let Some(failure) = outcome.failure {
        println!("  {failure}");
    }
}
