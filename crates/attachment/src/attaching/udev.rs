//! `selvedge attach list --udev`: what the rules of udev read about a block device (packaging/udev/59-selvedge-attach.rules).

use std::fmt;

use attach::ublk::FoundDevice;

use super::nvme_names::NvmeNames;
use super::record::KnownRecord;
use crate::failure::Failure;
use crate::flags::attach::DeviceNode;

/// Prints what is known of a block device, and nothing of one that is not ours.
pub(super) fn run(device: DeviceNode) -> Result<(), Failure> {
    let Some(found) = FoundDevice::of_number(device.0).map_err(Failure::failed)? else {
        return Err(Failure::failed(format!("there is no /dev/ublkb{}", device.0)));
    };
    print!("{}", Properties::of(&found, &KnownRecord::all()));
    Ok(())
}

/// Lines `KEY="value"`.
#[derive(Debug, Default)]
struct Properties(Vec<(&'static str, String)>);

impl Properties {
    fn of(found: &FoundDevice, records: &[KnownRecord]) -> Self {
        let mut all = Self::default();
        if let Some((owner, group)) = found.owner {
            // Only root chooses names of links: a user's link could take the place of root's disks.
            all.add("SELVEDGE_OWNER", &owner.to_string());
            all.add("SELVEDGE_GROUP", &group.to_string());
            return all;
        }
        let mut disks = records.iter().flat_map(|known| &known.record.disks);
        let disk = disks.find(|disk| disk.device.is_some_and(|device| device.is(found)));
        let Some((disk, names)) = disk.and_then(|disk| Some((disk, disk.names.as_ref()?))) else {
            return all;
        };
        let NvmeNames { wwid, model, serial, firmware } = names;
        all.add("ID_WWN", wwid);
        all.add("ID_MODEL", model);
        all.add("ID_SERIAL_SHORT", serial);
        all.add("ID_REVISION", firmware);
        all.add("ID_NSID", &disk.nsid.to_string());
        if disk.is_second {
            all.add("SELVEDGE_SECOND", "1");
        }
        all
    }

    /// Adds a property, unless it is empty: a rule would take that for one.
    fn add(&mut self, key: &'static str, value: &str) {
        let value: String = value.chars().map(|found| if is_allowed(found) { found } else { '_' }).collect();
        if !value.is_empty() {
            self.0.push((key, value));
        }
    }
}

/// True if udev accepts the character in an attribute of sysfs (`UDEV_ALLOWED_CHARS_INPUT`). The
/// target chooses the text: no character may end the line or the quotes.
fn is_allowed(found: char) -> bool {
    found.is_ascii_alphanumeric() || "#+-.:=@_/ $%?,".contains(found)
}

impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(key, value)| writeln!(f, "{key}=\"{value}\""))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record_of;
    use super::*;
    use attach::ublk::DeviceState;

    const FOUND: FoundDevice =
        FoundDevice { number: 3, mark: 7, state: DeviceState::Live, process: None, owner: None };

    fn known(model: &str) -> KnownRecord {
        let text = |text: &str| text.to_owned();
        let names = NvmeNames {
            wwid: text("uuid.1"),
            model: text(model),
            serial: text("S1"),
            firmware: String::new(),
        };
        let mut record = record_of(FOUND.number, FOUND.mark);
        record.disks[0].names = Some(names);
        KnownRecord { path: "/a.json".into(), record, lock: None }
    }

    #[test]
    fn the_rules_get_the_properties_that_sysfs_would_have() {
        let properties = Properties::of(&FOUND, &[known("A disk")]).to_string();
        let lines =
            ["ID_WWN=\"uuid.1\"", "ID_MODEL=\"A disk\"", "ID_SERIAL_SHORT=\"S1\"", "ID_NSID=\"1\"", ""];
        assert_eq!(properties, lines.join("\n"));
        let mut second = known("A disk");
        second.record.disks[0].is_second = true;
        let properties = Properties::of(&FOUND, &[second]).to_string();
        assert!(properties.ends_with("ID_NSID=\"1\"\nSELVEDGE_SECOND=\"1\"\n"), "{properties}");
        let hostile = known("a\"\nID_FS_UUID=1\0ü");
        let properties = Properties::of(&FOUND, &[hostile]).to_string();
        assert!(properties.contains("ID_MODEL=\"a__ID_FS_UUID=1__\"\n"), "{properties}");
        let other = FoundDevice { mark: 8, ..FOUND };
        assert_eq!(Properties::of(&other, &[known("A disk")]).to_string(), "");
    }

    #[test]
    fn a_users_device_gets_its_owner_and_no_name() {
        let found = FoundDevice { owner: Some((1000, 100)), ..FOUND };
        let properties = Properties::of(&found, &[known("A disk")]).to_string();
        assert_eq!(properties, "SELVEDGE_OWNER=\"1000\"\nSELVEDGE_GROUP=\"100\"\n");
    }
}
