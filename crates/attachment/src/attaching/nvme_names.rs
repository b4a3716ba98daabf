//! Attributes that the kernel's NVMe driver would have in sysfs for a namespace, from which udev
//! builds the names of disks.

use engine::initiator::{NamespaceInfo, Paths};
use nvme::identify::IdentifyController;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The names of a namespace and of its subsystem, as sysfs has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NvmeNames {
    /// The namespace's: `uuid.…`, `eui.…`, or one made of the others.
    pub(super) wwid: String,
    pub(super) model: String,
    pub(super) serial: String,
    pub(super) firmware: String,
}

impl NvmeNames {
    /// Returns the names of a namespace; `None` without a path, since they come from a controller.
    pub(super) fn of(paths: &Paths) -> Option<Self> {
        let controllers = paths.controllers();
        Some(Self::new(&paths.namespace(), controllers.first()?.identify()))
    }

    fn new(namespace: &NamespaceInfo, controller: &IdentifyController) -> Self {
        let (model, serial) = (trimmed(&controller.model_number), trimmed(&controller.serial_number));
        // The order of the kernel's `wwid_show`.
        let wwid = if let Some(uuid) = namespace.uuid {
            format!("uuid.{}", Uuid::from_bytes(uuid))
        } else if let Some(nguid) = namespace.nguid {
            format!("eui.{}", hexadecimal(&nguid))
        } else if let Some(eui64) = namespace.eui64 {
            format!("eui.{}", hexadecimal(&eui64))
        } else {
            let vendor = controller.pci_vendor_id.get();
            format!("nvme.{vendor:04x}-{}-{}-{:08x}", hexadecimal(serial), hexadecimal(model), namespace.nsid)
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let firmware = text(trimmed(&controller.firmware_revision));
        Self { wwid, model: text(model), serial: text(serial), firmware }
    }
}

/// Without the spaces and zeroes that fill a field up.
fn trimmed(field: &[u8]) -> &[u8] {
    let end = field.iter().rposition(|byte| !matches!(byte, b' ' | 0)).map_or(0, |last| last + 1);
    &field[..end]
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    fn namespace() -> NamespaceInfo {
        NamespaceInfo {
            nsid: 3,
            block_size: 4096,
            metadata_bytes: 0,
            blocks: 1,
            capacity_blocks: 1,
            utilization_blocks: 1,
            eui64: None,
            nguid: None,
            uuid: None,
            features: 0,
            deallocate_features: 0,
            is_shared: false,
            is_write_protected: false,
            ana_group_id: 0,
        }
    }

    fn controller() -> IdentifyController {
        let mut controller = IdentifyController::new_zeroed();
        controller.pci_vendor_id.set(0x1b36);
        controller.model_number = [b' '; 40];
        controller.model_number[..6].copy_from_slice(b"A disk");
        controller.serial_number[..3].copy_from_slice(b"S 1");
        controller.firmware_revision.copy_from_slice(b"1.0     ");
        controller
    }

    #[test]
    fn a_namespace_is_named_as_the_kernel_names_it() {
        let eui64 = || NamespaceInfo { eui64: Some([0xab; 8]), ..namespace() };
        let nguid = || NamespaceInfo { nguid: Some([0x0c; 16]), ..eui64() };
        let uuid = NamespaceInfo { uuid: Some([0x5e; 16]), ..nguid() };
        for (namespace, wwid) in [
            (uuid, "uuid.5e5e5e5e-5e5e-5e5e-5e5e-5e5e5e5e5e5e"),
            (nguid(), "eui.0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c"),
            (eui64(), "eui.abababababababab"),
            (namespace(), "nvme.1b36-532031-41206469736b-00000003"),
        ] {
            assert_eq!(NvmeNames::new(&namespace, &controller()).wwid, wwid);
        }
        let names = NvmeNames::new(&namespace(), &controller());
        assert_eq!((names.model.as_str(), names.serial.as_str()), ("A disk", "S 1"));
        assert_eq!(names.firmware, "1.0");
    }
}
