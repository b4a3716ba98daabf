//! Builds of suites that come later, beside suites that wait for sockets, daemons and guests much of their time. What is built, and by
//! which command, is the suites' own concern.

use std::collections::VecDeque;

use crate::command::{Process, Step};
use crate::{dist, fuzz_build};

/// Beside these the processors have time to spare; others build themselves. `ceph` says itself when it has built what it runs: it
/// would wait for a build in the same folder.
const WAITING: [&str; 7] = ["unit", "kernel", "attach", "commands", "paths", "install", "chaos"];

/// A suite, and what builds for it.
type Build = (&'static str, fn() -> Option<Step>);

/// In the order in which they are needed.
const ALL: [Build; 2] = [("demo", dist::programs_step), ("fuzz", fuzz_build::suite_step)];

/// The builds that are left, and the one that runs.
pub(crate) struct BuildsAhead {
    left: VecDeque<Build>,
    running: Option<(&'static str, Process)>,
}

impl BuildsAhead {
    /// Those of the suites that are to run.
    pub(crate) fn of(is_chosen: impl Fn(&str) -> bool) -> Self {
        let left = ALL.into_iter().filter(|(suite, _)| is_chosen(suite)).collect();
        Self { left, running: None }
    }

    /// A suite begins. What builds for it ends, however far it is: the suite does the rest, which needs not give way, and says
    /// what is wrong if it cannot be built.
    pub(crate) fn before(&mut self, suite: &str) {
        self.left.retain(|(name, _)| *name != suite);
        let is_over = |(name, process): &mut (&str, Process)| *name == suite || process.has_ended();
        if self.running.as_mut().is_none_or(is_over) {
            self.running = None;
        }
        if WAITING.contains(&suite) {
            self.begin();
        }
    }

    /// The processors have time to spare from here on, and nothing is built by the suite that runs.
    pub(crate) fn begin(&mut self) {
        if self.running.as_mut().is_some_and(|(_, process)| !process.has_ended()) {
            return;
        }
        self.running = None;
        if let Some((name, step)) = self.left.pop_front() {
            println!("meanwhile what `{name}` needs is built");
            let process = step().and_then(|step| Process::start(&step.in_background()).ok());
            self.running = process.map(|process| (name, process));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(builds: &BuildsAhead) -> (Vec<&str>, Option<&str>) {
        (builds.left.iter().map(|(name, _)| *name).collect(), builds.running.as_ref().map(|(name, _)| *name))
    }

    #[test]
    fn one_build_runs_at_a_time_until_its_suite_begins() {
        let slow = || Some(Step::new("sleep", &["60"]));
        let left = VecDeque::from([("simulate", slow as fn() -> _), ("paths", slow), ("chaos", || None)]);
        let mut builds = BuildsAhead { left, running: None };
        builds.before("check");
        assert_eq!(names(&builds), (vec!["simulate", "paths", "chaos"], None), "the processors are busy");
        builds.before("unit");
        assert_eq!(names(&builds), (vec!["paths", "chaos"], Some("simulate")));
        builds.before("simulate");
        assert_eq!(names(&builds), (vec!["paths", "chaos"], None), "it is built by its suite");
        builds.before("kernel");
        assert_eq!(names(&builds), (vec!["chaos"], Some("paths")));
        builds.before("races");
        assert_eq!(names(&builds), (vec!["chaos"], Some("paths")));
        builds.before("paths");
        assert_eq!(names(&builds), (vec![], None), "what cannot be built now is left to its suite");
    }

    #[test]
    fn nothing_is_built_for_suites_that_do_not_run() {
        assert_eq!(names(&BuildsAhead::of(|suite| suite == "fuzz")).0, ["fuzz"]);
    }
}
