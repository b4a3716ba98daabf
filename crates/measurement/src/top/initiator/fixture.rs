//! Fixture of tests: a run with fixed numbers.

use std::net::SocketAddr;
use std::time::Duration;

use engine::Histogram;
use engine::initiator::{ConnectionReport, PathShare, PathState, PathStatus, StageLatencies};
use engine::transport::Transport;
use engine::transport::info::{SendTimes, StreamInfo, SubflowInfo};

use super::rates::Rates;
use super::watch::{About, Watch};
use crate::bench::histogram::Tally;
use crate::bench::sample::{Phase, Sample};

/// Time of the second sample.
pub(super) const NOW: Duration = Duration::from_millis(3100);
/// Share of each stage of every command, which takes 100 µs.
pub(super) const STAGES_PERCENT: [f64; 4] = [5.0, 10.0, 80.0, 5.0];
/// Workers of the run.
const WORKERS: u64 = 2;

fn status(number: u64) -> PathStatus {
    PathStatus {
        address: SocketAddr::from(([10, 1, number as u8, 1], 4420)),
        transport: Transport::Tcp,
        state: PathState::Live,
        ana: if number == 0 { "optimized" } else { "non-optimized" },
        cntlid: Some(1),
        reconnects: 0,
        error: None,
    }
}

fn stream(path: u64, worker: u64, commands: u64) -> StreamInfo {
    let subflow = SubflowInfo {
        local: SocketAddr::from(([10, 1, path as u8, 2], 40_000 + worker as u16)),
        remote: SocketAddr::from(([10, 1, path as u8, 1], 4420)),
        rtt_us: 45,
        rtt_variation_us: 5,
        retransmits: commands / 500,
        congestion_window: 10,
        delivery_rate_bytes: 0,
        acknowledged_bytes: commands * 72,
        received_bytes: commands * 5000,
        send_times: SendTimes::default(),
    };
    StreamInfo {
        transport: Transport::Tcp,
        congestion: "bbr".into(),
        rtt_us: 45 + worker as u32,
        rtt_variation_us: 5,
        retransmits: commands / 500,
        congestion_window: 10,
        delivery_rate_bytes: 125_000_000,
        acknowledged_bytes: subflow.acknowledged_bytes,
        received_bytes: subflow.received_bytes,
        unread_bytes: 100,
        unsent_bytes: 4096,
        send_times: SendTimes::default(),
        subflows: vec![subflow],
    }
}

/// Stages of this number of commands.
fn stages(commands: u64) -> StageLatencies {
    let of = |percent: f64| {
        let mut histogram = Histogram::default();
        (0..commands).for_each(|_| histogram.add(percent as u64 * 1000));
        histogram
    };
    STAGES_PERCENT.map(of).into()
}

/// This number of reads of 4 KiB, which took 100 µs each, evenly on two workers and as many paths. Path 0 has as much as all the
/// others together, and the first worker half of that.
pub(super) fn sample(paths: u64, at_s: u64, commands: u64) -> Sample {
    let share = |path: u64| match (path, paths) {
        (_, 1) => commands / WORKERS,
        (0, _) => commands / WORKERS / 2,
        _ => commands / WORKERS / 2 / (paths - 1),
    };
    let share = |worker: u64, path: u64| PathShare {
        commands: share(path),
        bytes: share(path) * 4096,
        latency_ns: share(path) * 100_000,
        stages: stages(share(path)),
        requeued: 0,
        in_flight: 16,
        connections: vec![ConnectionReport {
            queue_id: worker as u16 + 1,
            outstanding: 16,
            stream: Some(stream(path, worker, share(path))),
        }],
    };
    let mut total = Tally::default();
    (0..commands / WORKERS).for_each(|_| total.add(4096, 100_000));
    Sample {
        at: Duration::from_secs(at_s),
        phase: Phase::Measuring,
        measured: Duration::from_secs(at_s.saturating_sub(1)),
        totals: vec![total; WORKERS as usize],
        shares: (0..WORKERS).map(|worker| (0..paths).map(|path| share(worker, path)).collect()).collect(),
        paths: (0..paths).map(status).collect(),
    }
}

/// Returns the sample with this path lost at the time of an earlier one.
pub(super) fn lost(mut sample: Sample, earlier: &Sample, path: usize) -> Sample {
    sample.paths[path].state = PathState::Reconnecting;
    sample.paths[path].error = Some("it was cut".into());
    for (shares, before) in sample.shares.iter_mut().zip(&earlier.shares) {
        shares[path] =
            PathShare { connections: Vec::new(), requeued: 8, in_flight: 0, ..before[path].clone() };
    }
    sample
}

/// Rates of one second of 3000 commands.
pub(super) fn rates(paths: u64) -> Rates {
    Rates::of(&sample(paths, 3, 6000), Some(&sample(paths, 2, 3000)))
}

/// A run of 30 seconds, watched for that second.
pub(super) fn watch(paths: u64) -> Watch {
    let mut watch = Watch::new(About {
        workload: "randread 4 KiB".into(),
        target: "nqn.2026-01.io.selvedge:target namespace 1".into(),
        means: "2 jobs × 32, io_uring".into(),
        length: Some(Duration::from_secs(30)),
    });
    watch.begin(Duration::from_secs(1));
    watch.hear(sample(paths, 2, 3000));
    watch.hear(sample(paths, 3, 6000));
    watch
}
