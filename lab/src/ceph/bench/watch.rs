//! The processor time of processes while clients run, and what of it was spent in the steady part of the run. One way to look
//! at all of them, so that starting, connecting, warming up and ending count for none. It keeps out what they do.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::load;
use crate::program::{Ended, Program};

/// Interval of samples. The kernel counts in steps of 10 ms.
const LOOK: Duration = Duration::from_millis(25);
/// A client's last moments, in which it closes what it has opened: 30 ms were seen, and as many until it is noticed.
const ENDING_S: f64 = 0.15;
/// Share of the measured time that is sampled; the rest keeps the ramp away.
const SHARE: f64 = 0.8;

/// Processor time until one moment, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Since the clients were started.
    pub(super) at_s: f64,
    /// Of all clients.
    pub(super) client_s: f64,
    pub(super) gateway_s: f64,
    pub(super) osds_s: f64,
    /// Of everybody, over all processors.
    pub(super) busy_s: f64,
}

/// Processes under watch.
pub(super) struct Watched<'a> {
    pub(super) gateway: Option<u32>,
    pub(super) osds: &'a [u32],
}

/// Samples of a run.
pub(super) struct Seen {
    samples: Vec<Sample>,
    /// Time at which the first client had ended.
    end_s: f64,
    /// Of all clients from their start to their end.
    pub(super) whole_client_s: f64,
}

/// Processor time that was spent in a second of the steady part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spent {
    pub(super) window_s: f64,
    pub(super) client_s_per_s: f64,
    pub(super) gateway_s_per_s: f64,
    pub(super) osds_s_per_s: f64,
    /// Share of all processors used by neither clients, gateway, OSDs nor the idle task.
    pub(super) others_percent: f64,
}

impl Watched<'_> {
    /// Looks until all `clients` have ended.
    ///
    /// # Errors
    /// One fails: with what it said; or is not done by `deadline`.
    pub(super) fn until_done(&self, clients: &mut [Program], deadline: Instant) -> Result<Seen, String> {
        let began = Instant::now();
        let ids: Vec<u32> = clients.iter().map(Program::id).collect();
        let mut ended: Vec<Option<Ended>> = clients.iter().map(|_| None).collect();
        let (mut samples, mut end_s) = (Vec::new(), None);
        while ended.iter().any(Option::is_none) {
            samples.push(self.sample(&ids, began));
            std::thread::sleep(LOOK);
            for (client, end) in clients.iter_mut().zip(&mut ended).filter(|(_, end)| end.is_none()) {
                *end = client.finished(Instant::now())?;
                match end {
                    Some(end) if !end.status.success() => {
                        return Err(format!("a client failed ({}): {}", end.status, client.errors()));
                    }
                    Some(_) => _ = end_s.get_or_insert(began.elapsed().as_secs_f64()),
                    None if Instant::now() >= deadline => {
                        return Err(format!("a client does not come to its end: {}", client.errors()));
                    }
                    None => {}
                }
            }
        }
        let whole_client_s = ended.iter().flatten().map(|end| end.cpu_s).sum();
        Ok(Seen { samples, end_s: end_s.unwrap_or_default(), whole_client_s })
    }

    fn sample(&self, clients: &[u32], began: Instant) -> Sample {
        let sum = |ids: &[u32]| ids.iter().filter_map(|id| load::cpu_s(*id)).sum();
        Sample {
            at_s: began.elapsed().as_secs_f64(),
            client_s: sum(clients),
            gateway_s: self.gateway.and_then(load::cpu_s).unwrap_or_default(),
            osds_s: sum(self.osds),
            busy_s: load::busy_s().unwrap_or_default(),
        }
    }
}

impl Seen {
    /// Processor time in the steady part of a run that measured for `seconds` and then ended.
    ///
    /// # Errors
    /// There are too few samples, since the machine was too busy.
    pub(super) fn spent(&self, seconds: u32) -> Result<Spent, String> {
        let last_s = self.end_s - ENDING_S;
        let first_s = last_s - SHARE * f64::from(seconds);
        let first = self.samples.iter().find(|sample| sample.at_s >= first_s);
        let last = self.samples.iter().rev().find(|sample| sample.at_s <= last_s);
        match (first, last) {
            (Some(first), Some(last)) if last.at_s - first.at_s >= (last_s - first_s) / 2.0 => {
                Ok(Spent::between(first, last))
            }
            _ => Err("processor time could not be looked at in time".to_owned()),
        }
    }
}

impl Spent {
    fn between(first: &Sample, last: &Sample) -> Spent {
        let window_s = last.at_s - first.at_s;
        let rate = |of: fn(&Sample) -> f64| (of(last) - of(first)) / window_s;
        let (client, gateway) = (rate(|sample| sample.client_s), rate(|sample| sample.gateway_s));
        let osds = rate(|sample| sample.osds_s);
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let others = (rate(|sample| sample.busy_s) - client - gateway - osds) / processors;
        Spent {
            window_s,
            client_s_per_s: client,
            gateway_s_per_s: gateway,
            osds_s_per_s: osds,
            others_percent: (100.0 * others).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten looks a second. Nothing is spent in the first second, which is the ramp, nor in the last tenth.
    fn seen(seconds: u32) -> Seen {
        let end_s = f64::from(seconds) + 1.1;
        let sample = |tenth: u32| {
            let at_s = f64::from(tenth) / 10.0;
            let spent_s = (at_s - 1.0).clamp(0.0, f64::from(seconds));
            let (client_s, gateway_s) = (0.25 * spent_s, 0.5 * spent_s);
            Sample { at_s, client_s, gateway_s, osds_s: 0.125 * spent_s, busy_s: at_s }
        };
        Seen { samples: (0..=seconds * 10 + 11).map(sample).collect(), end_s, whole_client_s: 9.0 }
    }

    #[test]
    fn only_the_steady_part_counts() {
        let spent = seen(4).spent(4).unwrap();
        assert!((3.0..=3.2).contains(&spent.window_s), "{spent:?}");
        let rates = [spent.client_s_per_s, spent.gateway_s_per_s, spent.osds_s_per_s];
        for (found, wanted) in rates.into_iter().zip([0.25, 0.5, 0.125]) {
            assert!((found - wanted).abs() < 1e-9, "{spent:?}");
        }
        assert!(spent.others_percent > 0.0, "{spent:?}");
    }

    #[test]
    fn says_when_samples_are_missing() {
        let Seen { samples, end_s, whole_client_s } = seen(4);
        let few = Seen { samples: samples[..20].to_vec(), end_s, whole_client_s };
        assert!(few.spent(4).is_err());
    }

    #[test]
    fn looks_at_real_programs() {
        let start = |script: &str| Program::start(&["sh", "-c", script].map(str::to_owned)).unwrap();
        let watched = Watched { gateway: Some(std::process::id()), osds: &[] };
        let deadline = Instant::now() + Duration::from_secs(60);
        let seen = watched.until_done(&mut [start("sleep 0.2"), start("true")], deadline).unwrap();
        assert!(!seen.samples.is_empty() && seen.end_s > 0.0);
        let reason = watched.until_done(&mut [start("echo why >&2; exit 3")], deadline).err().unwrap();
        assert!(reason.contains("why"), "{reason}");
    }
}
