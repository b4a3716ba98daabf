//! Builds of suites that come later, beside suites that wait for sockets, daemons and guests much of their time. What is built, and by
//! which command, is the suites' own concern.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::command::{Process, Step};
use crate::{dist, fuzz_build, mutants, races, releases};

/// Beside these the processors have time to spare; others build themselves. `ceph` says itself when it has built what it runs: it
/// would wait for a build in the same folder.
const WAITING: [&str; 7] = ["unit", "kernel", "attach", "commands", "paths", "install", "chaos"];

/// These run what lies in the folder of builds, where most builds would put something else in its place.
const RUNNING_WHAT_IS_BUILT: [&str; 1] = ["unit"];

/// A suite, and what builds for it.
type Build = (&'static str, fn() -> Option<Step>);

/// Whose build has a folder of its own.
const APART: [&str; 1] = ["demo"];

/// In the order in which they are needed.
const ALL: [Build; 5] = [
    ("demo", dist::programs_step),
    ("versions", releases::suite_step),
    ("races", races::suite_step),
    ("mutants", mutants::suite_step),
    ("fuzz", fuzz_build::suite_step),
];

/// The builds that are left, and the one that runs. One follows the other as long as the processors have time to spare.
pub(crate) struct BuildsAhead {
    builds: Arc<Mutex<Builds>>,
    /// Begins the next build when one has ended.
    is_followed: bool,
}

struct Builds {
    left: VecDeque<Build>,
    running: Option<(&'static str, Process)>,
    /// Whether others may begin, and whether only those with a folder of their own.
    is_time: bool,
    only_apart: bool,
}

/// How often it is looked whether a build has ended.
const LOOK: Duration = Duration::from_millis(500);

impl BuildsAhead {
    /// Those of the suites that are to run.
    pub(crate) fn of(is_chosen: impl Fn(&str) -> bool) -> Self {
        Self::new(ALL.into_iter().filter(|(suite, _)| is_chosen(suite)).collect())
    }

    fn new(left: VecDeque<Build>) -> Self {
        let builds = Builds { left, running: None, is_time: false, only_apart: false };
        Self { builds: Arc::new(Mutex::new(builds)), is_followed: false }
    }

    /// A suite begins. What builds for it ends, however far it is: the suite does the rest, which needs not give way, and says
    /// what is wrong if it cannot be built.
    pub(crate) fn before(&mut self, suite: &str) {
        lock(&self.builds).before(suite);
        if WAITING.contains(&suite) {
            self.begin();
        }
    }

    /// The processors have time to spare from here on, and nothing is built by the suite that runs.
    pub(crate) fn begin(&mut self) {
        let mut builds = lock(&self.builds);
        builds.is_time = true;
        builds.follow();
        if !std::mem::replace(&mut self.is_followed, true) {
            let followed = Arc::downgrade(&self.builds);
            std::thread::spawn(move || {
                while let Some(builds) = followed.upgrade() {
                    lock(&builds).follow();
                    drop(builds);
                    std::thread::sleep(LOOK);
                }
            });
        }
    }
}

fn lock(builds: &Mutex<Builds>) -> MutexGuard<'_, Builds> {
    builds.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Builds {
    fn before(&mut self, suite: &str) {
        // Where the suite builds, it would wait for a build that has begun: no other begins.
        self.is_time = false;
        self.only_apart = RUNNING_WHAT_IS_BUILT.contains(&suite);
        self.left.retain(|(name, _)| *name != suite);
        let is_over = |(name, process): &mut (&str, Process)| *name == suite || process.has_ended();
        if self.running.as_mut().is_none_or(is_over) {
            self.running = None;
        }
    }

    /// Begins the next build, if none runs and it is time.
    fn follow(&mut self) {
        if !self.is_time || self.running.as_mut().is_some_and(|(_, process)| !process.has_ended()) {
            return;
        }
        self.running = None;
        let may_begin = |(name, _): &Build| !self.only_apart || APART.contains(name);
        if !self.left.front().is_some_and(may_begin) {
            return;
        }
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

    fn names(builds: &BuildsAhead) -> (Vec<&'static str>, Option<&'static str>) {
        let builds = lock(&builds.builds);
        (builds.left.iter().map(|(name, _)| *name).collect(), builds.running.as_ref().map(|(name, _)| *name))
    }

    fn slow() -> Option<Step> {
        Some(Step::new("sleep", &["60"]))
    }

    #[test]
    fn one_build_runs_at_a_time_until_its_suite_begins() {
        let left = [("demo", slow as fn() -> _), ("paths", slow), ("chaos", || None)];
        let mut builds = BuildsAhead::new(left.into());
        builds.before("check");
        assert_eq!(names(&builds), (vec!["demo", "paths", "chaos"], None), "the processors are busy");
        builds.before("unit");
        assert_eq!(names(&builds), (vec!["paths", "chaos"], Some("demo")));
        builds.before("demo");
        assert_eq!(names(&builds), (vec!["paths", "chaos"], None), "it is built by its suite");
        builds.before("kernel");
        assert_eq!(names(&builds), (vec!["chaos"], Some("paths")));
        builds.before("races");
        assert_eq!(names(&builds), (vec!["chaos"], Some("paths")));
        builds.before("paths");
        assert_eq!(names(&builds), (vec![], None), "what cannot be built now is left to its suite");
    }

    #[test]
    fn one_build_follows_the_other_while_there_is_time() {
        let quick: fn() -> Option<Step> = || Some(Step::new("true", &[]));
        let mut builds = BuildsAhead::new([("paths", quick), ("races", slow), ("chaos", slow)].into());
        builds.before("unit");
        assert_eq!(names(&builds).1, None, "what is tested would be overwritten");
        builds.before("kernel");
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while names(&builds) != (vec!["chaos"], Some("races")) && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(names(&builds), (vec!["chaos"], Some("races")));
        // A suite that builds itself has the folder for itself, as soon as what has begun has ended.
        builds.before("check");
        lock(&builds.builds).running = None;
        std::thread::sleep(2 * LOOK);
        assert_eq!(names(&builds), (vec!["chaos"], None));
    }

    #[test]
    fn nothing_is_built_for_suites_that_do_not_run() {
        assert_eq!(names(&BuildsAhead::of(|suite| suite == "fuzz")).0, ["fuzz"]);
    }
}
