//! A whole target as it was asked for, from flags or from a file, and its translation into the engine's
//! configuration. Starting it is the `serve` command's.

use std::net::{IpAddr, SocketAddr};

use engine::ring::Engine;
use engine::target::{PortConfig, SubsystemConfig, TargetConfig};
use nvme::discovery::Nqn;

use super::connection::resolve;
use super::namespace::{self, NamespaceSpec};
use super::reactors::ReactorSpec;
use super::target_file;
use crate::failure::Failure;
use crate::flags::serve::ServeFlags;

/// The subsystem's name where none is given.
pub(crate) const NQN_DEFAULT: &str = "nqn.2026-01.io.selvedge:target";
/// What the subsystem says its model is.
pub(crate) const MODEL: &str = "Selvedge";

/// What `serve` serves, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServeConfig {
    pub(crate) ports: Vec<PortSpec>,
    pub(crate) subsystems: Vec<SubsystemSpec>,
    pub(crate) reactors: Option<ReactorSpec>,
    pub(crate) engine: Engine,
    pub(crate) poll_us_max: Option<u64>,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortSpec {
    pub(crate) address: SocketAddr,
    pub(crate) advertise: Option<String>,
}

/// A subsystem and who may use it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubsystemSpec {
    pub(crate) nqn: Nqn,
    pub(crate) serial: String,
    pub(crate) access: Access,
    pub(crate) namespaces: Vec<NamespaceSpec>,
}

/// Which hosts may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    AnyHost,
    Hosts(Vec<Nqn>),
}

impl ServeConfig {
    /// Checks the flags, and reads the file if they name one.
    pub(crate) fn new(flags: &ServeFlags) -> Result<Self, Failure> {
        let mut config = match &flags.config {
            Some(path) => target_file::read(path)?,
            None => from_flags(flags)?,
        };
        // What concerns this run and not the subsystems may be said beside a file, and then wins.
        if let Some(reactors) = &flags.reactors {
            config.reactors = Some(reactors.clone());
        }
        if let Some(engine) = flags.engine {
            config.engine = engine.into();
        }
        if flags.poll_us.is_some() {
            config.poll_us_max = flags.poll_us;
        }
        Ok(config)
    }

    /// The engine's form. Namespaces get their identifiers here.
    pub(crate) fn to_engine(&self) -> Result<TargetConfig, Failure> {
        let mut subsystems = Vec::new();
        for spec in &self.subsystems {
            let (allow_any_host, hosts) = match &spec.access {
                Access::AnyHost => (true, Vec::new()),
                Access::Hosts(hosts) => (false, hosts.iter().map(ToString::to_string).collect()),
            };
            subsystems.push(SubsystemConfig {
                nqn: spec.nqn.to_string(),
                serial: spec.serial.clone(),
                model: MODEL.to_owned(),
                allow_any_host,
                hosts,
                namespaces: namespace::to_engine(&spec.namespaces).map_err(Failure::usage)?,
            });
        }
        let ports = self.ports.iter();
        let reactors = self.reactors.clone().unwrap_or_else(default_reactors);
        Ok(TargetConfig {
            ports: ports.map(|p| PortConfig { address: p.address, advertise: p.advertise.clone() }).collect(),
            subsystems,
            reactors: reactors.to_engine(),
            engine: self.engine,
            poll_us_max: self.poll_us_max.unwrap_or(engine::limits::POLL_US_MAX),
        })
    }
}

/// One reactor for each processor this process may use.
fn default_reactors() -> ReactorSpec {
    ReactorSpec::Count(engine::ring::core::available().len().max(1))
}

fn from_flags(flags: &ServeFlags) -> Result<ServeConfig, Failure> {
    if flags.namespaces.is_empty() {
        return Err(Failure::usage(
            "there is nothing to serve: add a namespace, such as --namespace memory:1g, or a file with -c",
        ));
    }
    let mut ports = Vec::new();
    for address in &flags.traddr {
        let address = resolve(address, flags.trsvcid).map_err(Failure::usage)?;
        ports.push(PortSpec { address, advertise: flags.advertise.clone() });
    }
    let nqn = flags.nqn.clone().unwrap_or_else(|| Nqn::new(NQN_DEFAULT).expect("a valid name"));
    check_subsystem_nqn(&nqn).map_err(Failure::usage)?;
    let asked = Asked { any_host: flags.allow_any_host, hosts: flags.allow_hosts.clone() };
    let access = asked.decide(&ports).map_err(|()| {
        Failure::usage(
            "this address can be reached from other machines: say who may use it, \
             with --allow-host HOSTNQN or --allow-any-host",
        )
    })?;
    namespace::number(&flags.namespaces).map_err(Failure::usage)?;
    let serial = match &flags.serial {
        Some(serial) => check_serial(serial).map_err(Failure::usage)?,
        None => default_serial(&nqn),
    };
    let subsystem = SubsystemSpec { nqn, serial, access, namespaces: flags.namespaces.clone() };
    Ok(ServeConfig {
        ports,
        subsystems: vec![subsystem],
        reactors: None,
        engine: Engine::Automatic,
        poll_us_max: None,
    })
}

/// Who may connect, as it was said.
pub(crate) struct Asked {
    pub(crate) any_host: bool,
    pub(crate) hosts: Vec<Nqn>,
}

impl Asked {
    /// Where nothing was said, anybody may on a loopback address, and nobody is guessed for on another.
    pub(crate) fn decide(self, ports: &[PortSpec]) -> Result<Access, ()> {
        if self.any_host {
            Ok(Access::AnyHost)
        } else if !self.hosts.is_empty() {
            Ok(Access::Hosts(self.hosts))
        } else if ports.iter().all(|port| is_loopback(port.address.ip())) {
            Ok(Access::AnyHost)
        } else {
            Err(())
        }
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// A subsystem's name must not be the Discovery subsystem's.
pub(crate) fn check_subsystem_nqn(nqn: &Nqn) -> Result<(), String> {
    if nqn.is_discovery() {
        return Err(format!("{nqn} is the Discovery subsystem, which is there by itself"));
    }
    Ok(())
}

/// A serial number fits its field: 20 printable characters.
pub(crate) fn check_serial(serial: &str) -> Result<String, String> {
    let printable = serial.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if serial.trim().is_empty() || serial.len() > 20 || !printable {
        return Err(format!("serial `{serial}` must be 1 to 20 printable ASCII characters"));
    }
    Ok(serial.to_owned())
}

/// A serial number that stays the same for the same name, since hosts recognize a subsystem by it.
pub(crate) fn default_serial(nqn: &Nqn) -> String {
    let name = nqn.as_str().as_bytes();
    let (low, high) =
        (nvme::tcp::digest::crc32c(name), nvme::tcp::digest::crc32c(&[name, b"serial"].concat()));
    format!("SLV{high:08x}{low:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(arguments: &str) -> Result<ServeConfig, Failure> {
        ServeConfig::new(&ServeFlags::of(arguments))
    }

    #[test]
    fn a_loopback_target_needs_no_list_of_hosts() {
        let config = serve("-a 127.0.0.1 -a ::1 --namespace memory:1m").unwrap();
        assert_eq!(config.subsystems[0].access, Access::AnyHost);
        assert_eq!(config.ports[1].address.to_string(), "[::1]:4420");
    }

    #[test]
    fn a_reachable_target_must_say_who_may_use_it() {
        let refused = serve("-a 0.0.0.0 --namespace memory:1m").unwrap_err();
        assert!(matches!(&refused, Failure::Usage(what) if what.contains("--allow-host")), "{refused:?}");
        let config = serve("-a 0.0.0.0 --namespace memory:1m --allow-host nqn.a --allow-host nqn.b").unwrap();
        assert!(matches!(&config.subsystems[0].access, Access::Hosts(hosts) if hosts.len() == 2));
        let config = serve("-a 0.0.0.0 --namespace memory:1m --allow-any-host").unwrap();
        assert_eq!(config.subsystems[0].access, Access::AnyHost);
    }

    #[test]
    fn a_target_needs_something_to_serve() {
        assert!(matches!(serve(""), Err(Failure::Usage(what)) if what.contains("--namespace")));
        let taken = serve("--namespace null:1m,nsid=1 --namespace null:1m,nsid=1").unwrap_err();
        assert!(matches!(taken, Failure::Usage(what) if what.contains("twice")));
        let discovery = serve("-n nqn.2014-08.org.nvmexpress.discovery --namespace null:1m").unwrap_err();
        assert!(matches!(discovery, Failure::Usage(what) if what.contains("Discovery")));
    }

    #[test]
    fn serial_numbers_fit_and_stay() {
        let nqn = Nqn::new("nqn.2026-01.io.selvedge:a").unwrap();
        assert_eq!(default_serial(&nqn), default_serial(&nqn));
        assert_eq!(check_serial(&default_serial(&nqn)), Ok(default_serial(&nqn)));
        assert!(check_serial("").is_err());
        assert!(check_serial("123456789012345678901").is_err());
    }
}
