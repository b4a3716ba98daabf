//! Advice on the network: congestion control, packet size, buffers; and on the processors' own
//! settings.

use chart::units;
use engine::transport::congestion::AUTO;

use super::queues::link_mbps;
use super::{Basis, Case, Path, Recommendation};

/// A round trip from which on a way is long, in microseconds: beyond a rack, and a lost segment costs more than a command.
pub(crate) const LONG_US: u64 = 1_000;
/// The largest packets that all common devices have, in bytes.
const JUMBO_BYTES: u32 = 9_000;
/// Links from this speed on are worth larger packets, in Mbit/s.
const FAST_MBPS: u64 = 10_000;
/// Bytes of a packet that are not TCP's data: IPv4 and TCP with timestamps.
const HEADER_BYTES: u32 = 52;

/// The most that `tcp_rmem` and `tcp_wmem` take: both are signed numbers of 32 bits.
pub(crate) const BUFFER_BYTES_MAX: u64 = (1 << 31) - 1;

/// Segments sent again, for each connection, that are more than chance at its beginning. How many were sent in all is not
/// known.
const LOST_PER_FLOW: u64 = 10;

/// True if a path has delay, or connections over it have lost segments repeatedly.
pub(super) fn is_long(case: &Case<'_>) -> bool {
    case.paths.iter().any(|path| path.rtt_us.is_some_and(|rtt| rtt >= LONG_US)) || loses(case)
}

/// True if connections to these addresses have resent more than a few segments.
fn loses(case: &Case<'_>) -> bool {
    lost(case).is_some_and(|(lost, flows)| lost > LOST_PER_FLOW * flows)
}

/// Segments resent by connections to these addresses, and number of connections with that figure.
fn lost(case: &Case<'_>) -> Option<(u64, u64)> {
    let is_there = |address| case.paths.iter().any(|path| path.address.ip() == address);
    let flows = case.topology.flows.iter().filter(|flow| is_there(flow.peer.ip()));
    let counts: Vec<u64> = flows.filter_map(|flow| flow.retransmissions).map(u64::from).collect();
    (!counts.is_empty()).then(|| (counts.iter().sum(), counts.len() as u64))
}

/// Congestion control: `auto`, which chooses by the path of each connection, and what it needs there.
pub(super) fn congestion(case: &Case<'_>) -> Option<Recommendation> {
    let now = case.congestion_now.trim();
    if now.is_empty() {
        return None;
    }
    let mut why = if is_long(case) {
        let seen = match lost(case).filter(|_| loses(case)) {
            Some((lost, flows)) => format!("{lost} segments of {flows} connections were retransmitted"),
            None => "the round trip is a millisecond or more".to_owned(),
        };
        format!(
            "{seen}: where segments are lost auto selects bbr, which filled 4 emulated links of 1 Gbit/s, 5 ms and 0.5 % loss \
             with 2 queues a path; with cubic each loss halves a window"
        )
    } else if case.paths.iter().any(|path| path.rtt_us.is_none()) {
        "the round trip is unknown: auto selects bbr where segments are lost, and cubic elsewhere".to_owned()
    } else {
        let seen = match lost(case) {
            Some(_) => {
                "this machine has retransmitted next to nothing (retransmissions of the target are not visible here)"
            }
            None => "no connection exists that would show losses",
        };
        format!(
            "the path is short, and {seen}: auto selects cubic there, since the pacing of bbr slows short, fast links, and \
             follows the path of each connection"
        )
    };
    let has_bbr = case.congestion_available.split_whitespace().any(|name| name == "bbr");
    let mut command = "selvedge bench --congestion auto ...; selvedge serve --congestion auto ...".to_owned();
    if is_long(case) && !has_bbr {
        why.push_str("; the kernel has no bbr yet");
        command = format!("modprobe tcp_bbr; {command}");
    }
    Some(Recommendation {
        setting: "congestion control".to_owned(),
        value: AUTO.to_owned(),
        now: Some(now.to_owned()),
        why,
        basis: match is_long(case) {
            true => Basis::Measured("`cargo xtask lab paths --compare`, docs/paths.md".to_owned()),
            false => Basis::Rule("the path of each connection".to_owned()),
        },
        command: Some(command),
    })
}

/// Size of packets, for each interface that could have larger ones.
pub(super) fn packets(case: &Case<'_>) -> Vec<Recommendation> {
    let mut found: Vec<Recommendation> = Vec::new();
    for path in &case.paths {
        let Some(interface) = case.topology.interface(&path.interface) else { continue };
        let is_fast = link_mbps(case.topology, &path.interface).is_some_and(|mbps| mbps >= FAST_MBPS);
        let setting = format!("MTU of {}", interface.name);
        let is_known = found.iter().any(|advice| advice.setting == setting);
        if !is_fast || interface.mtu_bytes >= JUMBO_BYTES || interface.mtu_bytes <= HEADER_BYTES || is_known {
            continue;
        }
        let packets = |mtu: u32| (case.block_bytes + 24).div_ceil(u64::from(mtu - HEADER_BYTES));
        found.push(Recommendation {
            setting,
            value: JUMBO_BYTES.to_string(),
            now: Some(interface.mtu_bytes.to_string()),
            why: format!(
                "a command of {} takes {} packets instead of {}; every device on the way and the target have to have \
                 it too",
                units::bytes(case.block_bytes as f64),
                packets(JUMBO_BYTES),
                packets(interface.mtu_bytes)
            ),
            basis: Basis::Rule(format!("a link of {FAST_MBPS} Mbit/s or more")),
            command: Some(format!("ip link set {} mtu {JUMBO_BYTES}", interface.name)),
        });
    }
    found
}

/// The largest buffer that a connection should be allowed: twice what is under way when the link is full, as far as the kernel
/// allows it.
pub(crate) fn buffer_wanted_bytes(mbps: u64, rtt_us: u64) -> u64 {
    let twice = mbps.saturating_mul(rtt_us) / 4;
    twice.min(BUFFER_BYTES_MAX).next_power_of_two().min(BUFFER_BYTES_MAX)
}

/// Socket buffers that are too small for what is under way on the longest path.
pub(super) fn buffers(case: &Case<'_>) -> Vec<Recommendation> {
    // One connection may have to carry it all.
    let needs = |path: &Path| Some((link_mbps(case.topology, &path.interface)?, path.rtt_us?));
    let needs = case.paths.iter().filter_map(needs).max_by_key(|(mbps, rtt_us)| mbps * rtt_us);
    let Some((mbps, rtt_us)) = needs else { return Vec::new() };
    let (bytes, wanted) = (mbps * rtt_us / 8, buffer_wanted_bytes(mbps, rtt_us));
    let sysctls = [("tcp_rmem", &case.receive_buffer), ("tcp_wmem", &case.send_buffer)];
    let too_small = sysctls.into_iter().filter_map(|(name, text)| {
        let values: Vec<u64> = text.split_whitespace().filter_map(|value| value.parse().ok()).collect();
        let [least, usual, most] = values[..] else { return None };
        (most < wanted).then(|| Recommendation {
            setting: format!("net.ipv4.{name}, the last"),
            value: wanted.to_string(),
            now: Some(most.to_string()),
            why: format!(
                "{} are under way on the longest path when it is full (speed x round trip); a buffer has to hold twice \
                 that",
                units::bytes(bytes as f64)
            ),
            basis: Basis::Rule("twice the bandwidth-delay product".to_owned()),
            command: Some(format!("sysctl -w net.ipv4.{name}='{least} {usual} {wanted}'")),
        })
    });
    too_small.collect()
}

/// The processors' own settings.
pub(super) fn processors(case: &Case<'_>) -> Option<Recommendation> {
    let governor = case.governor.as_deref()?.trim();
    (governor != "performance").then(|| Recommendation {
        setting: "CPU frequency governor".to_owned(),
        value: "performance".to_owned(),
        now: Some(governor.to_owned()),
        why: "a processor that slows down while it waits for packets is slow when they come, and measurements differ"
            .to_owned(),
        basis: Basis::Table("the governor was `performance` for all of its figures".to_owned()),
        command: Some("cpupower frequency-set -g performance".to_owned()),
    })
}
