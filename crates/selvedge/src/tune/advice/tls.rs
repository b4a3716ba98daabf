//! Cost of TLS on this machine, and the number of queues that fill the links with it: records of a
//! queue are sealed and opened by one processor.

use std::time::{Duration, Instant};

use chart::units;
use secure_channel::{DATA_BYTES_MAX, OVERHEAD_BYTES, RecordLimit, Sealer, Suite, TrafficSecret};

use super::queues::links_mbps;
use super::{Basis, Case, Recommendation};

/// Samples that sealing is timed in, of which the shortest counts: others may have had the processor meanwhile.
const SAMPLES: u32 = 20;
/// Duration of one sample.
const SAMPLE: Duration = Duration::from_millis(1);

/// Time that one processor of this machine takes to seal a command's data with AES-128-GCM, in nanoseconds.
pub(crate) fn seal_ns(block_bytes: u64) -> Option<f64> {
    let secret = TrafficSecret::new(Suite::Aes128Gcm, &[0; 32])?;
    let mut sealer = Sealer::new(&secret, RecordLimit::default());
    let record_bytes = block_bytes.clamp(1, DATA_BYTES_MAX as u64) as usize;
    let mut record = vec![0; record_bytes + OVERHEAD_BYTES];
    let mut shortest = f64::INFINITY;
    for _ in 0..SAMPLES {
        let (began, mut records) = (Instant::now(), 0_u32);
        while began.elapsed() < SAMPLE {
            sealer.seal(&mut record, record_bytes).ok()?;
            records += 1;
        }
        shortest = shortest.min(began.elapsed().as_nanos() as f64 / f64::from(records.max(1)));
    }
    Some(shortest * block_bytes as f64 / record_bytes as f64)
}

/// Returns the cost of TLS, if it was timed.
pub(super) fn tls(case: &Case<'_>) -> Option<Recommendation> {
    let seal_ns = case.seal_ns?;
    let rate = case.block_bytes as f64 / seal_ns * 1e9;
    let link = links_mbps(case).map(|mbps| mbps as f64 * 1e6 / 8.0).filter(|link| *link > 0.0);
    let queues = link.map(|link| (link / rate).ceil().max(1.0) as u64);
    let fill = match (link, queues) {
        (Some(link), Some(queues)) => format!(
            ". Filling links of {}/s takes {queues} processors for sealing alone: use at least as many queues",
            units::bytes(link)
        ),
        _ => String::new(),
    };
    Some(Recommendation {
        setting: "I/O queues at least, with TLS".to_owned(),
        value: queues
            .map_or_else(|| "unknown, as is the speed of the links".to_owned(), |queues| queues.to_string()),
        now: None,
        why: format!(
            "TLS costs a processor of this machine {} more for each {}, which limits a queue to {}/s: one processor seals \
             and opens all of its data{fill}. Digests add nothing to TLS; leave them off",
            units::time_ns(seal_ns),
            units::bytes(case.block_bytes as f64),
            units::bytes(rate)
        ),
        basis: Basis::Measured(format!("AES-128-GCM here, for {} ms", SAMPLES * SAMPLE.as_millis() as u32)),
        command: None,
    })
}
