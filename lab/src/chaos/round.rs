//! Rounds: hosts work while disturbances come and go, then all is healed, fresh hosts check what was left, and the targets
//! are looked at in the quiet. It keeps out how any of it is done.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Outcome;
use super::host::{Deeds, Host, Plan, long_regions, regions};
use super::sample::{Sample, Series};
use super::schedule::{Kind, Schedule};
use super::target::Role;
use super::testbed::{Active, Testbed};
use crate::emulator::link::Dice;

/// Time for which hosts of one round work, and the longest rest of the round after that; a shorter
/// round is not begun.
const WORK_S: u64 = 90;
const WORK_S_MIN: u64 = 15;
const AFTER_S: u64 = 20;
/// Disturbances at a time.
const ACTIVE_MAX: usize = 3;
/// Before the first one, so that all connections stand.
const CALM: Duration = Duration::from_secs(2);
/// From the end of the workload: writes that are held, connecting again, reading back.
const FINISH_LIMIT: Duration = Duration::from_secs(300);
/// A task that takes longer hangs; those with their own limits end before.
const ERRAND_LIMIT: Duration = Duration::from_secs(300);
/// Until only what stays is connected: hostile hosts are given up after their keep alive and the time of a handshake.
const QUIET_LIMIT: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(100);
const SAMPLE: Duration = Duration::from_secs(2);
const PROGRESS: Duration = Duration::from_secs(10);

/// Tells and writes down what happens.
pub(super) struct Diary {
    begun: Instant,
    file: File,
    /// Progress goes to the error output, since a report goes to the other one.
    json: bool,
}

impl Diary {
    pub(super) fn new(logs: &Path, json: bool) -> Result<Diary, String> {
        let path = logs.join("diary.txt");
        let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Diary { begun: Instant::now(), file, json })
    }

    /// A line for the one who watches, and for the diary.
    pub(super) fn say(&mut self, line: &str) {
        if self.json {
            eprintln!("{}", self.dated(line));
        } else {
            println!("{}", self.dated(line));
        }
        self.note(line);
    }

    /// A line for the diary alone.
    fn note(&mut self, line: &str) {
        let dated = self.dated(line);
        // The run goes on even if its diary cannot be written.
        let _ = writeln!(self.file, "{dated}");
    }

    fn dated(&self, line: &str) -> String {
        format!("[{:7.1} s] {line}", self.begun.elapsed().as_secs_f64())
    }
}

/// All rounds of a run.
pub(super) struct Rounds<'a> {
    testbed: &'a mut Testbed,
    diary: &'a mut Diary,
    schedule: Schedule,
    dice: Dice,
    series: Vec<Series>,
    /// Connections and controllers of each target while only those who stay are there.
    usual: Vec<(u64, u64)>,
    number: u32,
    sampled: Instant,
    reported: Instant,
    outcome: Outcome,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(testbed: &'a mut Testbed, diary: &'a mut Diary, seed: u64) -> Rounds<'a> {
        let (series, now) = (vec![Series::default(); Role::ALL.len()], Instant::now());
        Rounds {
            testbed,
            diary,
            schedule: Schedule::new(seed),
            dice: Dice::new(seed ^ 0x686f_7374),
            series,
            usual: Role::ALL.map(usual).to_vec(),
            number: 0,
            sampled: now,
            reported: now,
            outcome: Outcome::default(),
        }
    }

    /// Runs one round after the other until `end`, or until one has failed.
    pub(super) fn run(&mut self, end: Instant) -> Outcome {
        std::thread::sleep(CALM);
        self.quiet();
        while self.outcome.failures.is_empty() {
            let left_s = end.saturating_duration_since(Instant::now()).as_secs();
            if left_s < WORK_S_MIN + AFTER_S {
                break;
            }
            self.number += 1;
            if let Err(reason) = self.round(WORK_S.min(left_s - AFTER_S)) {
                self.fail(reason);
            }
            self.quiet();
        }
        std::mem::take(&mut self.outcome)
    }

    pub(super) fn count(&self) -> u32 {
        self.number
    }

    pub(super) fn into_series(self) -> Vec<Series> {
        self.series
    }

    fn fail(&mut self, reason: String) {
        self.diary.say(&format!("FAILED: {reason}"));
        self.outcome.failures.push(reason);
    }

    fn take(&mut self, result: Result<Deeds, String>) {
        match result {
            Ok(deeds) => self.outcome.deeds.add(&deeds),
            Err(reason) => self.fail(reason),
        }
    }

    fn round(&mut self, work_s: u64) -> Result<(), String> {
        let site = self.testbed.site(true);
        let mut hosts = Vec::new();
        for region in regions() {
            let plan = Plan::by_chance(&region, work_s, self.testbed.number(), &mut self.dice);
            let log = format!("round-{}-{}", self.number, region.name);
            self.diary.note(&format!("{log}: {}", serde_json::to_string(&plan).unwrap_or_default()));
            hosts.push(Host::start(&site, plan, log)?);
        }
        let end = Instant::now() + Duration::from_secs(work_s);
        std::thread::sleep(CALM);
        self.disturb(end);
        self.diary.say(&format!("round {}: healed, hosts come to their end", self.number));
        for host in &mut hosts {
            let finished = host.finish(end + FINISH_LIMIT);
            self.take(finished);
        }
        if !self.outcome.failures.is_empty() {
            return Ok(());
        }
        let checked: Vec<Result<Deeds, String>> = std::thread::scope(|scope| {
            let checks: Vec<_> = hosts.iter().map(|host| scope.spawn(|| host.check())).collect();
            checks
                .into_iter()
                .map(|check| check.join().unwrap_or_else(|_| Err("a check panicked".to_owned())))
                .collect()
        });
        checked.into_iter().for_each(|result| self.take(result));
        Ok(())
    }

    /// Begins and ends disturbances until `end`. All is healed when this returns.
    fn disturb(&mut self, end: Instant) {
        let mut active: Vec<Active> = Vec::new();
        let mut next_at = Instant::now();
        while Instant::now() < end && self.outcome.failures.is_empty() {
            self.end_those(&mut active, Active::is_over);
            let now = Instant::now();
            if active.len() < ACTIVE_MAX && now >= next_at {
                let busy: Vec<_> = active.iter().map(|active| &active.disturbance).collect();
                if let Some(next) = self.schedule.next(&busy, end.saturating_duration_since(now)) {
                    next_at = now + next.pause;
                    self.diary.note(&format!(
                        "begins: {} for {:.1} s",
                        next.line(),
                        next.lasts.as_secs_f64()
                    ));
                    match self.testbed.begin(next) {
                        Ok(begun) => active.push(begun),
                        Err(reason) => self.fail(reason),
                    }
                }
            }
            self.look(&active);
            std::thread::sleep(LOOK);
        }
        // Tasks are given their time; everything else ends now.
        self.end_those(&mut active, |active| Instant::now() >= active.until.min(end));
        let limit = Instant::now() + ERRAND_LIMIT;
        while !active.is_empty() && Instant::now() < limit {
            self.end_those(&mut active, Active::is_over);
            std::thread::sleep(LOOK);
        }
        for hanging in active {
            let line = hanging.disturbance.line();
            self.fail(format!("{line} does not come to its end"));
        }
    }

    fn end_those(&mut self, active: &mut Vec<Active>, is_over: impl Fn(&Active) -> bool) {
        let mut at = 0;
        while at < active.len() {
            if !is_over(&active[at]) {
                at += 1;
                continue;
            }
            let over = active.remove(at);
            self.diary.note(&format!("ends: {}", over.disturbance.line()));
            let ended = self.testbed.end(over);
            self.take(ended);
        }
    }

    /// Looks at targets now and then, and tells how far all is.
    fn look(&mut self, active: &[Active]) {
        if self.sampled.elapsed() >= SAMPLE {
            self.sampled = Instant::now();
            for role in Role::ALL {
                // A target that is away or paused does not answer.
                let is_silent = active.iter().any(|active| {
                    let disturbance = &active.disturbance;
                    disturbance.role == role
                        && matches!(disturbance.kind, Kind::Kill | Kind::Stop | Kind::Pause)
                });
                if is_silent {
                    continue;
                }
                if let Err(reason) = self.testbed.target(role).check_alive() {
                    self.fail(reason);
                } else if let Ok(sample) = self.testbed.target(role).sample() {
                    self.series[role as usize].all.push(sample);
                }
            }
        }
        if self.reported.elapsed() >= PROGRESS {
            self.reported = Instant::now();
            let commands: u64 = self.testbed.targets.iter().map(|target| target.commands()).sum();
            let now: Vec<String> = active.iter().map(|active| active.disturbance.line()).collect();
            let happened: u64 = self.testbed.happened.values().sum();
            self.diary.say(&format!(
                "round {}: {commands} I/Os, {happened} disturbances, {} failures; now {}",
                self.number,
                self.outcome.failures.len(),
                if now.is_empty() { "calm".to_owned() } else { now.join(", ") }
            ));
        }
    }

    /// Waits until only those are connected who stay, and looks at what each target has then.
    fn quiet(&mut self) {
        let limit = Instant::now() + QUIET_LIMIT;
        let samples = loop {
            let samples: Result<Vec<Sample>, String> =
                Role::ALL.iter().map(|role| self.testbed.target(*role).sample()).collect();
            let samples = match samples {
                Ok(samples) => samples,
                Err(reason) => return self.fail(reason),
            };
            let are = |samples: &[Sample]| -> Vec<(u64, u64)> {
                samples.iter().map(|sample| (sample.connections, sample.controllers)).collect()
            };
            if are(&samples) == self.usual {
                break samples;
            }
            if Instant::now() >= limit {
                let (are, usual) = (are(&samples), &self.usual);
                return self
                    .fail(format!("connections and controllers are {are:?}, and have to be {usual:?}"));
            }
            std::thread::sleep(LOOK);
        };
        for (series, sample) in self.series.iter_mut().zip(&samples) {
            series.quiet.push(*sample);
        }
        let steady = samples[Role::Steady as usize];
        self.diary.say(&format!(
            "quiet: the steady target has {} kB, {} descriptors, {} threads",
            steady.memory_kb, steady.descriptors, steady.threads
        ));
    }
}

/// Connections and controllers of a target whose only hosts are those who stay: each of their paths is a controller with
/// an admin queue and the queue of its one job.
fn usual(role: Role) -> (u64, u64) {
    let ours = role.addresses();
    let paths = long_regions().into_iter().flat_map(|region| region.addresses);
    let count = paths.filter(|path| ours.contains(path)).count() as u64;
    (2 * count, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_stay_are_known() {
        assert_eq!(Role::ALL.map(usual), [(4, 2), (4, 2), (0, 0), (8, 4)]);
    }
}
