//! Which target is asked by which host, and what is compared with what. It keeps out how they are started.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::server::Server;
use super::workload::Workload;

/// A target and a host. Names of NVMe pairs have the target first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pairing {
    Ours,
    Spdk,
    OursSpdk,
    SpdkOurs,
    Bare,
    QemuNbd,
    Tgtd,
    TgtdAio,
}

/// Target and host of a pairing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Two(Server, Client),
    /// Process with a thread for each end, which move the same bytes and do nothing else.
    Bare,
}

impl Pairing {
    pub(crate) const ALL: [Pairing; 8] = [
        Pairing::Ours,
        Pairing::Spdk,
        Pairing::OursSpdk,
        Pairing::SpdkOurs,
        Pairing::Bare,
        Pairing::QemuNbd,
        Pairing::Tgtd,
        Pairing::TgtdAio,
    ];

    /// The word for it in options and in what is kept.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Pairing::Ours => "ours",
            Pairing::Spdk => "spdk",
            Pairing::OursSpdk => "ours-spdk",
            Pairing::SpdkOurs => "spdk-ours",
            Pairing::Bare => "bare",
            Pairing::QemuNbd => "qemu-nbd",
            Pairing::Tgtd => "tgtd",
            Pairing::TgtdAio => "tgtd-aio",
        }
    }

    /// A name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Pairing::Ours => "our target + our host",
            Pairing::Spdk => "SPDK's target + SPDK's host",
            Pairing::OursSpdk => "our target + SPDK's host",
            Pairing::SpdkOurs => "SPDK's target + our host",
            Pairing::Bare => "bare sockets",
            Pairing::QemuNbd => "NBD: qemu-nbd + fio",
            Pairing::Tgtd => "iSCSI: tgtd rdwr + iscsi-perf",
            Pairing::TgtdAio => "iSCSI: tgtd aio + qemu-img bench",
        }
    }

    pub(crate) const fn ends(self) -> Ends {
        match self {
            Pairing::Ours => Ends::Two(Server::Selvedge, Client::Selvedge),
            Pairing::Spdk => Ends::Two(Server::Spdk, Client::Spdk),
            Pairing::OursSpdk => Ends::Two(Server::Selvedge, Client::Spdk),
            Pairing::SpdkOurs => Ends::Two(Server::Spdk, Client::Selvedge),
            Pairing::Bare => Ends::Bare,
            Pairing::QemuNbd => Ends::Two(Server::QemuNbd, Client::Fio),
            Pairing::Tgtd => Ends::Two(Server::TgtRdwr, Client::IscsiPerf),
            Pairing::TgtdAio => Ends::Two(Server::TgtAio, Client::QemuImg),
        }
    }

    pub(crate) const fn has_spdk(self) -> bool {
        matches!(self, Pairing::Spdk | Pairing::OursSpdk | Pairing::SpdkOurs)
    }

    /// True if it serves the file that all targets without memory of their own share.
    pub(crate) const fn has_file(self) -> bool {
        matches!(self, Pairing::QemuNbd | Pairing::Tgtd | Pairing::TgtdAio)
    }

    /// True if it can run this workload.
    pub(crate) const fn can(self, workload: &Workload) -> bool {
        match self {
            Pairing::Ours | Pairing::Spdk | Pairing::OursSpdk | Pairing::SpdkOurs => true,
            // The roofline knows blocks of 4 KiB alone.
            Pairing::Bare => !workload.digests && workload.block_bytes == 4096,
            Pairing::QemuNbd | Pairing::TgtdAio => !workload.digests,
            // iscsi-perf only reads.
            Pairing::Tgtd => !workload.digests && !workload.is_write(),
        }
    }
}

/// The IOPS of one pairing divided by those of another.
pub(crate) struct Comparison {
    pub(crate) title: &'static str,
    pub(crate) of: Pairing,
    pub(crate) to: Pairing,
}

const fn comparison(title: &'static str, of: Pairing, to: Pairing) -> Comparison {
    Comparison { title, of, to }
}

/// Comparisons, the most important first.
pub(crate) const COMPARISONS: [Comparison; 9] = [
    comparison("both ends ours / both SPDK's", Pairing::Ours, Pairing::Spdk),
    comparison("our target / SPDK's, with our host", Pairing::Ours, Pairing::SpdkOurs),
    comparison("our target / SPDK's, with SPDK's host", Pairing::OursSpdk, Pairing::Spdk),
    comparison("our host / SPDK's, with our target", Pairing::Ours, Pairing::OursSpdk),
    comparison("our host / SPDK's, with SPDK's target", Pairing::SpdkOurs, Pairing::Spdk),
    comparison("ours / bare sockets", Pairing::Ours, Pairing::Bare),
    comparison("ours / qemu-nbd", Pairing::Ours, Pairing::QemuNbd),
    comparison("ours / tgtd rdwr", Pairing::Ours, Pairing::Tgtd),
    comparison("ours / tgtd aio", Pairing::Ours, Pairing::TgtdAio),
];

#[cfg(test)]
mod tests {
    use super::super::workload::USUAL;
    use super::*;

    #[test]
    fn only_nvme_has_digests_and_some_only_read() {
        let unable = |workload: usize| -> Vec<&str> {
            let all = Pairing::ALL.into_iter();
            all.filter(|pairing| !pairing.can(&USUAL[workload])).map(Pairing::word).collect()
        };
        assert_eq!(unable(0), Vec::<&str>::new());
        assert_eq!(unable(3), ["tgtd"]);
        assert_eq!(unable(6), ["bare"]);
        assert_eq!(unable(8), ["bare", "qemu-nbd", "tgtd", "tgtd-aio"]);
    }

    #[test]
    fn words_are_those_of_options_and_of_what_is_kept() {
        for pairing in Pairing::ALL {
            let option = pairing.to_possible_value().unwrap();
            assert_eq!(option.get_name(), pairing.word());
            assert_eq!(serde_json::to_value(pairing).unwrap(), pairing.word());
        }
    }
}
