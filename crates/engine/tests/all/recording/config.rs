//! The target of every recording, the same when it is made and when it is played: memory alone, one reactor, and all names
//! given, so that its answers depend on nothing but what the host sends.

use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, QosConfig, SubsystemConfig, Target, TargetConfig,
};

use super::format::Change;

/// The subsystem's name.
pub(crate) const NQN: &str = "nqn.2026-01.io.selvedge:recorded";
/// Bytes of every namespace.
const SIZE: u64 = 64 << 20;
/// Identifiers and bytes of a block of the namespaces.
const NAMESPACES: [(u32, u32); 2] = [(1, 512), (2, 4096)];

/// Differences between recordings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setting {
    /// The address that discovery reports.
    pub(crate) advertise: Option<String>,
    /// Commands each second on each namespace: what measures as fast as it can is to fit into a recording. It changes
    /// when an answer comes, and no answer.
    pub(crate) iops: Option<u64>,
    /// Bytes each second on each namespace: with few of them, commands wait.
    pub(crate) bytes: Option<u64>,
}

pub(crate) fn target(setting: &Setting, engine: Engine) -> Target {
    let port = PortConfig {
        advertise: setting.advertise.clone(),
        ..PortConfig::new(1, "127.0.0.1:0".parse().expect("an address"))
    };
    let namespaces = NAMESPACES.map(|(nsid, _)| namespace(nsid, setting)).to_vec();
    let subsystem = SubsystemConfig::new(NQN, "RECORDED", "Selvedge").with(namespaces);
    let config = TargetConfig {
        fabric: FabricConfig { ports: vec![port], subsystems: vec![subsystem], ..FabricConfig::default() },
        engine,
        poll_us_max: 0,
        ..TargetConfig::default()
    };
    Target::start(&config).expect("memory and a free port of the loopback are there")
}

fn namespace(nsid: u32, setting: &Setting) -> NamespaceConfig {
    let block = NAMESPACES.iter().find(|(known, _)| *known == nsid).map_or(512, |(_, block)| *block);
    NamespaceConfig {
        uuid: Some(uuid::Uuid::from_u128(u128::from(nsid))),
        qos: QosConfig { iops: setting.iops, bytes: setting.bytes, ..QosConfig::default() },
        ..NamespaceConfig::new(nsid, BackendConfig::Memory { size: SIZE }, block)
    }
}

/// Administers the target as the recording says.
pub(crate) fn change(target: &Target, change: Change, setting: &Setting) {
    let mut fabric = target.config();
    let namespaces = &mut fabric.subsystems[0].namespaces;
    match change {
        Change::Remove(nsid) => namespaces.retain(|namespace| namespace.nsid != nsid),
        Change::Restore(nsid) => {
            namespaces.retain(|namespace| namespace.nsid != nsid);
            namespaces.push(namespace(nsid, setting));
        }
    }
    target.apply(&fabric).expect("the same namespaces can come and go");
}
