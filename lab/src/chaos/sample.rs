//! What a process has at a moment, by the kernel's account and by its own metrics, and whether that stays. It keeps out
//! whose process it is and when it is looked at.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

/// Time for an answer: a target that is stopped does not answer, and on a machine that is very busy
/// others take their time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// With all limits reached, metrics are far shorter.
const METRICS_BYTES_MAX: u64 = 64 << 20;
/// Growth that is allowed from beginning to end: memory that the allocator keeps, and threads that
/// the system makes for a ring or the administration's runtime and ends again after a while.
const MEMORY_GROWTH_KB_MAX: u64 = 16 << 10;
const DESCRIPTORS_GROWTH_MAX: u64 = 2;
const THREADS_GROWTH_MAX: u64 = 16;

/// Resources of a process at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    /// Resident memory, without the free buffers that the process keeps for the next command and reports (kB).
    pub(crate) memory_kb: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    pub(crate) connections: u64,
    pub(crate) controllers: u64,
}

impl Sample {
    /// Looks at the process `id`, whose target counts `metrics`.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn of(id: u32, metrics: &Metrics) -> Result<Sample, String> {
        let (resident_kb, threads) = status(id)?;
        Ok(Sample {
            memory_kb: resident_kb.saturating_sub(metrics.buffer_bytes >> 10),
            descriptors: descriptors(id)?,
            threads,
            connections: metrics.connections,
            controllers: metrics.controllers,
        })
    }
}

/// Resident memory in kB and the number of threads.
pub(crate) fn status(id: u32) -> Result<(u64, u64), String> {
    let path = format!("/proc/{id}/status");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    Ok((field("VmRSS:"), field("Threads:")))
}

/// Number of its open descriptors.
pub(crate) fn descriptors(id: u32) -> Result<u64, String> {
    let path = format!("/proc/{id}/fd");
    let entries = std::fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(entries.count() as u64)
}

/// Counters of a target, as far as they matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// I/O commands that went well, and that failed.
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    /// Commands on namespace 3, where a good host works beside hostile ones.
    pub(crate) good_commands: u64,
    pub(crate) connections: u64,
    pub(crate) controllers: u64,
    pub(crate) buffer_bytes: u64,
}

impl Metrics {
    /// Asks a target by its control socket.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn ask(socket: &Path) -> Result<Metrics, String> {
        let failed = |error: std::io::Error| format!("no metrics at {}: {error}", socket.display());
        let mut stream = UnixStream::connect(socket).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").map_err(failed)?;
        let mut bytes = Vec::new();
        stream.take(METRICS_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes);
        if !text.contains("selvedge_build_info") {
            return Err(format!("no metrics at {}", socket.display()));
        }
        Ok(Metrics::parse(&text))
    }

    fn parse(text: &str) -> Metrics {
        let sum = |name: &str| {
            let named = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
            let values = text.lines().filter(named).filter_map(|line| line.rsplit(' ').next());
            values.filter_map(|value| value.parse::<u64>().ok()).sum()
        };
        Metrics {
            commands: sum("selvedge_commands_total"),
            errors: sum("selvedge_command_errors_total"),
            good_commands: text
                .lines()
                .filter(|line| line.starts_with("selvedge_commands_total") && line.contains("nsid=\"3\""))
                .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
                .sum(),
            connections: sum("selvedge_connections"),
            controllers: sum("selvedge_controllers"),
            buffer_bytes: sum("selvedge_reactor_buffer_bytes"),
        }
    }
}

/// Quantity over a run: all samples, and those at the quiet points between rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) first: u64,
    pub(crate) max: u64,
    pub(crate) last: u64,
    /// Medians of the first and of the last quarter of the quiet points.
    pub(crate) early: u64,
    pub(crate) late: u64,
    pub(crate) growth_max: u64,
    pub(crate) is_flat: bool,
}

type Field = fn(&Sample) -> u64;

/// Samples of one process: all, and those at quiet points.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Series {
    pub(crate) all: Vec<Sample>,
    pub(crate) quiet: Vec<Sample>,
}

impl Series {
    /// Each quantity, with whether it is back where it was.
    pub(crate) fn quantities(&self) -> Vec<Quantity> {
        let fields: [(&'static str, Field, u64); 5] = [
            ("memory kB", |sample| sample.memory_kb, MEMORY_GROWTH_KB_MAX),
            ("descriptors", |sample| sample.descriptors, DESCRIPTORS_GROWTH_MAX),
            ("threads", |sample| sample.threads, THREADS_GROWTH_MAX),
            ("connections", |sample| sample.connections, 0),
            ("controllers", |sample| sample.controllers, 0),
        ];
        fields.into_iter().filter_map(|(name, field, growth)| self.quantity(name, field, growth)).collect()
    }

    fn quantity(&self, name: &'static str, of: Field, growth_max: u64) -> Option<Quantity> {
        let quiet: Vec<u64> = self.quiet.iter().map(of).collect();
        let (&first, &last) = (quiet.first()?, quiet.last()?);
        let quarter = quiet.len().div_ceil(4);
        let (early, late) = (median(&quiet[..quarter]), median(&quiet[quiet.len() - quarter..]));
        let max = self.all.iter().chain(&self.quiet).map(of).max().unwrap_or(first);
        let is_flat = late <= early + growth_max && last <= first + 2 * growth_max;
        Some(Quantity { name, first, max, last, early, late, growth_max, is_flat })
    }
}

/// The middle of some numbers, the lower one of two; 0 of none.
fn median(numbers: &[u64]) -> u64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_what_metrics_say() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# HELP selvedge_connections Of a reactor.\n\
                    selvedge_connections{reactor=\"0\"} 3\nselvedge_connections{reactor=\"1\"} 4\n\
                    selvedge_commands_total{nsid=\"1\",operation=\"read\"} 10\n\
                    selvedge_commands_total{nsid=\"3\",operation=\"read\"} 5\n\
                    selvedge_reactor_buffer_bytes{reactor=\"0\"} 4096\n";
        let metrics = Metrics::parse(text);
        assert_eq!((metrics.connections, metrics.commands, metrics.buffer_bytes), (7, 15, 4096));
        assert_eq!(metrics.good_commands, 5);
    }

    #[test]
    fn this_process_is_seen() {
        let sample = Sample::of(std::process::id(), &Metrics::default()).unwrap();
        assert!(sample.memory_kb > 100 && sample.descriptors >= 3 && sample.threads >= 1);
        assert!(Sample::of(u32::MAX, &Metrics::default()).is_err());
    }

    #[test]
    fn growth_is_seen_and_a_burst_is_forgiven() {
        let at = |memory_kb: u64, descriptors: u64| Sample { memory_kb, descriptors, ..Sample::default() };
        let flat = |series: &Series, name: &str| {
            series.quantities().into_iter().find(|quantity| quantity.name == name).unwrap().is_flat
        };
        let quiet: Vec<Sample> = (0..8).map(|step| at(50_000, 20 + step % 2)).collect();
        let burst = Series { all: vec![at(900_000, 5000)], quiet };
        assert!(flat(&burst, "memory kB") && flat(&burst, "descriptors"));
        let quiet: Vec<Sample> = (0..8).map(|step| at(50_000 + step * 10_000, 20 + step)).collect();
        let leak = Series { all: Vec::new(), quiet };
        assert!(!flat(&leak, "memory kB") && !flat(&leak, "descriptors") && flat(&leak, "threads"));
    }

    #[test]
    fn medians() {
        assert_eq!((median(&[]), median(&[7]), median(&[9, 1, 5]), median(&[4, 1, 2, 3])), (0, 7, 5, 2));
    }
}
