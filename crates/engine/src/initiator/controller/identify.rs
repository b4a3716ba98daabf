//! Namespaces of a controller, as it reports them: their identifiers, formats and names. `path`
//! decides which names make two namespaces one.

use std::fmt::Display;
use std::time::Duration;

use nvme::Status;
use nvme::identify::bits::{attributes, common_features, features, sharing, volatile_write_cache};
use nvme::identify::{
    Cns, IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyRequest, NamespaceIdentifiers,
    NamespaceList,
};
use zerocopy::FromBytes;

use super::controller::Controller;
use crate::initiator::InitiatorError;

/// Namespaces that are listed at most: a list that never ends is an error.
const NAMESPACES_LISTED_MAX: usize = 1 << 16;
/// The version that brought the list of namespace identification descriptors: 1.3.
const VERSION_WITH_DESCRIPTORS: u32 = 0x0001_0300;
/// The version that brought Identify for any I/O command set, with the namespace's own volatile write cache: 2.0.
const VERSION_WITH_INDEPENDENT: u32 = 0x0002_0000;

/// A namespace as its controller describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Namespace identifier (NSID).
    pub nsid: u32,
    /// Bytes of data in a logical block.
    pub block_size: u32,
    /// Bytes of metadata with each block; only namespaces with none can be opened.
    pub metadata_bytes: u16,
    /// Size in logical blocks (NSZE).
    pub blocks: u64,
    /// Capacity in logical blocks (NCAP).
    pub capacity_blocks: u64,
    /// Logical blocks in use (NUSE).
    pub utilization_blocks: u64,
    /// IEEE Extended Unique Identifier, if it has one.
    pub eui64: Option<[u8; 8]>,
    /// Namespace Globally Unique Identifier, if it has one.
    pub nguid: Option<[u8; 16]>,
    /// UUID, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// Features: bits of `nvme::identify::bits::features` (NSFEAT).
    pub features: u8,
    /// Bits of `nvme::identify::bits::deallocate_features` (DLFEAT).
    pub deallocate_features: u8,
    /// Set if several controllers may have it attached (NMIC).
    pub is_shared: bool,
    /// Set while it is write protected (NSATTR).
    pub is_write_protected: bool,
    /// ANA group (ANAGRPID), 0 if it is in none.
    pub ana_group_id: u32,
}

impl NamespaceInfo {
    /// Size in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_size as u64)
    }

    /// True if it is thin provisioned.
    pub const fn is_thin(&self) -> bool {
        self.features & features::THIN_PROVISIONING != 0
    }
}

impl Controller {
    /// The active namespaces, by increasing identifier. One whose description is invalid is left out,
    /// with a warning in the log.
    ///
    /// # Errors
    /// When the connection is lost or the controller refuses to list them.
    pub fn namespaces(&self) -> Result<Vec<NamespaceInfo>, InitiatorError> {
        let mut namespaces = Vec::new();
        for nsid in self.namespace_ids()? {
            match self.namespace(nsid) {
                Ok(namespace) => namespaces.push(namespace),
                Err(
                    error @ (InitiatorError::BadAnswer { .. }
                    | InitiatorError::CommandFailed { .. }
                    | InitiatorError::NoNamespace { .. }),
                ) => {
                    tracing::warn!(nsid, %error, "a namespace is left out");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(namespaces)
    }

    /// The identifiers of the active namespaces, increasing (CNS 02h).
    ///
    /// # Errors
    /// When the connection is lost, the controller refuses, or the list is invalid.
    pub fn namespace_ids(&self) -> Result<Vec<u32>, InitiatorError> {
        let mut nsids: Vec<u32> = Vec::new();
        loop {
            let after = nsids.last().copied().unwrap_or(0);
            let request = IdentifyRequest::new(Cns::ACTIVE_NAMESPACE_LIST);
            let list: Box<NamespaceList> = self.identify_as(request, after)?;
            let page = list.decode(after).map_err(|error| bad("Identify (active namespaces)", &error))?;
            let is_last = page.len() < NamespaceList::CAPACITY;
            nsids.extend(page);
            if nsids.len() > NAMESPACES_LISTED_MAX {
                return Err(bad("Identify (active namespaces)", &"the list does not end"));
            }
            // An identifier this high has none after it, and asking for those is an error.
            if is_last || nsids.last().is_some_and(|nsid| *nsid >= u32::MAX - 2) {
                return Ok(nsids);
            }
        }
    }

    /// Description and names of a namespace.
    ///
    /// # Errors
    /// When the connection is lost, there is no such namespace, or its description is invalid.
    pub fn namespace(&self, nsid: u32) -> Result<NamespaceInfo, InitiatorError> {
        let namespace = match self.identify_namespace(nsid) {
            Ok(namespace) => namespace,
            Err(error) if error.status().map(Status::without_flags) == Some(Status::INVALID_NAMESPACE) => {
                return Err(self.no_namespace(nsid));
            }
            Err(error) => return Err(error),
        };
        let format = namespace.format();
        if namespace.size_blocks.get() == 0 {
            return Err(self.no_namespace(nsid));
        }
        let names = self.namespace_names(nsid, &namespace)?;
        let block_size = format.block_bytes().and_then(|bytes| u32::try_from(bytes).ok());
        let Some(block_size) = block_size else {
            let exponent = format.data_size_exponent;
            return Err(bad("Identify Namespace", &format!("blocks of 2^{exponent} bytes")));
        };
        Ok(NamespaceInfo {
            nsid,
            block_size,
            metadata_bytes: format.metadata_bytes.get(),
            blocks: namespace.size_blocks.get(),
            capacity_blocks: namespace.capacity_blocks.get(),
            utilization_blocks: namespace.utilization_blocks.get(),
            eui64: names.eui64,
            nguid: names.nguid,
            uuid: names.uuid,
            features: namespace.features,
            deallocate_features: namespace.deallocate_features,
            is_shared: namespace.sharing & sharing::SHARED != 0,
            is_write_protected: namespace.attributes & attributes::WRITE_PROTECTED != 0,
            ana_group_id: namespace.ana_group_id.get(),
        })
    }

    /// True if writes to a namespace are durable only after a Flush or with FUA: the controller has a volatile write cache (VWC),
    /// and the namespace does not report that it has none (VWCNP, CNS 08h).
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn has_volatile_cache(&self, nsid: u32) -> Result<bool, InitiatorError> {
        if self.identify().volatile_write_cache & volatile_write_cache::PRESENT == 0 {
            return Ok(false);
        }
        if self.version() < VERSION_WITH_INDEPENDENT {
            return Ok(true);
        }
        let request = IdentifyRequest::new(Cns::INDEPENDENT_NAMESPACE);
        let reply = self.identify_bytes(request, nsid, Duration::MAX)?;
        // A controller that refuses reports nothing about its namespaces.
        if !reply.status.is_success() {
            return Ok(true);
        }
        let Ok(namespace) = IdentifyNamespaceIndependent::read_from_bytes(&reply.data) else {
            return Ok(true);
        };
        Ok(namespace.features & common_features::NO_VOLATILE_WRITE_CACHE == 0)
    }

    /// Identify Namespace as the controller sent it (CNS 00h); all zero for one that is not active.
    ///
    /// # Errors
    /// When the connection is lost or the controller refuses.
    pub fn identify_namespace(&self, nsid: u32) -> Result<Box<IdentifyNamespace>, InitiatorError> {
        self.identify_as(IdentifyRequest::new(Cns::NAMESPACE), nsid)
    }

    /// The names of a namespace: those on its descriptor list (CNS 03h), else those of Identify Namespace.
    fn namespace_names(
        &self,
        nsid: u32,
        namespace: &IdentifyNamespace,
    ) -> Result<NamespaceIdentifiers, InitiatorError> {
        let mut names = NamespaceIdentifiers::default();
        if self.version() >= VERSION_WITH_DESCRIPTORS {
            const WHAT: &str = "Identify (namespace descriptors)";
            let reply =
                self.identify_bytes(IdentifyRequest::new(Cns::NAMESPACE_DESCRIPTORS), nsid, Duration::MAX)?;
            if reply.status.is_success() {
                names = NamespaceIdentifiers::decode(&reply.data).map_err(|error| bad(WHAT, &error))?;
            } else if reply.status.without_flags() == Status::INVALID_NAMESPACE {
                // It has gone since it was described. Taken for nameless, it would be another one than on other paths.
                return Err(self.no_namespace(nsid));
            }
        }
        names.eui64 = names.eui64.or(Some(namespace.eui64)).filter(|id| *id != [0; 8]);
        names.nguid = names.nguid.or(Some(namespace.nguid)).filter(|id| *id != [0; 16]);
        names.uuid = names.uuid.filter(|id| *id != [0; 16]);
        Ok(names)
    }

    /// The refusal of a namespace that is not there; it names those that are.
    fn no_namespace(&self, nsid: u32) -> InitiatorError {
        let active = self.namespace_ids().unwrap_or_default();
        InitiatorError::NoNamespace { address: self.address(), nsid, active }
    }
}

fn bad(what: &'static str, reason: &dyn Display) -> InitiatorError {
    InitiatorError::BadAnswer { what, reason: reason.to_string() }
}
