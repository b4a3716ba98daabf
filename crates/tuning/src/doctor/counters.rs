//! Counters of the kernel at one moment, from its text files: processors' time, dropped packets,
//! interfaces. Two moments give the rates.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use topology::{Machine, Waited, waited_times};

/// Interfaces whose counters are read: those on the ways to storage are few.
const INTERFACES_MAX: usize = 64;
/// Threads whose waiting is read: the workers of a large initiator and the reactors of a target.
const THREADS_MAX: usize = 512;

/// Counters of an interface that say that packets were lost there, by the kernel's names.
pub(crate) const LOSSES: [&str; 6] = [
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "tx_carrier_errors",
];

/// Counters of IP and TCP that rules look at; the kernel has hundreds.
const NETWORK: [&str; 1] = ["TcpExt/IPReversePathFilter"];

/// Counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counters {
    /// Seconds since a beginning that both moments have in common.
    pub(crate) at_s: f64,
    /// Ticks of all processors together.
    pub(crate) all: Ticks,
    /// Ticks of each processor.
    pub(crate) processors: BTreeMap<u32, Ticks>,
    /// Packets that were dropped since a processor's backlog was full.
    pub(crate) backlog_dropped: u64,
    /// Number of times that a processor ran out of its packet budget.
    pub(crate) squeezed: u64,
    /// Counters of IP and TCP, as in `TcpExt/IPReversePathFilter`.
    pub(crate) network: BTreeMap<String, u64>,
    /// Counters of interfaces, by interface and by the kernel's name.
    pub(crate) interfaces: BTreeMap<String, BTreeMap<String, u64>>,
    /// Files that could not be read, each with the reason.
    pub(crate) unread: Vec<(String, String)>,
    /// Threads by their number: nanoseconds that they ran, and that they waited for a processor.
    pub(crate) threads: BTreeMap<u32, (u64, u64)>,
    /// Time that threads of initiators waited for events, by thread, where their processes publish it.
    pub(crate) waited: BTreeMap<u32, Waited>,
}

/// A processor's time in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ticks {
    pub(crate) all: u64,
    pub(crate) idle: u64,
    pub(crate) soft_interrupts: u64,
    /// Time that a hypervisor gave to other machines.
    pub(crate) stolen: u64,
}

impl Ticks {
    fn read(numbers: &str) -> Option<Self> {
        let ticks: Vec<u64> = numbers.split_whitespace().map_while(|tick| tick.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        // user nice system idle iowait irq softirq steal; what guests used is in user and nice (proc_stat(5)).
        (ticks.len() >= 4).then(|| Self {
            all: ticks.iter().take(8).fold(0, |sum, tick| sum.saturating_add(*tick)),
            idle: at(3).saturating_add(at(4)),
            soft_interrupts: at(6),
            stolen: at(7),
        })
    }

    /// The part of the time since then that was of a kind; nothing where no time has passed.
    pub(crate) fn share_since(self, before: Self, of: fn(Self) -> u64) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some((of(self).saturating_sub(of(before)) as f64 / all as f64).min(1.0))
    }

    /// The part of the time since then that was not idle.
    pub(crate) fn busy_since(self, before: Self) -> Option<f64> {
        self.share_since(before, |ticks| ticks.idle).map(|idle| 1.0 - idle)
    }
}

impl Counters {
    /// Reads them of the live machine. What cannot be read stays empty.
    pub(crate) fn read(machine: &Machine, at_s: f64, interfaces: &[String], threads: &[(u32, u32)]) -> Self {
        let text = |path: &str| machine.read(path).unwrap_or_default();
        let mut counters = Self { at_s, ..Self::default() };
        counters.take(machine, "proc/stat", Self::take_processors);
        counters.take(machine, "proc/net/softnet_stat", Self::take_backlogs);
        counters.take(machine, "proc/net/netstat", Self::take_network);
        for interface in interfaces.iter().take(INTERFACES_MAX) {
            let folder = format!("sys/class/net/{interface}");
            let value = |name: &str| {
                let place = if name == "carrier_changes" { "" } else { "statistics/" };
                Some((name.to_owned(), text(&format!("{folder}/{place}{name}")).trim().parse().ok()?))
            };
            let names = LOSSES.iter().chain(&["rx_bytes", "tx_bytes", "carrier_changes"]);
            counters.interfaces.insert(interface.clone(), names.filter_map(|name| value(name)).collect());
        }
        let threads = &threads[..threads.len().min(THREADS_MAX)];
        counters.waited = waited_times(machine, threads);
        for (process, thread) in threads {
            let found = schedule(&text(&format!("proc/{process}/task/{thread}/schedstat")));
            counters.threads.extend(found.map(|found| (*thread, found)));
        }
        counters
    }

    /// Takes a text of the kernel's, or notes why there is none.
    fn take(&mut self, machine: &Machine, path: &str, take: impl FnOnce(&mut Self, &str)) {
        match machine.read(path) {
            Ok(text) => take(self, &text),
            Err(error) => self.unread.push((format!("/{path}"), error.to_string())),
        }
    }

    fn take_processors(&mut self, text: &str) {
        for line in text.lines() {
            let Some((name, numbers)) = line.split_once(' ') else { continue };
            let Some(ticks) = Ticks::read(numbers) else { continue };
            match name.strip_prefix("cpu") {
                Some("") => self.all = ticks,
                Some(number) => {
                    self.processors.extend(number.parse().ok().map(|number: u32| (number, ticks)));
                }
                None => {}
            }
        }
    }

    fn take_backlogs(&mut self, text: &str) {
        for line in text.lines() {
            let numbers: Vec<u64> =
                line.split_whitespace().map_while(|digits| u64::from_str_radix(digits, 16).ok()).collect();
            self.backlog_dropped += numbers.get(1).copied().unwrap_or(0);
            self.squeezed += numbers.get(2).copied().unwrap_or(0);
        }
    }

    /// Takes a text in which a line of names is followed by one of numbers.
    fn take_network(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
            let (Some((group, names)), Some((_, numbers))) = (names.split_once(':'), numbers.split_once(':'))
            else {
                continue;
            };
            for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()) {
                let name = format!("{group}/{name}");
                let number = number.parse().ok().filter(|_| NETWORK.contains(&name.as_str()));
                self.network.extend(number.map(|number| (name, number)));
            }
        }
    }

    /// Growth of a counter of IP or TCP since `before`.
    pub(crate) fn network_since(&self, before: &Self, name: &str) -> u64 {
        let of = |counters: &Self| counters.network.get(name).copied();
        of(self).zip(of(before)).map_or(0, |(now, before)| now.saturating_sub(before))
    }

    /// Growth of a counter of an interface since `before`.
    pub(crate) fn interface_since(&self, before: &Self, interface: &str, name: &str) -> u64 {
        let of = |counters: &Self| counters.interfaces.get(interface)?.get(name).copied();
        of(self).zip(of(before)).map_or(0, |(now, before)| now.saturating_sub(before))
    }
}

/// Nanoseconds that a thread ran and waited, from its schedstat.
fn schedule(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Both moments' counts, from a live machine or a recording.
///
/// # Errors
/// Data that the recording does not have.
pub(super) fn counters(
    machine: &Machine,
    moment: &str,
    at_s: f64,
    interfaces: &[String],
    threads: &[(u32, u32)],
) -> io::Result<Counters> {
    // A machine of its own, so that the texts that the counts are from are not recorded beside them.
    let path = format!("selvedge/counters-{moment}.json");
    machine.kept(&path, || Ok(Counters::read(&Machine::live(), at_s, interfaces, threads)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_counts() {
        let mut counters = Counters::default();
        counters
            .take_processors("cpu  10 0 10 70 5 0 3 2 9 0\ncpu0 10 0 10 70 5 0 3 2 9 0\nintr 5 6 7 8 9\n");
        assert_eq!(counters.all, Ticks { all: 100, idle: 75, soft_interrupts: 3, stolen: 2 });
        assert_eq!(counters.processors.keys().copied().collect::<Vec<_>>(), [0]);
        counters.take_backlogs("0000000b 00000001 0000000a 0\n00000001 00000002 00000001 0\nx\n");
        assert_eq!((counters.backlog_dropped, counters.squeezed), (3, 11));
        counters.take_network("Ip: B\nIp: -1\nTcpExt: A IPReversePathFilter\nTcpExt: 1 17\nIp:\n");
        assert_eq!(counters.network.get("TcpExt/IPReversePathFilter"), Some(&17));
        assert_eq!(counters.network.len(), 1, "others are not kept");
        assert_eq!(schedule("5 7 9\n"), Some((5, 7)));
        assert_eq!(schedule("5\n"), None);
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let before = Ticks { all: 100, idle: 80, soft_interrupts: 0, stolen: 0 };
        let now = Ticks { all: 200, idle: 140, soft_interrupts: 10, stolen: 25 };
        assert_eq!(now.share_since(before, |ticks| ticks.stolen), Some(0.25));
        assert_eq!(now.busy_since(before), Some(0.4));
        assert_eq!(before.busy_since(now), None);
    }

    #[test]
    fn this_machine_has_counts() {
        let found = Counters::read(&Machine::live(), 0.0, &["lo".to_owned()], &[]);
        assert!(found.all.all > 0 && !found.processors.is_empty());
        assert!(found.interfaces["lo"].contains_key("rx_bytes"), "{found:?}");
    }
}
