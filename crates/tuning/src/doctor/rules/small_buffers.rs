//! Socket buffers that are too small for what has to be under way: seen as time that a connection waited for one, or by the
//! settings, the link's speed and the round trip.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::{Carried, Host};
use crate::doctor::rule::Rule;
use crate::tune::advice::{BUFFER_BYTES_MAX, buffer_wanted_bytes, link_mbps};

pub(super) const RULE: Rule = Rule { name: "small-buffers", judge };

/// A connection that waits for a buffer for this part of the time is held back by it.
const HELD: f64 = 0.2;
/// Time with data to send that says something, in microseconds.
const BUSY_US_MIN: u64 = 50_000;
/// Buffers of this size are small in any network that is called one.
const BYTES_MAX: u64 = 16 << 20;

/// End of the connection with the small buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Here,
    There,
}

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let mut found: Vec<Finding> =
        [Side::Here, Side::There].into_iter().filter_map(|side| held(host, side)).collect();
    if found.is_empty() {
        found.extend(["tcp_rmem", "tcp_wmem"].into_iter().filter_map(|name| by_settings(host, name)));
    }
    found
}

/// Connections that were seen to wait.
fn held(host: &Host, side: Side) -> Option<Finding> {
    let share = |carried: &Carried<'_>| {
        let busy_us = carried.now.busy_us.saturating_sub(carried.before.busy_us);
        let of = |connection: &topology::Connection| match side {
            Side::Here => connection.buffer_limited_us,
            Side::There => connection.peer_limited_us,
        };
        let held_us = of(carried.now).saturating_sub(of(carried.before));
        // One that gets nowhere at all is not waiting for a larger buffer.
        let moves = carried.now.acknowledged_bytes > carried.before.acknowledged_bytes;
        (busy_us >= BUSY_US_MIN && moves).then(|| (held_us as f64 / busy_us as f64).min(1.0))
    };
    let carried = host.carried();
    let shares: Vec<(f64, &Carried<'_>)> = carried
        .iter()
        .filter_map(|carried| Some((share(carried)?, carried)))
        .filter(|(share, _)| *share >= HELD)
        .collect();
    let (share, worst) = shares.iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
    let now = worst.now;
    let subject = host.interface_of(now).unwrap_or("connections").to_owned();
    let rtt = units::time_ns(f64::from(now.rtt_us) * 1e3);
    let counted = units::plural(shares.len() as u64, "connection");
    let (cause, name, bytes) = match side {
        Side::Here => (
            format!("{counted} could send more, but the send buffer was full"),
            "tcp_wmem",
            u64::from(now.send_buffer_bytes),
        ),
        Side::There => {
            (format!("{counted} could send more, but the receiver's window was full"), "tcp_rmem", 0)
        }
    };
    let buffer = if bytes > 0 { format!(", buffer {}", units::bytes(bytes as f64)) } else { String::new() };
    let where_ = if side == Side::Here { "here" } else { "at the other end" };
    let finding = Finding::new(Severity::Limits, &subject, cause).costing(*share).seen(format!(
        "connection to {}: {:.0} % of the time that it had data to send; round trip {rtt}{buffer}",
        now.peer,
        share * 100.0
    ));
    let finding = host
        .setting(&format!("ipv4/{name}"))
        .filter(|_| side == Side::Here)
        .map(|text| format!("net.ipv4.{name} is {}", words(text)))
        .into_iter()
        .fold(finding, Finding::seen);
    Some(
        finding
            .cure(
                &format!("Allow larger buffers {where_}, or use more I/O queues; a reader that is busy needs a processor."),
                "A connection has as much under way as the link takes in a round trip.",
            )
            .command(command(host, side, now)),
    )
}

/// Returns the command that allows larger buffers; for the other end, whose settings are not seen here, the one that shows them.
fn command(host: &Host, side: Side, connection: &topology::Connection) -> String {
    if side == Side::There {
        return "sysctl net.ipv4.tcp_rmem".to_owned();
    }
    let [least, usual, most] = sizes(host, "tcp_wmem").unwrap_or([4096, 16_384, 0]);
    // The buffer was full with what is allowed now, so less than that cures nothing.
    let wanted = wanted(host, connection).unwrap_or(BYTES_MAX).max(most.saturating_mul(2));
    format!("sysctl -w net.ipv4.tcp_wmem='{least} {usual} {}'", wanted.min(BUFFER_BYTES_MAX))
}

/// Returns the least, usual and greatest size of buffers by a setting.
fn sizes(host: &Host, name: &str) -> Option<[u64; 3]> {
    let values = host.setting(&format!("ipv4/{name}"))?.split_whitespace();
    let values: Vec<u64> = values.filter_map(|value| value.parse().ok()).collect();
    values.try_into().ok()
}

/// Returns the buffer size that a connection needs, if the speed of its link is known.
fn wanted(host: &Host, connection: &topology::Connection) -> Option<u64> {
    let mbps = link_mbps(&host.survey.topology, host.interface_of(connection)?)?;
    Some(buffer_wanted_bytes(mbps, u64::from(connection.rtt_us)).max(1 << 20))
}

/// Settings that do not allow what a full link needs. The shortest round trip counts: a longer one may be waiting.
fn by_settings(host: &Host, name: &str) -> Option<Finding> {
    let [least, usual, most] = sizes(host, name)?;
    let connections = host.now.iter().flat_map(|now| &now.connections);
    let need = connections.filter_map(|connection| {
        let interface = host.interface_of(connection)?;
        let mbps = link_mbps(&host.survey.topology, interface)?;
        let rtt_us = u64::from(connection.rtt_us_min);
        Some((buffer_wanted_bytes(mbps, rtt_us), interface.to_owned(), mbps, rtt_us))
    });
    let (wanted, interface, mbps, rtt_us) = need.max_by_key(|(wanted, ..)| *wanted)?;
    (most < wanted).then(|| {
        let cause = format!(
            "net.ipv4.{name} allows {}; one connection needs {} to fill {interface}",
            units::bytes(most as f64),
            units::bytes(wanted as f64)
        );
        Finding::new(Severity::MayCost, &interface, cause)
            .costing((1.0 - most as f64 / wanted as f64) * 0.5)
            .seen(format!("net.ipv4.{name} is {least} {usual} {most}"))
            .seen(format!(
                "{interface} has {mbps} Mbit/s, shortest round trip {rtt_us} µs; twice their product"
            ))
            .cure("Allow larger buffers, or use more I/O queues.", "One connection can fill the link.")
            .command(format!("sysctl -w net.ipv4.{name}='{least} {usual} {wanted}'"))
    })
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn waiting(here_us: u64, there_us: u64, busy_us: u64) -> Case {
        let mut case = healthy();
        let connection = &mut case.host.now.as_mut().unwrap().connections[0];
        connection.busy_us += busy_us;
        connection.buffer_limited_us += here_us;
        connection.peer_limited_us += there_us;
        connection.acknowledged_bytes += 1000;
        case
    }

    #[test]
    fn time_that_was_waited_is_named() {
        let found = named_first(&waiting(800_000, 0, 900_000), RULE.name);
        assert_eq!((found.severity, found.cost_percent), (Severity::Limits, 80.0));
        assert!(found.commands[0].contains("tcp_wmem"), "{found:?}");
        let found = named_first(&waiting(0, 300_000, 900_000), RULE.name);
        assert!(found.cause.contains("receiver's window"), "{found:?}");
        assert_eq!(found.commands, ["sysctl net.ipv4.tcp_rmem"]);
    }

    #[test]
    fn no_cure_allows_less_than_now() {
        for (now, wanted) in [
            ("4096 16384 33554432", "'4096 16384 67108864'"),
            ("8192\t65536\t2147483647", "'8192 65536 2147483647'"),
            ("4096 16384 65536", "'4096 16384 1048576'"),
        ] {
            let mut case = waiting(800_000, 0, 900_000);
            case.host.settings.insert("ipv4/tcp_wmem".into(), now.into());
            let found = named_first(&case, RULE.name);
            assert_eq!(found.commands, [format!("sysctl -w net.ipv4.tcp_wmem={wanted}")]);
        }
    }

    #[test]
    fn settings_below_the_way_are_named() {
        let mut case = healthy();
        case.host.settings.insert("ipv4/tcp_rmem".into(), "4096\t131072\t212992".into());
        case.host.now.as_mut().unwrap().connections[0].rtt_us_min = 2000;
        let found = named_first(&case, RULE.name);
        assert!(found.cause.contains("tcp_rmem allows 208 KiB"), "{found:?}");
        assert_eq!(found.commands, ["sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'"]);
    }

    #[test]
    fn look_alikes_are_well() {
        // A little waiting, little to send, a connection that gets nowhere, small buffers on a short way.
        let little = waiting(100_000, 100_000, 1_000_000);
        let idle = waiting(4_000, 0, 5_000);
        let mut stuck = waiting(0, 1_000_000, 1_000_000);
        let before = stuck.host.before.as_ref().unwrap().connections[0].acknowledged_bytes;
        stuck.host.now.as_mut().unwrap().connections[0].acknowledged_bytes = before;
        let mut short = healthy();
        short.host.settings.insert("ipv4/tcp_rmem".into(), "4096 131072 1048576".into());
        for case in [little, idle, stuck, short] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
