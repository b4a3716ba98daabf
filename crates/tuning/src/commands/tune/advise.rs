//! `selvedge tune advise`: what to set for a target and a workload, from what can be seen of this machine, a connection's
//! round trip, and what was measured before.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use engine::address::HostAddress;
use host_connection::config::connection::first_reachable;

use super::look;
use crate::failure::Failure;
use crate::flags::tune::AdviseFlags;
use crate::report;
use crate::sweep::journal::Journal;
use crate::sweep::summary::Summary;
use crate::tune::advice::{Case, Measured, Path, Recommendations, tls};

/// Times that a target is connected to, for its round trip.
const PROBES: u32 = 3;
/// Time-out of a connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Looks, and recommends.
pub(super) fn run(flags: &AdviseFlags) -> Result<(), Failure> {
    let (machine, topology) = look(&flags.machine)?;
    let journal = flags.sweep.as_deref().map(Journal::read).transpose()?;
    let summaries = journal.as_ref().map(|journal| Summary::all(&journal.header.plan, journal));
    let measured = match (&journal, &summaries, &flags.sweep) {
        (Some(journal), Some(summaries), Some(folder)) => {
            Some(Measured { folder: folder.display().to_string(), plan: &journal.header.plan, summaries })
        }
        _ => None,
    };
    let mut paths = Vec::new();
    for address in &flags.traddr {
        let written: HostAddress = address.parse().map_err(Failure::usage)?;
        let found = written.remote(flags.trsvcid).map_err(Failure::failed)?;
        let address = if machine.is_live() { first_reachable(address, &found, None) } else { found[0] };
        // A recording has the ways and round trips of the connections that there were.
        let flows = topology.flows.iter().filter(|flow| flow.peer.ip() == address.ip());
        let interface = machine.route(address.ip(), None).or_else(|error| {
            let known = flows.clone().find_map(|flow| flow.interface.clone());
            known.ok_or_else(|| Failure::failed(format!("no route to {address}: {error}")))
        })?;
        let rtt_us = if machine.is_live() {
            Some(round_trip(address)?.as_micros() as u64)
        } else {
            flows.filter_map(|flow| flow.rtt_us).map(u64::from).min()
        };
        paths.push(Path { address, interface, rtt_us });
    }
    let sysctl = |name: &str| machine.read(&format!("proc/sys/net/ipv4/{name}")).unwrap_or_default();
    let case = Case {
        topology: &topology,
        paths,
        cores: flags.cores.unwrap_or(topology.processors.online.len() as u32),
        block_bytes: flags.bs.0,
        outstanding: flags.outstanding,
        goal: flags.goal,
        measured,
        congestion_available: sysctl("tcp_available_congestion_control"),
        congestion_now: sysctl("tcp_congestion_control"),
        receive_buffer: sysctl("tcp_rmem"),
        send_buffer: sysctl("tcp_wmem"),
        governor: machine.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok(),
        seal_ns: machine.is_live().then(|| tls::seal_ns(flags.bs.0)).flatten(),
    };
    report::print_as(flags.output.output_format, &Recommendations::of(&case))
}

/// The shortest time that a connection took to be made.
///
/// # Errors
/// No connection: advice for an unknown path would be a guess.
fn round_trip(address: SocketAddr) -> Result<Duration, Failure> {
    let probe = |_| {
        let began = Instant::now();
        TcpStream::connect_timeout(&address, PROBE_TIMEOUT).map(|_| began.elapsed())
    };
    let (made, failed): (Vec<_>, Vec<_>) = (0..PROBES).map(probe).partition(Result::is_ok);
    if let Some(shortest) = made.into_iter().flatten().min() {
        return Ok(shortest);
    }
    let error = failed.into_iter().find_map(Result::err).unwrap_or_else(|| ErrorKind::TimedOut.into());
    let reason = match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused (is a target listening there?)".to_owned(),
        ErrorKind::TimedOut => format!("no connection within {} s", PROBE_TIMEOUT.as_secs()),
        _ => error.to_string(),
    };
    Err(Failure::failed(format!(
        "no advice for {address}: {reason}; check -a and -s, since the advice depends on the round trip"
    )))
}
