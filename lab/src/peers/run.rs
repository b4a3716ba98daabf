//! One run: a target of its own, a host that asks it, and what both and everybody else took meanwhile. It keeps out which
//! runs are made.

use std::time::{Duration, Instant};

use super::client::WARM_UP_S;
use super::means::Means;
use super::pairing::{Ends, Pairing};
use super::reading::{self, Reading};
use super::record::Record;
use super::workload::Workload;
use crate::load::Clocks;
use crate::machine::processors;
use crate::program::Program;

/// Time for the bare pair besides its runtime.
const GRACE: Duration = Duration::from_secs(30);

/// Result of a run.
struct Seen {
    reading: Reading,
    target_s: f64,
    host_s: f64,
    /// Requests for which that time was spent.
    requests: f64,
    host_command: Vec<String>,
}

/// Makes one run; a failure is part of what is known of it.
pub(crate) fn run(means: &Means, pairing: Pairing, workload: &Workload, seconds: u32) -> Record {
    let mut record = Record {
        round: 0,
        attempt: 1,
        pairing,
        workload: *workload,
        reading: None,
        target_us: None,
        host_us: None,
        steal_percent: 0.0,
        others_percent: 0.0,
        target_command: Vec::new(),
        host_command: Vec::new(),
        failure: None,
    };
    let outcome = match pairing.ends() {
        Ends::Bare => watched(&mut record, || bare(means, workload, seconds)),
        Ends::Two(server, client) => server.start(means, workload).and_then(|serving| {
            record.target_command = means.named(&serving.command);
            watched(&mut record, || {
                let before_s = serving.cpu_s();
                let outcome = client.run(means, serving.address, workload, seconds)?;
                let target_s = serving.cpu_s().zip(before_s).map(|(after_s, before_s)| after_s - before_s);
                Ok(Seen {
                    reading: outcome.reading,
                    target_s: target_s.ok_or("the target is gone")?,
                    host_s: outcome.cpu_s,
                    requests: outcome.requests,
                    host_command: outcome.command,
                })
            })
        }),
    };
    match outcome {
        Err(reason) => record.failure = Some(reason),
        Ok(seen) => {
            let requests = seen.requests.max(1.0);
            record.target_us = Some(seen.target_s / requests * 1e6);
            record.host_us = Some(seen.host_s / requests * 1e6);
            record.host_command = means.named(&seen.host_command);
            record.reading = Some(seen.reading);
        }
    }
    record
}

/// Looks at all processors meanwhile.
fn watched(record: &mut Record, run: impl FnOnce() -> Result<Seen, String>) -> Result<Seen, String> {
    let (began, before) = (Instant::now(), Clocks::now());
    let seen = run()?;
    let all_s = began.elapsed().as_secs_f64() * processors() as f64;
    if let Some(shares) = before.zip(Clocks::now()).map(|(before, after)| before.until(&after)) {
        let both_percent = 100.0 * (seen.target_s + seen.host_s) / all_s;
        record.steal_percent = shares.steal_percent;
        record.others_percent = (100.0 - shares.idle_percent - shares.steal_percent - both_percent).max(0.0);
    }
    Ok(seen)
}

/// The roofline's server and client, which are one process.
fn bare(means: &Means, workload: &Workload, seconds: u32) -> Result<Seen, String> {
    let program = means.bare.as_ref().ok_or("there is no bare pair")?;
    let Workload { block_bytes, depth, connections, .. } = workload;
    let what = format!("{},{block_bytes},{depth},{connections}", workload.word());
    let cpus = format!("{},{}", means.target_cpu, means.host_cpu);
    let words = ["--pair", &what, "--seconds", &seconds.to_string(), "--cpus", &cpus].map(str::to_owned);
    let command = [vec![program.display().to_string()], words.to_vec()].concat();
    let mut program = Program::start(&command)?;
    let deadline = Instant::now() + Duration::from_secs((seconds + WARM_UP_S).into()) + GRACE;
    let Some(ended) = program.finished(deadline)? else {
        return Err(format!("the bare pair does not come to its end: {}", program.errors()));
    };
    let output = program.rest();
    if !ended.status.success() {
        return Err(format!("the bare pair failed ({}): {}", ended.status, program.errors()));
    }
    let (reading, target_s, host_s) = reading::of_bare(&output)
        .ok_or_else(|| format!("the bare pair printed nothing that is understood: {}", output.trim()))?;
    let requests = reading.requests.unwrap_or(reading.iops * f64::from(seconds));
    Ok(Seen { reading, target_s, host_s, requests, host_command: command })
}
