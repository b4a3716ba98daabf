//! `selvedge identify`: what a controller and its namespaces say about themselves.

use std::fmt;

use engine::initiator::{Controller, NamespaceInfo};
use nvme::identify::{IdentifyController, ascii};
use serde::Serialize;
use uuid::Uuid;

use crate::config::connection::Connection;
use crate::discovery;
use crate::failure::Failure;
use crate::flags::look::IdentifyFlags;
use crate::report;
use crate::spec::size::Size;

/// Reads and prints the Identify data.
pub(super) fn run(flags: &IdentifyFlags) -> Result<(), Failure> {
    let connection = Connection::one(&flags.connection)?;
    let nqn = discovery::subsystem(&connection, flags.nqn.as_ref())?;
    let controller = Controller::connect(connection.subsystem(&nqn)).map_err(Failure::failed)?;
    let namespaces = match flags.nsid {
        Some(nsid) => controller.namespace(nsid).map(|namespace| vec![namespace]),
        None => controller.namespaces(),
    };
    let namespaces = namespaces.map_err(Failure::failed)?;
    let identity = Identity {
        controller: ControllerReport::new(&controller),
        namespaces: namespaces.iter().map(NamespaceReport::new).collect(),
    };
    report::print_as(flags.output.output_format, &identity)
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Identity {
    controller: ControllerReport,
    namespaces: Vec<NamespaceReport>,
}

/// The controller. Sizes are bytes, and counts are 1's based, whatever they are on the wire.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct ControllerReport {
    pub(super) nqn: String,
    pub(super) address: String,
    pub(super) controller_id: u16,
    pub(super) model: String,
    pub(super) serial: String,
    pub(super) firmware: String,
    pub(super) version: String,
    pub(super) transfer_bytes_max: usize,
    pub(super) queue_entries_max: u32,
    pub(super) outstanding_commands_max: u16,
    pub(super) in_capsule_bytes: u64,
    pub(super) keep_alive_granularity_ms: u32,
    pub(super) namespaces_max: u32,
    pub(super) volatile_write_cache: bool,
    /// Raw bits: optional NVM commands (ONCS), ANA capabilities (ANACAP), SGL support (SGLS).
    pub(super) oncs: u16,
    pub(super) anacap: u8,
    pub(super) sgls: u32,
}

impl ControllerReport {
    pub(super) fn new(controller: &Controller) -> Self {
        let identify: &IdentifyController = controller.identify();
        let version = controller.version();
        let (major, minor, tertiary) = (version >> 16, version >> 8 & 0xff, version & 0xff);
        let capsule_bytes = u64::from(identify.io_command_capsule_size.get()) * 16;
        Self {
            nqn: controller.options().subsystem_nqn.clone(),
            address: controller.address().to_string(),
            controller_id: controller.id(),
            model: ascii(&identify.model_number),
            serial: ascii(&identify.serial_number),
            firmware: ascii(&identify.firmware_revision),
            version: match tertiary {
                0 => format!("{major}.{minor}"),
                tertiary => format!("{major}.{minor}.{tertiary}"),
            },
            transfer_bytes_max: controller.transfer_length_max(),
            queue_entries_max: controller.capabilities().queue_entries_max(),
            outstanding_commands_max: identify.max_outstanding_commands.get(),
            in_capsule_bytes: capsule_bytes.saturating_sub(64),
            keep_alive_granularity_ms: u32::from(identify.keep_alive_granularity.get()) * 100,
            namespaces_max: identify.namespaces.get(),
            volatile_write_cache: identify.volatile_write_cache & 1 != 0,
            oncs: identify.optional_nvm_commands.get(),
            anacap: identify.ana_capabilities,
            sgls: identify.sgl_support.get(),
        }
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct NamespaceReport {
    nsid: u32,
    size: u64,
    block_size: u32,
    metadata_bytes: u16,
    blocks: u64,
    capacity_blocks: u64,
    utilization_blocks: u64,
    uuid: Option<String>,
    nguid: Option<String>,
    eui64: Option<String>,
    shared: bool,
    thin: bool,
    write_protected: bool,
    ana_group_id: u32,
}

impl NamespaceReport {
    fn new(info: &NamespaceInfo) -> Self {
        Self {
            nsid: info.nsid,
            size: info.size_bytes(),
            block_size: info.block_size,
            metadata_bytes: info.metadata_bytes,
            blocks: info.blocks,
            capacity_blocks: info.capacity_blocks,
            utilization_blocks: info.utilization_blocks,
            uuid: info.uuid.map(|uuid| Uuid::from_bytes(uuid).to_string()),
            nguid: info.nguid.map(|nguid| hexadecimal(&nguid)),
            eui64: info.eui64.map(|eui64| hexadecimal(&eui64)),
            shared: info.is_shared,
            thin: info.is_thin(),
            write_protected: info.is_write_protected,
            ana_group_id: info.ana_group_id,
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.controller)?;
        self.namespaces.iter().try_for_each(|namespace| write!(f, "\n{namespace}"))
    }
}

impl fmt::Display for ControllerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = if self.volatile_write_cache { "yes, Flush makes writes durable" } else { "no" };
        writeln!(f, "controller {} of {}", self.controller_id, self.nqn)?;
        writeln!(f, "  address              {}", self.address)?;
        writeln!(f, "  model                {}", self.model)?;
        writeln!(f, "  serial               {}", self.serial)?;
        writeln!(f, "  firmware             {}", self.firmware)?;
        writeln!(f, "  NVMe version         {}", self.version)?;
        writeln!(f, "  largest transfer     {}", Size(self.transfer_bytes_max as u64))?;
        writeln!(f, "  in-capsule data      {}", Size(self.in_capsule_bytes))?;
        writeln!(f, "  entries per queue    {}", self.queue_entries_max)?;
        writeln!(f, "  keep alive unit      {} ms", self.keep_alive_granularity_ms)?;
        writeln!(f, "  highest nsid         {}", self.namespaces_max)?;
        writeln!(f, "  volatile cache       {cache}")?;
        writeln!(f, "  ONCS, ANACAP, SGLS   {:#06x}, {:#04x}, {:#010x}", self.oncs, self.anacap, self.sgls)
    }
}

impl fmt::Display for NamespaceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "namespace {}", self.nsid)?;
        writeln!(
            f,
            "  size                 {} ({} blocks of {} bytes)",
            Size(self.size),
            self.blocks,
            self.block_size
        )?;
        for (name, value) in [("UUID ", &self.uuid), ("NGUID", &self.nguid), ("EUI64", &self.eui64)] {
            if let Some(value) = value {
                writeln!(f, "  {name}                {value}")?;
            }
        }
        let traits = [
            (self.shared, "shared"),
            (self.thin, "thin provisioned"),
            (self.write_protected, "write protected"),
            (self.metadata_bytes > 0, "with metadata"),
        ];
        let traits: Vec<&str> = traits.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        writeln!(
            f,
            "  traits               {}",
            if traits.is_empty() { "-".into() } else { traits.join(", ") }
        )?;
        writeln!(f, "  ANA group            {}", self.ana_group_id)
    }
}
