//! Flags of `subsystem` and `namespace`, which change the configuration of a running target.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use engine::target::{CommandQuiesce, KnownHost, NamespaceConfig, WriteProtection, parse_uuid};
use nvme::discovery::Nqn;

use super::control::ControlFlags;
use super::image::{CloneFlags, ImageFlags, RemovalFlags};
use super::nsid_list::NsidList;
use crate::spec::namespace;
use crate::spec::size::{Size, parse_time};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge subsystem list
  selvedge subsystem add nqn.2026-01.org.example:disks --allow-any-host
  selvedge subsystem set nqn.2026-01.org.example:disks --storage /srv/nvme --storage-max 1t")]
pub struct SubsystemFlags {
    #[command(subcommand)]
    pub action: SubsystemAction,
}

#[derive(Debug, Subcommand)]
pub enum SubsystemAction {
    /// Add a subsystem
    #[command(after_help = "Example:
  selvedge subsystem add nqn.2026-01.org.example:disks \\
      --allow-host nqn.2014-08.org.nvmexpress:uuid:...")]
    Add {
        /// NQN of the subsystem
        nqn: Nqn,
        /// Allow every host to connect
        #[arg(long, conflicts_with = "allow_hosts")]
        allow_any_host: bool,
        /// NQN of a host that may connect; may be given several times, or as a comma-separated list
        #[arg(long = "allow-host", value_name = "NQN", value_delimiter = ',')]
        allow_hosts: Vec<Nqn>,
        #[command(flatten)]
        settings: Box<SubsystemSettings>,
        #[command(flatten)]
        control: Box<ControlFlags>,
    },
    /// Remove a subsystem, and disconnect its hosts; its files stay
    #[command(after_help = "Example:
  selvedge subsystem remove nqn.2026-01.org.example:disks")]
    Remove {
        /// NQN of the subsystem
        nqn: Nqn,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// List the subsystems
    #[command(after_help = "Example:
  selvedge subsystem list")]
    List {
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Show a subsystem
    #[command(after_help = "Example:
  selvedge subsystem show nqn.2026-01.org.example:disks")]
    Show {
        /// NQN of the subsystem
        nqn: Nqn,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Change the settings of a subsystem
    #[command(after_help = "Example:
  selvedge subsystem set nqn.2026-01.org.example:disks --storage /srv/nvme --storage-max 1t")]
    Set {
        /// NQN of the subsystem
        nqn: Nqn,
        /// Forbid hosts to create namespaces
        #[arg(long, conflicts_with = "storage")]
        no_storage: bool,
        /// Serve the subsystem on all ports
        #[arg(long, conflicts_with = "ports")]
        all_ports: bool,
        #[command(flatten)]
        settings: Box<SubsystemSettings>,
        #[command(flatten)]
        control: Box<ControlFlags>,
    },
}

/// Settings of a subsystem, for `add` and `set`.
#[derive(Debug, Args)]
pub struct SubsystemSettings {
    /// Serial number; hosts must reconnect after a change
    #[arg(long, value_name = "TEXT")]
    pub serial: Option<String>,
    /// Model number; hosts must reconnect after a change
    #[arg(long, value_name = "TEXT")]
    pub model: Option<String>,
    /// Directory in which hosts may create namespaces
    #[arg(long, value_name = "DIR", requires = "storage_max")]
    pub storage: Option<PathBuf>,
    /// Maximum size of all namespaces in that directory together
    #[arg(long, value_name = "SIZE", requires = "storage")]
    pub storage_max: Option<Size>,
    /// Maximum size of one host's namespaces in that directory together [default: half of
    /// --storage-max]
    #[arg(long, value_name = "SIZE", requires = "storage")]
    pub storage_max_per_host: Option<Size>,
    /// Maximum number of namespaces that one host may create in that directory [default: 64]
    #[arg(long, value_name = "N", requires = "storage")]
    pub storage_namespaces_per_host: Option<u32>,
    /// Number of a port that serves the subsystem; may be given several times
    #[arg(long = "port", value_name = "N")]
    pub ports: Vec<u16>,
    /// Command Quiesce Time reported to hosts, within which commands of a lost host still take
    /// effect: a time that the storage meets, such as 31s, auto to measure it, or default
    #[arg(long, value_name = "TIME|auto|default")]
    pub command_quiesce: Option<QuiesceFlag>,
}

/// Command Quiesce Time, as the command line has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuiesceFlag {
    /// Default time of the engine.
    #[default]
    Default,
    /// Time that the target measures.
    Auto,
    /// Time in milliseconds.
    Fixed(u16),
}

impl QuiesceFlag {
    /// Returns the engine's mode and, for a fixed time, its milliseconds.
    pub const fn to_engine(self) -> (CommandQuiesce, Option<u16>) {
        match self {
            Self::Default => (CommandQuiesce::Fixed, None),
            Self::Auto => (CommandQuiesce::Auto, None),
            Self::Fixed(ms) => (CommandQuiesce::Fixed, Some(ms)),
        }
    }
}

impl FromStr for QuiesceFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            "auto" => Ok(Self::Auto),
            time => match parse_time(time).map_err(|error| error.to_string())?.as_millis() {
                ms @ 1..=0xffff => Ok(Self::Fixed(ms as u16)),
                _ => Err(format!("`{text}` is not from 1ms to 65535ms")),
            },
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge namespace add nqn.2026-01.org.example:disks memory:1g
  selvedge namespace add nqn.2026-01.org.example:disks --rbd-image disk \\
      --rbd-create-image --size 10g
  selvedge namespace resize nqn.2026-01.org.example:disks 1 20g
  selvedge namespace set nqn.2026-01.org.example:disks 1 --iops 10000 --bw 200m")]
pub struct NamespaceFlags {
    #[command(subcommand)]
    pub action: NamespaceAction,
}

#[derive(Debug, Subcommand)]
pub enum NamespaceAction {
    /// Add a namespace, optionally with a new image in a Ceph cluster
    #[command(
        visible_alias = "create",
        after_help = "SPEC has the syntax of `selvedge serve --namespace`.

Examples:
  selvedge namespace add nqn.2026-01.org.example:disks file:/srv/disk.img,size=10g --iops 5000
  selvedge namespace add nqn.2026-01.org.example:disks rbd:rbd/disk,id=selvedge
  selvedge namespace add nqn.2026-01.org.example:disks --rbd-pool rbd --rbd-image new \\
      --rbd-create-image --size 10g --load-balancing-group 2"
    )]
    Add {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Storage of the namespace: memory:SIZE, null:SIZE, file:PATH[,size=SIZE], block:PATH or
        /// rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT][,conf=FILE] [,id=NAME][,luks2=FILE], each with
        /// ,block_size= ,nsid= ,uuid= ,nguid= ,host_write_protection=
        // Each of them: what a flag requires is no longer required where something is there that excludes that.
        #[arg(required_unless_present = "rbd_image", conflicts_with_all = ["rbd_image", "rbd_pool", "rbd_namespace",
            "rbd_conf", "rbd_id", "encryption_format", "encryption_passphrase_file", "block_size", "nsid", "uuid", "nguid"], value_parser = boxed_namespace)]
        spec: Option<Box<NamespaceConfig>>,
        #[command(flatten)]
        image: Box<ImageFlags>,
        #[command(flatten)]
        settings: Box<NamespaceSettings>,
        #[command(flatten)]
        control: Box<ControlFlags>,
    },
    /// Remove a namespace; its file or image stays
    #[command(after_help = "Examples:
  selvedge namespace remove nqn.2026-01.org.example:disks 2
  selvedge namespace remove nqn.2026-01.org.example:disks 2 --rbd-trash-image")]
    Remove {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Namespace ID
        nsid: u32,
        #[command(flatten)]
        removal: RemovalFlags,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// List the namespaces of one subsystem, or of all subsystems
    #[command(after_help = "Example:
  selvedge namespace list")]
    List {
        /// NQN of the subsystem
        subsystem: Option<Nqn>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Show a namespace
    #[command(after_help = "Example:
  selvedge namespace show nqn.2026-01.org.example:disks 1")]
    Show {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Namespace ID
        nsid: u32,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Resize a namespace and its file or image
    #[command(after_help = "Example:
  selvedge namespace resize nqn.2026-01.org.example:disks 1 20g")]
    Resize {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Namespace ID
        nsid: u32,
        /// New size
        size: Size,
        /// Allow a smaller size; data beyond the new end is lost
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Reopen the file or device of a namespace after a failed synchronization; writes are accepted
    /// again
    #[command(
        after_help = "A namespace whose storage fails to synchronize refuses writes and Flush: data that
hosts wrote since their last successful Flush may be lost. Check the storage before you
reopen the namespace.

Example:
  selvedge namespace reopen nqn.2026-01.org.example:disks 1"
    )]
    Reopen {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Namespace ID
        nsid: u32,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// List the hosts that are registered on a namespace, and which of them holds a reservation
    #[command(after_help = "Example:
  selvedge namespace reservations nqn.2026-01.org.example:disks 1")]
    Reservations {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// The namespace
        nsid: u32,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Clear the registrations of a namespace, and its reservation: hosts that it kept off may use it again
    #[command(
        after_help = "A host that is gone for good leaves registrations that no other host can take back.
Make sure that it cannot write: its reservation no longer protects the namespace.

Examples:
  selvedge namespace clear-reservations nqn.2026-01.org.example:disks 1
  selvedge namespace clear-reservations nqn.2026-01.org.example:disks 1 \\
      --host nqn.2014-08.org.example:b"
    )]
    ClearReservations {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// The namespace
        nsid: u32,
        /// Clear the registration of this host alone
        #[arg(long, value_name = "NQN")]
        host: Option<Nqn>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Create, remove or list snapshots of namespaces' images; several are taken at one moment
    #[command(after_help = "Examples:
  selvedge namespace snapshot nqn.2026-01.org.example:disks 1 monday
  selvedge namespace snapshot nqn.2026-01.org.example:disks all monday
  selvedge namespace snapshot nqn.2026-01.org.example:disks 1")]
    Snapshot {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Namespace IDs, or `all`; several snapshots are of one moment: writes are held meanwhile,
        /// at all gateways of a group
        #[arg(value_name = "NSID[,NSID...]|all")]
        nsid: NsidList,
        /// Name of the snapshot; without one, all snapshots are listed
        snapshot: Option<String>,
        /// Remove the snapshot
        #[arg(long, requires = "snapshot")]
        remove: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Clone a snapshot of a namespace's image, and add a namespace on the clone
    #[command(after_help = "Example:
  selvedge namespace clone nqn.2026-01.org.example:disks 1 --snapshot monday --rbd-image copy")]
    Clone {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Namespace whose image is cloned
        nsid: u32,
        #[command(flatten)]
        clone: Box<CloneFlags>,
        #[command(flatten)]
        settings: Box<NamespaceSettings>,
        #[command(flatten)]
        control: Box<ControlFlags>,
    },
    /// Flatten the image of a namespace: copy all data that it shares with its parent
    #[command(after_help = "Example:
  selvedge namespace flatten nqn.2026-01.org.example:disks 2")]
    Flatten {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Namespace ID
        nsid: u32,
        /// Return at once, before the copy has ended
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// List running tasks on images
    #[command(after_help = "Example:
  selvedge namespace tasks")]
    Tasks {
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Set limits, visibility, ANA group or write protection of a namespace
    #[command(after_help = "Example:
  selvedge namespace set nqn.2026-01.org.example:disks 1 --iops none --bw 200m --write-protection on")]
    Set {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Namespace ID
        nsid: u32,
        #[command(flatten)]
        settings: Box<NamespaceSettings>,
        #[command(flatten)]
        control: Box<ControlFlags>,
    },
}

fn boxed_namespace(text: &str) -> Result<Box<NamespaceConfig>, String> {
    namespace::parse(text).map(Box::new)
}

/// Settings of a namespace, for `add`, `clone` and `set`.
#[derive(Debug, Args)]
pub struct NamespaceSettings {
    /// Commands per second of all hosts together, or none for no limit
    #[arg(long, value_name = "N|none", value_parser = count_limit)]
    pub iops: Option<Limit<u64>>,
    /// Read commands per second
    #[arg(long, value_name = "N|none", value_parser = count_limit)]
    pub read_iops: Option<Limit<u64>>,
    /// Write commands per second
    #[arg(long, value_name = "N|none", value_parser = count_limit)]
    pub write_iops: Option<Limit<u64>>,
    /// Bytes per second, such as 200m
    #[arg(long, value_name = "SIZE|none")]
    pub bw: Option<Limit<Size>>,
    /// Bytes read per second
    #[arg(long, value_name = "SIZE|none")]
    pub read_bw: Option<Limit<Size>>,
    /// Bytes written per second
    #[arg(long, value_name = "SIZE|none")]
    pub write_bw: Option<Limit<Size>>,
    /// ANA group, which is the load-balancing group of gateways
    #[arg(long, value_name = "N", visible_alias = "load-balancing-group")]
    pub ana_group: Option<u32>,
    /// Location of the gateways that serve the namespace before others do, or none
    #[arg(long, value_name = "NAME|none")]
    pub location: Option<String>,
    /// Hosts that see the namespace; all others do not
    #[arg(long, value_name = "NQN", num_args = 1.., value_delimiter = ',', conflicts_with_all = ["hidden_from", "visible_to_all"])]
    pub visible_to: Vec<Nqn>,
    /// Hosts that do not see the namespace; all others do
    #[arg(long, value_name = "NQN", num_args = 1.., value_delimiter = ',', conflicts_with = "visible_to_all")]
    pub hidden_from: Vec<Nqn>,
    /// Show the namespace to all hosts
    #[arg(long)]
    pub visible_to_all: bool,
    /// Write protection by the operator
    #[arg(long, alias = "write-protect", value_name = "STATE")]
    pub write_protection: Option<ProtectFlag>,
    /// Highest write protection that hosts may set; they never lift the operator's [default: none]
    #[arg(long, value_name = "STATE")]
    pub host_write_protection: Option<ProtectFlag>,
    /// Host that may attach, detach and delete the namespace, or none for the operator alone
    #[arg(long, value_name = "NQN,HOSTID|none")]
    pub owner: Option<OwnerFlag>,
}

/// Host that owns a namespace; `None` for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerFlag(pub Option<KnownHost>);

impl FromStr for OwnerFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let (nqn, host_id) = text
            .rsplit_once(',')
            .ok_or_else(|| format!("`{text}` has no HOSTID: write NQN,HOSTID, or none"))?;
        let nqn = nqn.parse::<Nqn>().map_err(|error| format!("`{nqn}`: {error}"))?;
        let host_id = parse_uuid(host_id).map_err(|error| error.to_string())?;
        Ok(Self(Some(KnownHost { nqn: nqn.to_string(), host_id })))
    }
}

/// Limit of a rate; `None` removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit<T> {
    None,
    To(T),
}

impl<T: FromStr> FromStr for Limit<T>
where
    T::Err: std::fmt::Display,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        text.parse().map(Self::To).map_err(|error| format!("{error}, or write none"))
    }
}

/// A limit on commands: a number, also in thousands or millions, such as 5k, or none.
fn count_limit(text: &str) -> Result<Limit<u64>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let with_suffix = |suffix: [char; 2], factor| Some((text.strip_suffix(suffix)?, factor));
    let thousands = with_suffix(['k', 'K'], 1_000).or_else(|| with_suffix(['m', 'M'], 1_000_000));
    let (digits, factor) = thousands.unwrap_or((text, 1));
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number
        .map(Limit::To)
        .ok_or_else(|| "it is not a number of commands, such as 5000 or 5k, or none".to_owned())
}

/// Write protection, as the command line has it. Aliases are the former names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtectFlag {
    /// Writes are accepted
    #[value(name = "none", alias = "off")]
    Off,
    /// Writes are refused until this is changed
    On,
    /// Writes are refused until the target restarts
    #[value(name = "until_restart", alias = "until-restart")]
    UntilRestart,
    /// Writes are refused forever; irreversible
    Permanent,
}

impl From<ProtectFlag> for WriteProtection {
    fn from(flag: ProtectFlag) -> Self {
        match flag {
            ProtectFlag::Off => Self::None,
            ProtectFlag::On => Self::On,
            ProtectFlag::UntilRestart => Self::UntilRestart,
            ProtectFlag::Permanent => Self::Permanent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_protection_has_the_names_of_files_and_requests() {
        for flag in ProtectFlag::value_variants() {
            let name = WriteProtection::from(*flag).name();
            let shown = flag.to_possible_value().map(|value| value.get_name().to_owned());
            assert_eq!(shown.as_deref(), Some(name));
        }
        for (former, flag) in [("off", ProtectFlag::Off), ("until-restart", ProtectFlag::UntilRestart)] {
            assert_eq!(ProtectFlag::from_str(former, false), Ok(flag));
        }
    }

    #[test]
    fn a_limit_on_commands_may_be_in_thousands() {
        for (text, count) in [("5000", 5_000), ("5k", 5_000), ("2M", 2_000_000), ("0", 0)] {
            assert!(matches!(count_limit(text), Ok(Limit::To(limit)) if limit == count), "{text}");
        }
        assert!(matches!(count_limit("none"), Ok(Limit::None)));
        for wrong in ["", "k", "5kk", "5.5k", "-1", "18446744073709551615k"] {
            assert!(count_limit(wrong).is_err(), "{wrong}");
        }
    }
}
