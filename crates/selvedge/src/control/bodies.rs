//! What requests carry: the configuration as people write it, with sizes as text and numbers left to us, and what is
//! to be different in one that is there. What it means is checked where it is put into effect.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use engine::backend::{BackendConfig, RbdConfig};
use engine::target::{
    AnaGroupConfig, CommandQuiesce, FabricConfig, GroupState, KnownHost, NamespaceConfig, PortConfig,
    QosConfig, ReferralConfig, StorageConfig, SubsystemConfig, Visibility, WriteProtection,
};
use engine::transport::Transport;
use nvme::discovery::Nqn;
use serde::{Deserialize, Deserializer, Serialize, de};
use uuid::Uuid;

use super::image_bodies::CreateImageBody;
use super::refusal::Refusal;
use crate::config::ceph::check_image;
use crate::config::namespace::{self, BLOCK_SIZE_DEFAULT};
use crate::config::size::Size;
use crate::config::target::{MODEL, check_serial, check_subsystem_nqn};

/// A name of a host or subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Name(pub(crate) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match Nqn::new(&name) {
            Ok(_) => Ok(Self(name)),
            Err(error) => Err(de::Error::custom(error)),
        }
    }
}

/// Keeps "is not there" and "is null" apart: the first leaves a value as it is, the second takes it away.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// All that a target serves.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FabricBody {
    ports: Vec<PortBody>,
    subsystems: Vec<SubsystemBody>,
    referrals: Vec<ReferralConfig>,
    discovery_nqn: Option<Name>,
}

/// An address to listen on.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<u16>,
    pub(crate) address: SocketAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) advertise: Option<String>,
    #[serde(default)]
    pub(crate) discovery_only: bool,
    #[serde(default)]
    pub(crate) transport: Transport,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) congestion: Option<String>,
}

/// A subsystem.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubsystemBody {
    nqn: Name,
    serial: Option<String>,
    model: Option<String>,
    #[serde(default)]
    allow_any_host: bool,
    #[serde(default)]
    hosts: Vec<Name>,
    #[serde(default)]
    namespaces: Vec<NamespaceBody>,
    #[serde(default)]
    ana_groups: Vec<AnaGroupConfig>,
    storage: Option<StorageBody>,
    command_quiesce_ms: Option<u16>,
    command_quiesce: Option<CommandQuiesce>,
    #[serde(default)]
    ports: Vec<u16>,
}

/// Where hosts may create namespaces.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StorageBody {
    directory: PathBuf,
    bytes_max: Size,
    bytes_max_per_host: Option<Size>,
    namespaces_max_per_host: Option<u32>,
}

/// What is to be different in a subsystem.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SubsystemPatch {
    serial: Option<String>,
    model: Option<String>,
    allow_any_host: Option<bool>,
    #[serde(deserialize_with = "given")]
    storage: Option<Option<StorageBody>>,
    #[serde(deserialize_with = "given")]
    command_quiesce_ms: Option<Option<u16>>,
    #[serde(deserialize_with = "given")]
    command_quiesce: Option<Option<CommandQuiesce>>,
    ports: Option<Vec<u16>>,
}

/// Where blocks live.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum BackendBody {
    Memory {
        size: Size,
    },
    Null {
        size: Size,
    },
    File {
        path: PathBuf,
        #[serde(default)]
        size: Option<Size>,
    },
    Block {
        path: PathBuf,
    },
    Rbd(RbdConfig),
}

/// A namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespaceBody {
    nsid: Option<u32>,
    backend: BackendBody,
    block_size: Option<Size>,
    uuid: Option<Uuid>,
    #[serde(alias = "load_balancing_group")]
    ana_group: Option<u32>,
    #[serde(default)]
    visible: Visibility,
    #[serde(default)]
    qos: QosPatch,
    #[serde(default)]
    write_protection: WriteProtection,
    #[serde(default)]
    host_write_protection: WriteProtection,
    #[serde(default)]
    protected_by_host: bool,
    #[serde(default)]
    created_by_host: bool,
    owner: Option<KnownHost>,
    #[serde(default)]
    write_delay_ms: u32,
    #[serde(default)]
    shared_storage: bool,
    #[serde(default)]
    standby: bool,
    create_image: Option<CreateImageBody>,
}

/// What is to be different in a namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NamespacePatch {
    pub(super) size: Option<Size>,
    /// Whether the size may be less than before.
    pub(crate) shrink: bool,
    #[serde(alias = "load_balancing_group")]
    ana_group: Option<u32>,
    visible: Option<Visibility>,
    #[serde(deserialize_with = "given")]
    qos: Option<Option<QosPatch>>,
    write_protection: Option<WriteProtection>,
    host_write_protection: Option<WriteProtection>,
    #[serde(deserialize_with = "given")]
    owner: Option<Option<KnownHost>>,
    write_delay_ms: Option<u32>,
}

/// Limits that are to be others; null takes one away.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct QosPatch {
    #[serde(deserialize_with = "given")]
    read_iops: Option<Option<u64>>,
    #[serde(deserialize_with = "given")]
    write_iops: Option<Option<u64>>,
    #[serde(deserialize_with = "given")]
    iops: Option<Option<u64>>,
    #[serde(deserialize_with = "given")]
    read_bytes: Option<Option<Size>>,
    #[serde(deserialize_with = "given")]
    write_bytes: Option<Option<Size>>,
    #[serde(deserialize_with = "given")]
    bytes: Option<Option<Size>>,
}

/// A host that may use a subsystem.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostBody {
    pub(crate) nqn: Name,
}

/// The states of an ANA group.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnaGroupBody {
    pub(crate) state: GroupState,
    #[serde(default)]
    pub(crate) ports: BTreeMap<u16, GroupState>,
}

/// The field of a body, as JSON is walked.
fn field(base: &str, name: impl fmt::Display) -> String {
    if base.is_empty() { name.to_string() } else { format!("{base}.{name}") }
}

impl FabricBody {
    /// The configuration it describes; ports and namespaces without a number get the lowest free ones.
    pub(crate) fn into_config(self) -> Result<FabricConfig, Refusal> {
        let mut fabric = FabricConfig { referrals: self.referrals, ..FabricConfig::default() };
        fabric.discovery_nqn = self.discovery_nqn.map(|name| name.0);
        let mut taken: Vec<u16> = self.ports.iter().filter_map(|port| port.id).collect();
        for port in self.ports {
            let id = port.id.unwrap_or_else(|| free_port(&taken));
            taken.push(id);
            fabric.ports.push(port.into_config(id));
        }
        for (at, subsystem) in self.subsystems.into_iter().enumerate() {
            fabric.subsystems.push(subsystem.into_config(&format!("subsystems[{at}]"))?);
        }
        Ok(fabric)
    }
}

/// The lowest number that no port has. With every number taken it is one of them, which the check finds.
pub(super) fn free_port(taken: &[u16]) -> u16 {
    (1..u16::MAX).find(|id| !taken.contains(id)).unwrap_or(u16::MAX)
}

impl PortBody {
    pub(super) fn into_config(self, id: u16) -> PortConfig {
        PortConfig {
            advertise: self.advertise,
            discovery_only: self.discovery_only,
            transport: self.transport,
            congestion: self.congestion,
            ..PortConfig::new(id, self.address)
        }
    }
}

impl SubsystemBody {
    pub(super) fn nqn(&self) -> &str {
        &self.nqn.0
    }

    /// The configuration it describes. Mistakes are told with fields under `base`.
    pub(crate) fn into_config(self, base: &str) -> Result<SubsystemConfig, Refusal> {
        let about =
            |name: &'static str| move |what: String| Refusal::unprocessable(what).about(field(base, name));
        let nqn = Nqn::new(&self.nqn.0).map_err(|error| about("nqn")(error.to_string()))?;
        check_subsystem_nqn(&nqn).map_err(about("nqn"))?;
        let serial = match self.serial {
            Some(serial) => check_serial(&serial).map_err(about("serial"))?,
            // The target's to give.
            None => String::new(),
        };
        let mut config = SubsystemConfig {
            allow_any_host: self.allow_any_host,
            hosts: self.hosts.into_iter().map(|host| host.0).collect(),
            ana_groups: self.ana_groups,
            storage: self.storage.map(|storage| storage.into_config(base)).transpose()?,
            command_quiesce_ms: self.command_quiesce_ms,
            command_quiesce: self.command_quiesce.unwrap_or_default(),
            ports: self.ports,
            ..SubsystemConfig::new(&nqn, &serial, self.model.as_deref().unwrap_or(MODEL))
        };
        let mut taken: Vec<u32> = self.namespaces.iter().filter_map(|namespace| namespace.nsid).collect();
        for (at, namespace) in self.namespaces.into_iter().enumerate() {
            let nsid = namespace.nsid.unwrap_or_else(|| free_nsid(&taken));
            taken.push(nsid);
            config.namespaces.push(namespace.into_config(nsid, &field(base, format!("namespaces[{at}]")))?);
        }
        Ok(config)
    }
}

/// The lowest identifier that no namespace has.
pub(super) fn free_nsid(taken: &[u32]) -> u32 {
    (1..u32::MAX).find(|nsid| !taken.contains(nsid)).unwrap_or(u32::MAX)
}

impl StorageBody {
    fn into_config(self, base: &str) -> Result<StorageConfig, Refusal> {
        if !self.directory.is_absolute() {
            return Err(relative(&self.directory).about(field(base, "storage.directory")));
        }
        Ok(StorageConfig {
            directory: self.directory,
            bytes_max: self.bytes_max.0,
            bytes_max_per_host: self.bytes_max_per_host.map(|size| size.0),
            namespaces_max_per_host: self.namespaces_max_per_host,
        })
    }
}

fn relative(path: &std::path::Path) -> Refusal {
    let what = format!("{} is not an absolute path", path.display());
    Refusal::unprocessable(what).hint("the target's working directory is not yours; begin with /")
}

impl SubsystemPatch {
    /// Changes `config` as it says.
    pub(super) fn apply(self, config: &mut SubsystemConfig) -> Result<(), Refusal> {
        if let Some(serial) = self.serial {
            config.serial =
                check_serial(&serial).map_err(|what| Refusal::unprocessable(what).about("serial"))?;
        }
        if let Some(storage) = self.storage {
            config.storage = storage.map(|storage| storage.into_config("")).transpose()?;
        }
        // A time that is said takes the place of one that is measured, and the other way round.
        match (self.command_quiesce_ms, self.command_quiesce) {
            (None, None) => {}
            (fixed_ms, quiesce) => {
                config.command_quiesce_ms = fixed_ms.flatten();
                config.command_quiesce = quiesce.flatten().unwrap_or_default();
            }
        }
        config.model = self.model.unwrap_or_else(|| config.model.clone());
        config.allow_any_host = self.allow_any_host.unwrap_or(config.allow_any_host);
        config.ports = self.ports.unwrap_or_else(|| config.ports.clone());
        Ok(())
    }
}

impl NamespaceBody {
    /// The identifier it asks for.
    pub(super) fn nsid(&self) -> Option<u32> {
        self.nsid
    }

    /// What its image is to be like, if that is to be made first.
    pub(super) fn create_image(&self) -> Option<&CreateImageBody> {
        self.create_image.as_ref()
    }

    /// Whether it is on an image of a Ceph cluster.
    pub(super) fn is_on_image(&self) -> bool {
        matches!(self.backend, BackendBody::Rbd(_))
    }

    /// Whether an image can be made for it, if one is to be made.
    fn check_create(&self, block_size: u32, base: &str) -> Result<(), Refusal> {
        let Some(create) = &self.create_image else { return Ok(()) };
        let wrong = |what: &str| Err(Refusal::unprocessable(what).about(field(base, "create_image")));
        match &self.backend {
            BackendBody::Rbd(_) if !base.is_empty() => {
                wrong("an image is made where a single namespace is added, and not for a whole configuration")
            }
            BackendBody::Rbd(RbdConfig { snapshot: None, .. }) => check_size(create.size.0, block_size)
                .map(drop)
                .map_err(|what| Refusal::unprocessable(what).about("create_image.size")),
            BackendBody::Rbd(_) => wrong("a snapshot cannot be made like that; clone it"),
            _ => wrong("it goes with rbd only"),
        }
    }

    /// The ANA group it goes to when it asks for none.
    pub(super) fn prefer_group(&mut self, group: Option<u32>) {
        self.ana_group = self.ana_group.or(group);
    }

    /// The configuration it describes, with this identifier.
    pub(super) fn into_config(self, nsid: u32, base: &str) -> Result<NamespaceConfig, Refusal> {
        let block_size = match self.block_size {
            None => BLOCK_SIZE_DEFAULT,
            Some(Size(bytes)) => namespace::check_block_size(bytes)
                .map_err(|what| Refusal::unprocessable(what).about(field(base, "block_size")))?,
        };
        self.check_create(block_size, base)?;
        let backend = self.backend.into_config(block_size, &field(base, "backend"))?;
        let mut config = NamespaceConfig {
            uuid: self.uuid,
            visible: self.visible,
            write_protection: self.write_protection,
            host_write_protection: self.host_write_protection,
            protected_by_host: self.protected_by_host,
            created_by_host: self.created_by_host,
            owner: self.owner,
            write_delay_ms: self.write_delay_ms,
            shared_storage: self.shared_storage,
            standby: self.standby,
            ..NamespaceConfig::new(nsid, backend, block_size)
        };
        config.ana_group = self.ana_group.unwrap_or(config.ana_group);
        self.qos.apply(&mut config.qos);
        Ok(config)
    }
}

impl BackendBody {
    fn into_config(self, block_size: u32, base: &str) -> Result<BackendConfig, Refusal> {
        let absolute = |path: PathBuf, kind: &str| {
            if path.is_absolute() {
                Ok(path)
            } else {
                Err(relative(&path).about(format!("{base}.{kind}.path")))
            }
        };
        let whole = |size: Size, kind: &str| {
            check_size(size.0, block_size)
                .map_err(|what| Refusal::unprocessable(what).about(format!("{base}.{kind}.size")))
        };
        Ok(match self {
            Self::Memory { size } => BackendConfig::Memory { size: whole(size, "memory")? },
            Self::Null { size } => BackendConfig::Null { size: whole(size, "null")? },
            Self::File { path, size } => BackendConfig::File {
                path: absolute(path, "file")?,
                size: size.map(|size| whole(size, "file")).transpose()?,
            },
            Self::Block { path } => BackendConfig::Block { path: absolute(path, "block")? },
            Self::Rbd(image) => BackendConfig::Rbd(checked_image(image, &field(base, "rbd"))?),
        })
    }
}

/// An image whose names are names, and whose configuration file anybody finds.
pub(super) fn checked_image(image: RbdConfig, base: &str) -> Result<RbdConfig, Refusal> {
    check_image(&image).map_err(|(name, what)| Refusal::unprocessable(what).about(field(base, name)))?;
    match &image.conf {
        Some(conf) if !conf.is_absolute() => Err(relative(conf).about(field(base, "conf"))),
        _ => Ok(image),
    }
}

/// A size is one block at least, a whole number of them, and no more than the system can address.
pub(super) fn check_size(bytes: u64, block_size: u32) -> Result<u64, String> {
    if bytes == 0 || !bytes.is_multiple_of(u64::from(block_size)) {
        return Err(format!("a size of {bytes} bytes is not a whole number of {block_size}-byte blocks"));
    }
    if i64::try_from(bytes).is_err() {
        return Err(format!("a size of {bytes} bytes is more than 8 EiB"));
    }
    Ok(bytes)
}

impl NamespacePatch {
    /// Changes `config` as it says.
    pub(super) fn apply(self, config: &mut NamespaceConfig) -> Result<(), Refusal> {
        if let Some(Size(bytes)) = self.size {
            let bytes = check_size(bytes, config.block_size)
                .map_err(|what| Refusal::unprocessable(what).about("size"))?;
            match &mut config.backend {
                BackendConfig::Memory { size } | BackendConfig::Null { size } => *size = bytes,
                BackendConfig::File { size, .. } => *size = Some(bytes),
                BackendConfig::Block { .. } => {
                    let refusal = Refusal::conflict("a block device has the size it has").about("size");
                    return Err(
                        refusal.hint("resize the device; the namespace follows when it is added again")
                    );
                }
                BackendConfig::Rbd(_) => {
                    // Its cluster is asked, before this, and has refused nothing.
                    return Err(Refusal::new(500, "an image's size is not kept here").about("size"));
                }
            }
        }
        config.ana_group = self.ana_group.unwrap_or(config.ana_group);
        config.visible = self.visible.unwrap_or_else(|| config.visible.clone());
        if let Some(write_protection) = self.write_protection {
            // What is said here is the operator's, also where it is what a host has set before.
            (config.write_protection, config.protected_by_host) = (write_protection, false);
        }
        config.host_write_protection = self.host_write_protection.unwrap_or(config.host_write_protection);
        config.owner = self.owner.unwrap_or_else(|| config.owner.take());
        config.write_delay_ms = self.write_delay_ms.unwrap_or(config.write_delay_ms);
        match self.qos {
            Some(Some(qos)) => qos.apply(&mut config.qos),
            Some(None) => config.qos = QosConfig::default(),
            None => {}
        }
        Ok(())
    }
}

impl QosPatch {
    pub(super) fn apply(self, qos: &mut QosConfig) {
        let bytes = |size: Option<Size>| size.map(|size| size.0);
        qos.read_iops = self.read_iops.unwrap_or(qos.read_iops);
        qos.write_iops = self.write_iops.unwrap_or(qos.write_iops);
        qos.iops = self.iops.unwrap_or(qos.iops);
        qos.read_bytes = self.read_bytes.map_or(qos.read_bytes, bytes);
        qos.write_bytes = self.write_bytes.map_or(qos.write_bytes, bytes);
        qos.bytes = self.bytes.map_or(qos.bytes, bytes);
    }
}
