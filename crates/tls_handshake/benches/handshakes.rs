//! What a handshake costs at either end: CPU time of one thread, from the first byte to the secrets, with all that is set up and
//! freed for it. `cargo bench -p selvedge-tls-handshake`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use secure_channel::{ConfiguredPsk, Derivation, IdentityVersion, Names, Suite, TlsPsk};
use tls_handshake::{Established, Handshake, Progress};

/// Handshakes of which a round's figures are the mean.
const HANDSHAKES: u32 = 200;
const ROUNDS: usize = 9;

fn main() {
    for suite in Suite::ALL {
        let key = key(suite);
        let rounds: Vec<Round> = (0..ROUNDS).map(|_| round(&key)).collect();
        let (group, bytes) = (&rounds[0].group, rounds[0].bytes);
        for (end, name) in ["host", "controller"].iter().enumerate() {
            let mut times: Vec<f64> = rounds.iter().map(|round| microseconds(round.times[end])).collect();
            times.sort_by(f64::total_cmp);
            let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| times[at]);
            let sent = bytes[end];
            println!("{suite} {group} {name}: {median:.0} µs ({least:.0} to {most:.0}), sends {sent} bytes");
        }
    }
}

/// Times and bytes of host and controller.
struct Round {
    times: [Duration; 2],
    bytes: [usize; 2],
    group: String,
}

fn key(suite: Suite) -> TlsPsk {
    let names = Names::new("nqn.2014-08.org.example:host", "nqn.2014-08.org.example:subsystem");
    let psk = ConfiguredPsk::new(&vec![7; suite.hash().length()], Some(suite.hash()));
    let (Ok(names), Ok(psk)) = (names, psk) else { unreachable!("both are of the right form") };
    let input = psk.retained(&names, Derivation::Standard);
    match input.tls_psk(&names, suite, IdentityVersion::One) {
        Ok(key) => key,
        Err(error) => unreachable!("{error}"),
    }
}

fn round(key: &TlsPsk) -> Round {
    let mut round = Round { times: [Duration::ZERO; 2], bytes: [0; 2], group: String::new() };
    for _ in 0..HANDSHAKES {
        let (mut to_host, mut to_controller) = (Vec::new(), Vec::new());
        let (mut host, mut controller) = (None, None);
        round.bytes = [0; 2];
        let mut ends = [false; 2];
        while ends != [true; 2] {
            round.times[0] += timed(|| {
                let host = host.get_or_insert_with(|| Handshake::of_host(std::slice::from_ref(key)));
                ends[0] = ends[0] || step(host, &mut to_host, &mut to_controller).is_some();
            });
            round.bytes[0] += to_controller.len();
            round.times[1] += timed(|| {
                let controller = controller.get_or_insert_with(|| Handshake::of_controller(key));
                let done = step(controller, &mut to_controller, &mut to_host);
                ends[1] = ends[1] || done.is_some();
                round.group = done.map_or(std::mem::take(&mut round.group), |done| done.group);
            });
            round.bytes[1] += to_host.len();
        }
        round.times[0] += timed(|| drop(host));
        round.times[1] += timed(|| drop(controller));
    }
    round
}

fn step<E: std::fmt::Debug>(
    end: &mut Result<Handshake, E>,
    input: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> Option<Established> {
    let Ok(end) = end else { unreachable!("{end:?}") };
    let taken = std::mem::take(input);
    match end.step(&mut &taken[..], output) {
        Ok(Progress::Continues) => None,
        Ok(Progress::Done(established)) => Some(established),
        Err(error) => unreachable!("{error}"),
    }
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

fn microseconds(of_all: Duration) -> f64 {
    of_all.as_secs_f64() * 1e6 / f64::from(HANDSHAKES)
}
