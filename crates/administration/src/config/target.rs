//! A whole target as it was asked for, from flags or from a file, and its translation into the engine's
//! configuration. Starting it is the `serve` command's.

use std::net::IpAddr;
use std::path::PathBuf;

use engine::address::{HostAddress, NetAddress};
use engine::ring::Engine;
use engine::target::{
    FORMER_NQN, FabricConfig, MODEL_DEFAULT, NamespaceConfig, PortConfig, SubsystemConfig, TargetConfig,
    check_congestion, check_serial, check_subsystem_nqn,
};
use engine::transport::Transport;
use nvme::discovery::Nqn;
use secure_channel::RecordLimit;

use super::target_file;
use crate::failure::Failure;
use crate::flags::serve::ServeFlags;
use crate::machine::Machine;
use crate::spec::ceph::CephSpec;
use crate::spec::quotas::QuotaSpec;
use crate::spec::reactors::ReactorSpec;
use crate::spec::service::SERVICE_DEFAULT;

/// The address where none is given: this machine's own, which no other reaches.
const ADDRESS_DEFAULT: &str = "127.0.0.1";

/// Checked configuration of `serve`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeConfig {
    pub fabric: FabricConfig,
    pub reactors: Option<ReactorSpec>,
    pub engine: Engine,
    pub poll_us_max: Option<u64>,
    pub tls_record_limit: RecordLimit,
    pub ceph: CephSpec,
    pub(crate) quotas: QuotaSpec,
}

impl ServeConfig {
    /// Checks the flags, and reads the file if they name one. Where neither says what to serve, it is what was served
    /// before, if that was `kept`; and what they say of the same disks leaves those their identities.
    pub fn new(flags: &ServeFlags, kept: Option<&FabricConfig>, machine: &Machine) -> Result<Self, Failure> {
        let mut config = match (&flags.config, kept) {
            (Some(path), _) => target_file::read(path)?,
            (None, Some(fabric)) if flags.namespaces.is_empty() => from_state(flags, fabric.clone())?,
            (None, _) => Self::of(from_flags(flags, kept, machine)?),
        };
        if let Some(kept) = kept {
            config.fabric = config.fabric.recognized(kept);
        }
        config.take_run(flags);
        Ok(config)
    }

    /// Checks the flags of a gateway, whose subsystems are its group's.
    pub fn of_gateway(flags: &ServeFlags) -> Result<Self, Failure> {
        check_congestion(flags.congestion.as_deref()).map_err(Failure::usage)?;
        let mut config = Self::of(FabricConfig { ports: ports(flags)?, ..FabricConfig::default() });
        config.take_run(flags);
        Ok(config)
    }

    /// Takes over what concerns this run and not the subsystems, which may be said beside a file, and then wins.
    fn take_run(&mut self, flags: &ServeFlags) {
        let config = self;
        if let Some(reactors) = &flags.reactors {
            config.reactors = Some(reactors.clone());
        }
        if let Some(engine) = flags.engine {
            config.engine = engine.into();
        }
        if flags.poll_us.is_some() {
            config.poll_us_max = flags.poll_us;
        }
        config.tls_record_limit = flags.tls_record_limit.unwrap_or_default();
        config.ceph = config.ceph.with(CephSpec {
            bdevs_per_cluster: flags.bdevs_per_cluster,
            timeout_ms: flags.ceph_timeout.map(|seconds| seconds * 1000),
        });
        config.quotas = config.quotas.with(flags.quotas);
    }

    /// Names of the settings that are of the process, and not of what hosts see: a running target keeps those that it has.
    pub fn of_process(&self) -> Vec<&'static str> {
        let given = [
            ("reactors", self.reactors.is_some()),
            ("engine", self.engine != Engine::Automatic),
            ("poll_us", self.poll_us_max.is_some()),
            ("bdevs_per_cluster", self.ceph.bdevs_per_cluster.is_some()),
            ("ceph_timeout_ms", self.ceph.timeout_ms.is_some()),
            ("quotas", self.quotas != QuotaSpec::default()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    fn of(fabric: FabricConfig) -> Self {
        Self {
            fabric,
            reactors: None,
            engine: Engine::Automatic,
            poll_us_max: None,
            tls_record_limit: RecordLimit::default(),
            ceph: CephSpec::default(),
            quotas: QuotaSpec::default(),
        }
    }

    /// The engine's form, on this machine and with state in this directory.
    pub fn to_engine(&self, machine: &Machine, state_dir: Option<PathBuf>) -> TargetConfig {
        TargetConfig {
            fabric: self.fabric.clone(),
            reactors: self.reactors.clone().unwrap_or_else(default_reactors).to_engine(),
            engine: self.engine,
            poll_us_max: self.poll_us_max.unwrap_or(engine::limits::POLL_US_MAX),
            state_dir,
            machine: Some(machine.id),
            ceph: self.ceph.to_engine(),
            quotas: self.quotas.to_engine(),
            tls_record_limit: self.tls_record_limit,
            ..TargetConfig::default()
        }
    }
}

/// Default reactors: one for each processor this process may use.
fn default_reactors() -> ReactorSpec {
    ReactorSpec::Count(engine::ring::core::available().len().max(1))
}

/// Configuration from the state. Flags that contradict it are refused.
fn from_state(flags: &ServeFlags, fabric: FabricConfig) -> Result<ServeConfig, Failure> {
    let said = [
        ("--transport", flags.transport.is_some()),
        ("--traddr", !flags.traddr.is_empty()),
        ("--trsvcid", flags.trsvcid.is_some()),
        ("--congestion", flags.congestion.is_some()),
        ("--tls", flags.tls.is_some()),
        ("--advertise", flags.advertise.is_some()),
        ("--nqn", flags.nqn.is_some()),
        ("--serial", flags.serial.is_some()),
        ("--allow-any-host", flags.allow_any_host),
        ("--allow-host", !flags.allow_hosts.is_empty()),
        ("--command-quiesce", flags.command_quiesce.is_some()),
    ];
    match said.into_iter().find(|(_, said)| *said) {
        None => Ok(ServeConfig::of(fabric)),
        Some((flag, _)) => Err(Failure::usage(format!(
            "{flag} cannot change the configuration in the state directory: leave it out, or give a new configuration \
             with -c or --namespace"
        ))),
    }
}

fn from_flags(
    flags: &ServeFlags,
    kept: Option<&FabricConfig>,
    machine: &Machine,
) -> Result<FabricConfig, Failure> {
    if flags.namespaces.is_empty() {
        let none = if flags.state_dir.is_some() { "the state directory is empty, and " } else { "" };
        return Err(Failure::usage(format!(
            "{none}there is nothing to serve: add a namespace, such as --namespace memory:1g, or a file with -c"
        )));
    }
    check_congestion(flags.congestion.as_deref()).map_err(Failure::usage)?;
    let mut fabric = FabricConfig { ports: ports(flags)?, ..FabricConfig::default() };
    let nqn = flags.nqn.clone().unwrap_or_else(|| default_nqn(flags, kept, machine));
    check_subsystem_nqn(&nqn).map_err(Failure::usage)?;
    let asked = Asked { any_host: flags.allow_any_host, hosts: flags.allow_hosts.clone() };
    let allow_any_host = asked.allows_any_host(&fabric.ports).map_err(|address| {
        Failure::usage(format!(
            "{address} can be reached from other machines: allow hosts with --allow-host NQN, or every host with \
             --allow-any-host"
        ))
    })?;
    let serial = match &flags.serial {
        Some(serial) => check_serial(serial).map_err(Failure::usage)?,
        None => String::new(),
    };
    if let Some(nsid) = twice(&flags.namespaces) {
        return Err(Failure::usage(format!("nsid {nsid} is given twice")));
    }
    let (command_quiesce, command_quiesce_ms) = flags.command_quiesce.unwrap_or_default().to_engine();
    fabric.subsystems.push(SubsystemConfig {
        allow_any_host,
        command_quiesce,
        command_quiesce_ms,
        hosts: asked.hosts.iter().map(ToString::to_string).collect(),
        ..SubsystemConfig::new(&nqn, &serial, MODEL_DEFAULT).with(flags.namespaces.clone())
    });
    if let Some(text) = fabric.former_texts_beside(kept.unwrap_or(&FabricConfig::default())).first() {
        return Err(Failure::usage(text.reason()));
    }
    Ok(fabric.numbered())
}

/// An identifier that two namespaces ask for.
fn twice(namespaces: &[NamespaceConfig]) -> Option<u32> {
    let mut given = namespaces.iter().enumerate().filter(|(_, namespace)| namespace.nsid > 0);
    let twice = given.find(|(at, one)| namespaces[..*at].iter().any(|other| other.nsid == one.nsid));
    twice.map(|(_, namespace)| namespace.nsid)
}

/// The subsystem's name where none is given. Hosts of a target that has had the name from before keep finding it.
fn default_nqn(flags: &ServeFlags, kept: Option<&FabricConfig>, machine: &Machine) -> Nqn {
    let former = kept.and_then(|kept| kept.subsystem(FORMER_NQN)).and_then(|known| Nqn::new(&known.nqn).ok());
    former.unwrap_or_else(|| machine.nqn(flags.trsvcid.unwrap_or(SERVICE_DEFAULT)))
}

/// Ports of the flags.
fn ports(flags: &ServeFlags) -> Result<Vec<PortConfig>, Failure> {
    let mut ports = Vec::new();
    let addresses = if flags.traddr.is_empty() { &[ADDRESS_DEFAULT.to_owned()][..] } else { &flags.traddr };
    let mut found = Vec::new();
    for address in addresses {
        let written: HostAddress = address.parse().map_err(Failure::usage)?;
        let service = flags.trsvcid.unwrap_or(SERVICE_DEFAULT);
        found.extend(written.local(service).map_err(Failure::failed)?);
    }
    for (address, id) in found.into_iter().zip(1..) {
        ports.push(PortConfig {
            advertise: flags.advertise.clone(),
            transport: flags.transport.map_or(Transport::Tcp, Transport::from),
            congestion: flags.congestion.clone(),
            tls: flags.tls.map(Into::into),
            ..PortConfig::at(id, address)
        });
    }
    Ok(ports)
}

/// Hosts that may connect, as given by flags.
pub struct Asked {
    pub(crate) any_host: bool,
    pub hosts: Vec<Nqn>,
}

impl Asked {
    /// True if every host may connect. Without hosts or `any_host`, loopback addresses are open to
    /// every host; another address is an error.
    pub(crate) fn allows_any_host(&self, ports: &[PortConfig]) -> Result<bool, NetAddress> {
        if self.any_host || !self.hosts.is_empty() {
            return Ok(self.any_host);
        }
        match ports.iter().find(|port| !is_loopback(port.address.ip())) {
            Some(port) => Err(port.address),
            None => Ok(true),
        }
    }
}

pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(arguments: &str) -> Result<FabricConfig, Failure> {
        ServeConfig::new(&ServeFlags::of(arguments), None, &Machine::of_test()).map(|config| config.fabric)
    }

    #[test]
    fn a_loopback_target_needs_no_list_of_hosts() {
        let fabric = serve("-a 127.0.0.1 -a ::1 --namespace memory:1m").unwrap();
        assert!(fabric.subsystems[0].allow_any_host);
        assert_eq!(fabric.ports[1].address.to_string(), "[::1]:4420");
        assert_eq!(fabric.ports.iter().map(|port| port.id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(serve("-a 127.0.0.1,::1 --namespace memory:1m").unwrap().ports, fabric.ports);
        assert_eq!(serve("--namespace memory:1m").unwrap().ports[0].address.to_string(), "127.0.0.1:4420");
    }

    #[test]
    fn a_reachable_target_must_say_who_may_use_it() {
        let refused = serve("-a 127.0.0.1,0.0.0.0 --namespace memory:1m").unwrap_err();
        let names_both =
            |what: &str| what.starts_with("0.0.0.0:4420 can be") && what.contains("--allow-host");
        assert!(matches!(&refused, Failure::Usage(what) if names_both(what)), "{refused:?}");
        let fabric = serve("-a 0.0.0.0 --namespace memory:1m --allow-host nqn.a --allow-host nqn.b").unwrap();
        assert!(!fabric.subsystems[0].allow_any_host);
        assert_eq!(fabric.subsystems[0].hosts, ["nqn.a", "nqn.b"]);
        let fabric = serve("-a 0.0.0.0 --namespace memory:1m --allow-any-host").unwrap();
        assert!(fabric.subsystems[0].allow_any_host);
    }

    #[test]
    fn what_carries_connections_is_said_for_all_addresses() {
        let fabric = serve("-t mptcp --congestion reno -a 127.0.0.1 -a ::1 --namespace memory:1m").unwrap();
        let said = |port: &PortConfig| (port.transport, port.congestion.as_deref() == Some("reno"));
        assert!(fabric.ports.iter().map(said).all(|said| said == (Transport::Mptcp, true)), "{fabric:?}");
        let fabric = serve("--namespace memory:1m").unwrap();
        assert_eq!((fabric.ports[0].transport, &fabric.ports[0].congestion), (Transport::Tcp, &None));
        let refused = serve("--congestion no_such_one_is_so_long --namespace memory:1m").unwrap_err();
        assert!(
            matches!(&refused, Failure::Usage(what) if what.contains("not a congestion control")),
            "{refused:?}"
        );
    }

    #[test]
    fn what_was_served_before_is_served_when_nothing_else_is_said() {
        let kept = serve("-n nqn.kept --namespace memory:1m").unwrap();
        let again =
            |arguments: &str| ServeConfig::new(&ServeFlags::of(arguments), Some(&kept), &Machine::of_test());
        let config = again("--reactors 2").unwrap();
        assert_eq!((config.fabric, config.reactors), (kept.clone(), Some(ReactorSpec::Count(2))));
        let new = again("--namespace memory:2m").unwrap().fabric;
        assert_eq!(new.subsystems[0].nqn, Machine::of_test().nqn(4420).as_str());
        let refused = again("-a 0.0.0.0").unwrap_err();
        assert!(matches!(&refused, Failure::Usage(what) if what.contains("--traddr")), "{refused:?}");
    }

    #[test]
    fn hosts_find_what_a_former_version_has_kept_for_them() {
        let mut kept = serve("--namespace file:/a,size=1m --namespace file:/b,size=1m").unwrap();
        kept.subsystems[0].nqn = FORMER_NQN.to_owned();
        kept.subsystems[0].serial = "SLV27657cd23f508479".to_owned();
        kept.subsystems[0].namespaces[0].uuid = Some(uuid::Uuid::from_u128(1));
        let again = |arguments: &str| {
            let config = ServeConfig::new(&ServeFlags::of(arguments), Some(&kept), &Machine::of_test());
            config.unwrap().fabric.subsystems.remove(0)
        };
        let same = again("--namespace file:/a,size=1m");
        assert_eq!((&same.nqn, &same.serial), (&kept.subsystems[0].nqn, &kept.subsystems[0].serial));
        assert_eq!(same.namespaces[0].uuid, kept.subsystems[0].namespaces[0].uuid);
        assert_eq!(again("--namespace file:/c,size=1m").namespaces[0].uuid, None, "another disk");
        let other = again("-n nqn.other --namespace file:/a,size=1m");
        assert_eq!((other.serial.as_str(), other.namespaces[0].uuid), ("", None));
    }

    #[test]
    fn targets_of_two_ports_have_two_names() {
        let name = |arguments: &str| serve(arguments).unwrap().subsystems.remove(0).nqn;
        assert_eq!(name("-s 4420 --namespace memory:1m"), name("--namespace memory:1m"));
        assert_ne!(name("-s 4421 --namespace memory:1m"), name("--namespace memory:1m"));
    }

    #[test]
    fn a_target_needs_something_to_serve() {
        assert!(matches!(serve(""), Err(Failure::Usage(what)) if what.contains("--namespace")));
        let taken = serve("--namespace null:1m,nsid=1 --namespace null:1m,nsid=1").unwrap_err();
        assert!(matches!(taken, Failure::Usage(what) if what.contains("twice")));
        let discovery = serve("-n nqn.2014-08.org.nvmexpress.discovery --namespace null:1m").unwrap_err();
        assert!(matches!(discovery, Failure::Usage(what) if what.contains("discovery subsystem")));
    }

    #[test]
    fn serial_numbers_fit() {
        assert_eq!(check_serial("SLV27657cd23f508479").as_deref(), Ok("SLV27657cd23f508479"));
        assert!(check_serial("").is_err());
        assert!(check_serial("123456789012345678901").is_err());
    }
}
