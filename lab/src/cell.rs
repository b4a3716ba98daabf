//! One cell of an experiment: how the host reaches the target, and over what network. It keeps out running it.

use clap::ValueEnum;
use serde::Serialize;

use crate::scenario::Scenario;

/// Value with a word on the command line.
pub(crate) trait Word: ValueEnum {
    /// Word on the command line, which files and other programs' command lines use too.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned())
    }
}

impl<T: ValueEnum> Word for T {}

/// Transport of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    Tcp,
    Mptcp,
}

/// Policy by which a command finds its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Policy {
    Numa,
    RoundRobin,
    QueueDepth,
    Latency,
}

/// Kind of the addresses at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Family {
    Ipv4,
    Ipv6,
    /// Sockets of IPv6 with addresses of IPv4 that are mapped into it.
    V4Mapped,
}

/// Encryption of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tls {
    Off,
    On,
}

/// The congestion control of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Congestion {
    Cubic,
    Bbr,
    /// Congestion control by the path.
    Auto,
    /// Default of the program.
    Default,
}

/// Direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    pub(crate) const BOTH: [Access; 2] = [Access::Read, Access::Write];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
        }
    }

    /// fio's word for random access of this kind.
    pub(crate) const fn workload(self) -> &'static str {
        match self {
            Access::Read => "randread",
            Access::Write => "randwrite",
        }
    }
}

/// Settings by which the host reaches the target, with the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    pub(crate) transport: Transport,
    /// Addresses of the target that the host connects to, each on a link of its own.
    pub(crate) paths: usize,
    pub(crate) policy: Policy,
    pub(crate) scenario: Scenario,
    pub(crate) congestion: Congestion,
    /// I/O queues of each path; none leaves it to the program.
    pub(crate) queues: Option<u32>,
    pub(crate) family: Family,
    pub(crate) tls: Tls,
}

impl Cell {
    /// The product with default settings: it chooses its policy, its queues and its congestion control.
    pub(crate) const fn product(scenario: Scenario) -> Cell {
        Cell {
            transport: Transport::Tcp,
            paths: 4,
            policy: Policy::Latency,
            scenario,
            congestion: Congestion::Default,
            queues: None,
            family: Family::Ipv4,
            tls: Tls::Off,
        }
    }

    /// A name for people, without the scenario: `tcp 4 round-robin, cubic, 4 queues`.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.transport.name(), self.settings())
    }

    /// The same without the transport: `4 round-robin, cubic, 4 queues`, and `, ipv6, tls` where they are.
    pub(crate) fn settings(&self) -> String {
        let queues = match self.queues {
            None => "default queues".to_owned(),
            Some(1) => "1 queue".to_owned(),
            Some(queues) => format!("{queues} queues"),
        };
        let (policy, congestion) = (self.policy.name(), self.congestion.name());
        let marks: String = self.marks().iter().map(|mark| format!(", {mark}")).collect();
        format!("{} {policy}, {congestion}, {queues}{marks}", self.paths)
    }

    /// Family and encryption, where they are not the usual ones.
    pub(crate) fn marks(&self) -> Vec<String> {
        let family = (self.family != Family::Ipv4).then(|| self.family.name());
        let tls = (self.tls == Tls::On).then(|| "tls".to_owned());
        family.into_iter().chain(tls).collect()
    }

    /// A name for files, with the scenario: `lossy-tcp-4-round-robin-cubic-4q`.
    pub(crate) fn file_name(&self) -> String {
        let queues = self.queues.map_or_else(|| "default".to_owned(), |queues| format!("{queues}q"));
        let words = [self.scenario.name(), self.transport.name(), self.paths.to_string(), self.policy.name()];
        let marks: String = self.marks().iter().map(|mark| format!("-{mark}")).collect();
        format!("{}-{}-{queues}{marks}", words.join("-"), self.congestion.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_cells_apart() {
        let cell = Cell::product(Scenario::Lossy);
        assert_eq!(cell.name(), "tcp 4 latency, default, default queues");
        let other = Cell { queues: Some(4), congestion: Congestion::Cubic, ..cell };
        assert_eq!(other.name(), "tcp 4 latency, cubic, 4 queues");
        assert_eq!(other.file_name(), "lossy-tcp-4-latency-cubic-4q");
        let marked = Cell { family: Family::V4Mapped, tls: Tls::On, ..other };
        assert_eq!(marked.name(), "tcp 4 latency, cubic, 4 queues, v4-mapped, tls");
        assert_eq!(marked.file_name(), "lossy-tcp-4-latency-cubic-4q-v4-mapped-tls");
    }
}
