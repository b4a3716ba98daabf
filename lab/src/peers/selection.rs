//! Which pairings this machine can measure, and why others are left out. It keeps out measuring them.

use super::arguments::Arguments;
use super::means::{has_iscsi_driver, is_root, missing};
use super::pairing::Pairing;

/// Properties of a machine that are known in advance.
struct Machine<'a> {
    is_root: bool,
    has_spdk: bool,
    has_bare: bool,
    missing: &'a dyn Fn(&[&str]) -> Option<String>,
    has_iscsi_driver: &'a dyn Fn() -> bool,
}

impl Machine<'_> {
    /// Why it cannot measure a pairing, if it cannot.
    fn obstacle(&self, pairing: Pairing) -> Option<String> {
        let said = |reason: &str| Some(reason.to_owned());
        match pairing {
            Pairing::Ours => None,
            _ if pairing.has_spdk() && !self.has_spdk => said("--spdk DIR says where an SPDK is"),
            _ if pairing.has_spdk() && !self.is_root => said("SPDK takes huge pages, and those take root"),
            Pairing::Spdk | Pairing::OursSpdk | Pairing::SpdkOurs => None,
            Pairing::Bare if self.has_bare => None,
            Pairing::Bare => said("its program is built by `cargo xtask bench peers`"),
            Pairing::QemuNbd => (self.missing)(&["qemu-nbd", "fio"]),
            Pairing::Tgtd | Pairing::TgtdAio if !self.is_root => said("tgtd takes root"),
            Pairing::Tgtd => (self.missing)(&["tgtd", "iscsi-perf"]),
            Pairing::TgtdAio => (self.missing)(&["tgtd", "qemu-img"]).or_else(|| {
                (!(self.has_iscsi_driver)())
                    .then(|| "qemu-img has no iSCSI (Debian's qemu-block-extra)".to_owned())
            }),
        }
    }

    fn select(&self, named: &[Pairing]) -> Result<Selection, String> {
        let mut selection = Selection { pairings: Vec::new(), left_out: Vec::new() };
        for pairing in Pairing::ALL {
            if !named.is_empty() && !named.contains(&pairing) {
                continue;
            }
            match self.obstacle(pairing).map(|reason| format!("{}: {reason}", pairing.word())) {
                None => selection.pairings.push(pairing),
                Some(reason) if named.is_empty() => selection.left_out.push(reason),
                Some(reason) => return Err(format!("cannot measure {reason}")),
            }
        }
        Ok(selection)
    }
}

/// Pairings and workloads that are measured, and those that are left out.
#[derive(Debug, PartialEq)]
pub(crate) struct Selection {
    pub(crate) pairings: Vec<Pairing>,
    /// A pairing and the reason, each.
    pub(crate) left_out: Vec<String>,
}

impl Selection {
    /// All pairings that are possible, or those that the arguments name.
    ///
    /// # Errors
    /// A pairing that they name is impossible.
    pub(crate) fn of(arguments: &Arguments) -> Result<Selection, String> {
        let machine = Machine {
            is_root: is_root(),
            has_spdk: arguments.spdk.is_some(),
            has_bare: arguments.bare.is_some(),
            missing: &missing,
            has_iscsi_driver: &has_iscsi_driver,
        };
        machine.select(&arguments.pairings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_root_some_are_left_out_and_said() {
        let none = |_: &[&str]| None;
        let machine = Machine {
            is_root: false,
            has_spdk: true,
            has_bare: true,
            missing: &none,
            has_iscsi_driver: &|| true,
        };
        let selection = machine.select(&[]).unwrap();
        assert_eq!(selection.pairings, [Pairing::Ours, Pairing::Bare, Pairing::QemuNbd]);
        assert_eq!(selection.left_out.len(), 5);
        assert_eq!(selection.left_out[0], "spdk: SPDK takes huge pages, and those take root");
        let reason = machine.select(&[Pairing::Ours, Pairing::Tgtd]).unwrap_err();
        assert_eq!(reason, "cannot measure tgtd: tgtd takes root");
    }

    #[test]
    fn all_are_measured_where_all_is_there() {
        let none = |_: &[&str]| None;
        let machine = Machine {
            is_root: true,
            has_spdk: true,
            has_bare: true,
            missing: &none,
            has_iscsi_driver: &|| true,
        };
        assert_eq!(machine.select(&[]).unwrap().pairings, Pairing::ALL);
        let fio = |names: &[&str]| names.contains(&"fio").then(|| "not installed: fio".to_owned());
        let machine = Machine { has_spdk: false, missing: &fio, has_iscsi_driver: &|| false, ..machine };
        let selection = machine.select(&[]).unwrap();
        assert_eq!(selection.pairings, [Pairing::Ours, Pairing::Bare, Pairing::Tgtd]);
        assert_eq!(selection.left_out[0], "spdk: --spdk DIR says where an SPDK is");
        let last =
            ["qemu-nbd: not installed: fio", "tgtd-aio: qemu-img has no iSCSI (Debian's qemu-block-extra)"];
        assert_eq!(selection.left_out[3..], last);
        assert_eq!(machine.select(&[Pairing::Ours]).unwrap().left_out, Vec::<String>::new());
    }
}
