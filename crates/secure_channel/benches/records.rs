//! What a record costs: sealed where it stands and from elsewhere, opened where it stands and elsewhere, beside the copy that
//! both save. CPU time of one thread, in the processor's caches: `cargo bench -p selvedge-secure-channel`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use secure_channel::{
    HEADER_BYTES, OVERHEAD_BYTES, Opened, OpenedInto, Opener, Peer, RecordLimit, Sealer, Suite, TrafficSecret,
};

/// Data of a command with its PDU header, and the most that a record has.
const DATA_BYTES: [usize; 3] = [512, 4120, 16_384];
/// Records between two looks at the clock.
const RECORDS: usize = 64;
/// Bytes of each kind in each round.
const ROUND_BYTES: usize = 100 << 20;
const ROUNDS: usize = 9;
const KINDS: [&str; 5] =
    ["sealed in place", "sealed from elsewhere", "opened in place", "opened elsewhere", "copied"];

fn main() {
    for suite in Suite::ALL {
        for data_bytes in DATA_BYTES {
            let mut rounds: Vec<[f64; KINDS.len()]> = (0..ROUNDS).map(|_| round(suite, data_bytes)).collect();
            for (what, name) in KINDS.iter().enumerate() {
                rounds.sort_by(|a, b| a[what].total_cmp(&b[what]));
                let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| rounds[at][what]);
                let gigabytes_per_s = data_bytes as f64 / median;
                println!(
                    "{suite} {data_bytes:5} bytes {name}: {median:.0} ns ({least:.0} to {most:.0}), {gigabytes_per_s:.1} GB/s"
                );
            }
        }
    }
}

/// Nanoseconds for a record, by what is done with it.
fn round(suite: Suite, data_bytes: usize) -> [f64; KINDS.len()] {
    let Some(secret) = TrafficSecret::new(suite, &vec![1; suite.hash().length()]) else {
        return [0.0; KINDS.len()];
    };
    let (mut sealer, mut opener) =
        (Sealer::new(&secret, RecordLimit::default()), Opener::new(&secret, Peer::Host));
    let record_bytes = data_bytes + OVERHEAD_BYTES;
    let (data, mut space) = (vec![7; RECORDS * data_bytes], vec![0; RECORDS * record_bytes]);
    let turns = ROUND_BYTES / (RECORDS * record_bytes);
    // The type goes behind the data.
    let mut places = vec![0; RECORDS * (data_bytes + 1)];
    let mut times = [Duration::ZERO; KINDS.len()];
    for _ in 0..turns {
        times[0] += timed(|| {
            space.chunks_mut(record_bytes).for_each(|record| sealed(sealer.seal(record, data_bytes)));
        });
        // Each record is opened once, since nonces go on.
        times[3] += timed(|| {
            let records = space.chunks_mut(record_bytes).zip(places.chunks_mut(data_bytes + 1));
            records.for_each(|(record, place)| opened_into(&mut opener, record, place));
        });
        let pairs = || data.chunks(data_bytes);
        times[1] += timed(|| {
            let records = space.chunks_mut(record_bytes).zip(pairs());
            records.for_each(|(record, data)| sealed(sealer.seal_from(data, record)));
        });
        times[2] += timed(|| space.chunks_mut(record_bytes).for_each(|record| opened(&mut opener, record)));
        times[4] += timed(|| {
            let records = space.chunks_mut(record_bytes).zip(pairs());
            records.for_each(|(record, data)| record[HEADER_BYTES..][..data_bytes].copy_from_slice(data));
        });
    }
    times.map(|time| time.as_nanos() as f64 / (turns * RECORDS) as f64)
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = cpu_time();
    work();
    cpu_time().saturating_sub(began)
}

/// This thread's, so that it counts for nothing what others do.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn sealed(result: Result<(), secure_channel::SealError>) {
    assert!(result.is_ok());
}

fn opened(opener: &mut Opener, record: &mut [u8]) {
    assert!(matches!(opener.open(record), Ok(Opened::Data { .. })));
}

fn opened_into(opener: &mut Opener, record: &mut [u8], place: &mut [u8]) {
    assert!(matches!(opener.open_into(record, place), Ok(OpenedInto::Place { .. })));
}
