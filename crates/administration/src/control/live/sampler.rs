//! The thread that samples a target for all viewers: each second while there are viewers, less
//! often for the history alone, and not at all after a while without viewers.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use engine::target::NamespaceStatus;
use gateway::GroupStatus;
use hyper::body::Bytes;
use serde::Serialize;

use super::super::administration::Administration;
use super::super::limits::LIVE_HISTORY_STEP;
use super::findings::Findings;
use super::health::{Health, Looked, Troubles};
use super::hub::{Hub, Message, Next};
use super::interval::{Interval, Sample};
use super::own_look::own_look;
use super::roster::Roster;
use super::tick::Tick;

/// Time for which errors, refusals and silent hosts are reported.
const MINUTE: Duration = Duration::from_secs(60);

/// Starts the thread that has this number at its hub. It ends by itself when the administration is gone.
pub(super) fn start(administration: &Arc<Administration>, round: u64) -> io::Result<JoinHandle<()>> {
    let (hub, target) = (administration.live().clone(), Arc::downgrade(administration));
    thread::Builder::new().name("control-live".to_owned()).spawn(move || run(&hub, round, &target))
}

fn run(hub: &Hub, round: u64, target: &Weak<Administration>) {
    let mut sampler = Sampler::default();
    loop {
        let next = hub.wait(round, sampler.before.as_ref().map(|before| before.at));
        if next == Next::End {
            return;
        }
        // Held for one sample only, since the owner of the target may want to end it.
        let Some(administration) = target.upgrade() else {
            hub.rest_by_itself(round);
            return;
        };
        sampler.sample(&administration, hub, next);
    }
}

/// State between one sample and the next.
#[derive(Default)]
struct Sampler {
    before: Option<Arc<Sample>>,
    /// The sample with which the last step of the history ended.
    step: Option<Arc<Sample>>,
    /// Troubles of the last minute, a step apart.
    minute: VecDeque<(Instant, Troubles)>,
    namespaces: Vec<NamespaceStatus>,
    group: Option<GroupStatus>,
    /// Latest findings of the rules of `doctor`.
    findings: Option<Arc<Findings>>,
}

impl Sampler {
    fn sample(&mut self, administration: &Administration, hub: &Hub, next: Next) {
        let metrics = administration.metrics();
        let now = Arc::new(Sample { at: Instant::now(), time: SystemTime::now(), metrics });
        let is_step =
            self.step.as_ref().is_none_or(|step| now.at.duration_since(step.at) >= LIVE_HISTORY_STEP);
        if is_step {
            self.record(&now, hub);
        }
        if let Next::Tick { wants_roster } = next {
            if is_step || wants_roster {
                self.look(administration, hub);
            }
            self.examine(administration, hub, wants_roster);
            // After a pause without viewers, a rate over seconds is still one.
            if let Some(before) = self.before.take() {
                let interval = Interval::between(&now, &before);
                let health = self.health(&now, &before, &interval);
                let tick = Tick::new(&now, &before, &interval, health);
                hub.send(&Message::Tick(event("tick", &tick)));
            }
        }
        if next == Next::Step {
            administration.examiner().rest();
        }
        self.before = Some(now);
    }

    /// Ends a step of the history.
    fn record(&mut self, now: &Arc<Sample>, hub: &Hub) {
        if let Some(step) = &self.step {
            let interval = Interval::between(now, step);
            hub.with_history(|history| history.push(now, &interval));
        }
        while self.minute.front().is_some_and(|(at, _)| now.at.duration_since(*at) > MINUTE) {
            self.minute.pop_front();
        }
        self.minute.push_back((now.at, Troubles::of(&now.metrics)));
        self.step = Some(now.clone());
    }

    /// Looks at what costs more: the kernel is asked about each connection.
    fn look(&mut self, administration: &Administration, hub: &Hub) {
        let status = administration.status();
        self.namespaces.clone_from(&status.namespaces);
        self.group = administration.membership().map(gateway::Membership::status);
        hub.send(&Message::Roster(event("roster", &Roster::new(administration, status))));
    }

    /// Has the rules of `doctor` judge the target when it is time to.
    fn examine(&mut self, administration: &Administration, hub: &Hub, is_viewer_new: bool) {
        let examiner = administration.examiner();
        let new = examiner.renew(|at_s| own_look(administration, at_s));
        let is_new = new.is_some();
        self.findings = new.or_else(|| examiner.latest());
        if let Some(findings) = self.findings.as_deref().filter(|_| is_new || is_viewer_new) {
            hub.send(&Message::Findings(event("findings", findings)));
        }
    }

    fn health(&self, now: &Sample, before: &Sample, interval: &Interval<'_>) -> Health {
        let at_first = Troubles::of(&before.metrics);
        let minute = self.minute.front().map_or(&at_first, |(_, troubles)| troubles);
        let (namespaces, group) = (&self.namespaces, self.group.as_ref());
        let diagnosed = self.findings.as_ref().and_then(|found| found.findings.first());
        Health::of(&Looked { now, before, interval, minute, namespaces, group, diagnosed })
    }
}

/// A message of the stream: JSON has no line ends but those it is given.
fn event(name: &str, value: &impl Serialize) -> Bytes {
    let json = serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::warn!(%error, "a live event cannot be written");
        "{}".to_owned()
    });
    format!("event: {name}\ndata: {json}\n\n").into()
}
