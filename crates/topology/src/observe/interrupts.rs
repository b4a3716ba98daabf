//! Interrupts: their counts and names in /proc/interrupts, and which queue a name says one is of. Where the name does not
//! say, nothing is guessed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ObserveError;
use super::reader::Reader;
use crate::Interrupt;

const INTERRUPTS: &str = "proc/interrupts";
/// Names of interrupts that are shown where they do not tell.
const SHOWN_NAMES: usize = 3;

/// Directions of a queue that an interrupt serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Serves {
    /// Both.
    Both,
    /// Received packets.
    Receive,
    /// Sent packets.
    Transmit,
}

/// All interrupts of the machine.
pub(super) struct Interrupts {
    /// Name and count by number.
    lines: HashMap<u32, (String, u64)>,
    /// Names of interfaces, which names of interrupts may begin with.
    interfaces: BTreeSet<String>,
}

impl Interrupts {
    pub(super) fn read(reader: &mut Reader<'_>, interfaces: BTreeSet<String>) -> Result<Self, ObserveError> {
        let text = reader.text(INTERRUPTS).unwrap_or_default();
        let lines = lines(&text).ok_or_else(|| {
            let first = text.lines().next().unwrap_or_default().to_owned();
            reader.nonsense(INTERRUPTS, &first, "a table with a column for each CPU")
        })?;
        Ok(Self { lines, interfaces })
    }

    /// Interrupts of an interface's queues, among the interrupts of its device.
    pub(super) fn of_queues(
        &mut self,
        reader: &mut Reader<'_>,
        interface: &str,
        numbers: &[u32],
    ) -> Result<Vec<(Serves, u32, Interrupt)>, ObserveError> {
        let mut found: BTreeMap<(Serves, u32), Vec<u32>> = BTreeMap::new();
        let mut unmatched = Vec::new();
        for number in numbers {
            let Some((name, _)) = self.lines.get(number) else { continue };
            if self.is_anothers(name, interface) {
                continue;
            }
            match queue(name) {
                Some(queue) => found.entry(queue).or_default().push(*number),
                None => unmatched.push(name.clone()),
            }
        }
        let what = format!("interrupts of {interface}");
        if found.is_empty() && !unmatched.is_empty() {
            unmatched.truncate(SHOWN_NAMES);
            let names = unmatched.join("`, `");
            reader.shortfall(&what, &format!("their names (`{names}`) do not contain a queue number"), false);
        }
        if let Some(((_, queue), numbers)) = found.iter().find(|(_, numbers)| numbers.len() > 1) {
            let reason = format!("{} by their names are all of queue {queue}", listed(numbers));
            reader.shortfall(&what, &reason, false);
        }
        let mut interrupts = Vec::new();
        for ((serves, queue), numbers) in found.into_iter().filter(|(_, numbers)| numbers.len() == 1) {
            interrupts.push((serves, queue, self.interrupt(reader, numbers[0])?));
        }
        Ok(interrupts)
    }

    /// True if a name contains the name of another interface, which shares the device.
    fn is_anothers(&self, name: &str, interface: &str) -> bool {
        let words: Vec<&str> = name.split(['-', '@']).collect();
        !words.contains(&interface) && words.iter().any(|word| self.interfaces.contains(*word))
    }

    fn interrupt(&self, reader: &mut Reader<'_>, irq: u32) -> Result<Interrupt, ObserveError> {
        let (name, count) = self.lines.get(&irq).cloned().unwrap_or_default();
        let affinity = reader.cpus(&format!("proc/irq/{irq}/smp_affinity_list"))?.unwrap_or_default();
        let effective = reader.cpus(&format!("proc/irq/{irq}/effective_affinity_list"))?;
        Ok(Interrupt { irq, name, affinity, effective: effective.filter(|cpus| !cpus.is_empty()), count })
    }
}

fn listed(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    texts.join(", ")
}

/// Name and count of each interrupt with a number; absent for a text that is not such a table.
fn lines(text: &str) -> Option<HashMap<u32, (String, u64)>> {
    let mut found = HashMap::new();
    let mut lines = text.lines();
    let Some(head) = lines.next() else { return Some(found) };
    let columns = head.split_whitespace().count();
    if columns == 0 || !head.split_whitespace().all(|column| column.starts_with("CPU")) {
        return None;
    }
    for line in lines {
        let mut words = line.split_whitespace();
        let irq = words.next().and_then(|word| word.strip_suffix(':')).and_then(|word| word.parse().ok());
        // Others, such as NMI, have letters.
        let Some(irq) = irq else { continue };
        let mut count = 0_u64;
        for _ in 0..columns {
            count = count.saturating_add(words.next()?.parse().ok()?);
        }
        // What follows is the controller, its own number and the names, of which the last is the youngest.
        found.insert(irq, (words.last().unwrap_or_default().to_owned(), count));
    }
    Some(found)
}

/// The queue that a name says its interrupt is of: a number at its end, and before it a word that says what for.
fn queue(name: &str) -> Option<(Serves, u32)> {
    // Behind an @ stands the device.
    let name = name.split('@').next().unwrap_or_default();
    let digits = name.len() - name.trim_end_matches(|last: char| last.is_ascii_digit()).len();
    let (before, digits) = name.split_at(name.len() - digits);
    let number = digits.parse().ok()?;
    let before = before.trim_end_matches(['-', '.', '_']).to_ascii_lowercase();
    let words = [
        ("txrx", Serves::Both),
        ("rxtx", Serves::Both),
        ("tx-rx", Serves::Both),
        ("rx-tx", Serves::Both),
        ("mlx5_comp", Serves::Both),
        ("mana_q", Serves::Both),
        ("fp", Serves::Both),
        ("rx", Serves::Receive),
        ("input", Serves::Receive),
        ("tx", Serves::Transmit),
        ("output", Serves::Transmit),
    ];
    let is_word = |word: &str| {
        let rest = before.strip_suffix(word);
        rest.is_some_and(|rest| !rest.ends_with(|last: char| last.is_ascii_alphanumeric()))
    };
    words.into_iter().find(|(word, _)| is_word(word)).map(|(_, serves)| (serves, number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_drivers_tell_the_queue() {
        for (name, expected) in [
            ("mlx5_comp3@pci:0000:3b:00.0", Some((Serves::Both, 3))),
            ("ice-eth0-TxRx-12", Some((Serves::Both, 12))),
            ("i40e-ens1f0-TxRx-3", Some((Serves::Both, 3))),
            ("eth0-TxRx-0", Some((Serves::Both, 0))),
            ("eth0-Tx-Rx-3", Some((Serves::Both, 3))),
            ("eth0-fp-3", Some((Serves::Both, 3))),
            ("eth0-rxtx-3", Some((Serves::Both, 3))),
            ("eth0-rx-1", Some((Serves::Receive, 1))),
            ("eth0-tx-1", Some((Serves::Transmit, 1))),
            ("virtio2-input.3", Some((Serves::Receive, 3))),
            ("virtio2-output.0", Some((Serves::Transmit, 0))),
            ("mana_q4@pci:7870:00:00.0", Some((Serves::Both, 4))),
            ("mlx5_async0@pci:0000:3b:00.0", None),
            ("virtio2-config", None),
            ("gve-ntfy-blk3@pci:0000:00:04.0", None),
            ("nvme0q3", None),
            ("eth0", None),
            ("rx", None),
            ("", None),
        ] {
            assert_eq!(queue(name), expected, "{name}");
        }
    }

    #[test]
    fn the_table_is_read_by_its_columns() {
        let text = "           CPU0       CPU1       \n \
            24:          1          2  IO-APIC   5-edge      ACPI:Ged\n \
            38:          0      36543 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
            NMI:          0          0   Non-maskable interrupts\nERR:          0\n";
        let found = lines(text).unwrap();
        assert_eq!(found[&38], ("virtio2-input.0".to_owned(), 36543));
        assert_eq!(found[&24].1, 3);
        assert_eq!(found.len(), 2);
        assert!(lines("").unwrap().is_empty());
        assert!(lines("nonsense").is_none());
        assert!(lines("CPU0 CPU1\n 1: 5\n").is_none());
    }

    proptest! {
        #[test]
        fn random_texts_never_panic(text in "(CPU[0-9] ){0,3}\\n( [0-9]{1,12}: [0-9a ]{0,20}\\n){0,3}", name in any::<String>()) {
            let _ = lines(&text);
            let _ = queue(&name);
        }
    }
}
