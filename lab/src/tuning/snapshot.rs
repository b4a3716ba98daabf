//! How interfaces and threads are set at one moment, so that two moments can be compared byte for byte. It keeps out what
//! the product reads and writes: everything is read here by other means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Every file of the interfaces' queues with its content or the error of reading it, and the processors of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<String, Result<Vec<u8>, String>>);

impl Snapshot {
    /// Of these interfaces and of all threads of these processes.
    pub(super) fn of(interfaces: &[&str], processes: &[u32]) -> Result<Snapshot, String> {
        let mut found = BTreeMap::new();
        for interface in interfaces {
            let folder = format!("/sys/class/net/{interface}/queues");
            for queue in names(&folder)? {
                for name in names(&format!("{folder}/{queue}"))? {
                    let path = format!("{folder}/{queue}/{name}");
                    if Path::new(&path).is_file() {
                        found.insert(path.clone(), std::fs::read(&path).map_err(|error| error.to_string()));
                    }
                }
            }
        }
        for process in processes {
            let threads = format!("/proc/{process}/task");
            for thread in names(&threads)? {
                match allowed(*process, &thread) {
                    Ok(cpus) => found.insert(format!("CPUs of thread {thread}"), Ok(cpus.into_bytes())),
                    // It ended after it was listed.
                    Err(_) if !Path::new(&threads).join(&thread).exists() => None,
                    Err(reason) => return Err(reason),
                };
            }
        }
        Ok(Snapshot(found))
    }

    /// Checks that nothing differs from `before`.
    ///
    /// # Errors
    /// Something is: what.
    pub(super) fn is_as(&self, before: &Snapshot) -> Result<(), String> {
        let names: BTreeSet<&String> = self.0.keys().chain(before.0.keys()).collect();
        let shown = |content: Option<&Result<Vec<u8>, String>>| match content {
            None => "absent".to_owned(),
            Some(Ok(bytes)) => format!("{:?}", String::from_utf8_lossy(bytes)),
            Some(Err(error)) => format!("unreadable ({error})"),
        };
        let differs = |name: &&&String| self.0.get(**name) != before.0.get(**name);
        let different: Vec<String> = names
            .iter()
            .filter(differs)
            .map(|name| {
                format!("{name} was {} and is {}", shown(before.0.get(*name)), shown(self.0.get(*name)))
            })
            .collect();
        if different.is_empty() { Ok(()) } else { Err(different.join("; ")) }
    }

    /// All but what is left out.
    pub(super) fn without(&self, is_left_out: impl Fn(&str) -> bool) -> Snapshot {
        let kept = self.0.iter().filter(|(name, _)| !is_left_out(name));
        Snapshot(kept.map(|(name, content)| (name.clone(), content.clone())).collect())
    }

    /// Number of files that are compared.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Processors that a thread may run on, as its status says.
pub(super) fn allowed(process: u32, thread: &str) -> Result<String, String> {
    let path = format!("/proc/{process}/task/{thread}/status");
    let status = read(&path)?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map(|list| list.trim().to_owned()).ok_or_else(|| format!("{path} tells no CPUs"))
}

/// Numbers of an interface's queues in use, received by and sent by.
pub(super) fn queues(interface: &str) -> Result<(usize, usize), String> {
    let names = names(&format!("/sys/class/net/{interface}/queues"))?;
    let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    Ok((count("rx-"), count("tx-")))
}

/// The processors in a file that holds a mask: hexadecimal words of 32 bits with commas, the lowest last.
pub(super) fn mask(path: &str) -> Result<BTreeSet<u32>, String> {
    let text = read(path)?;
    let mut cpus = BTreeSet::new();
    for (word, base) in text.trim().rsplit(',').zip((0..).step_by(32)) {
        let bits =
            u32::from_str_radix(word, 16).map_err(|_| format!("{path}: `{text}` is not a CPU mask"))?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| base + bit));
    }
    Ok(cpus)
}

pub(super) fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn names(folder: &str) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{folder}: {error}");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let one = Snapshot(BTreeMap::from([("a".to_owned(), Ok(b"1\n".to_vec()))]));
        let other = Snapshot(BTreeMap::from([("b".to_owned(), Err("no".to_owned()))]));
        assert_eq!(one.is_as(&one), Ok(()));
        let said = one.is_as(&other).unwrap_err();
        assert_eq!(said, r#"a was absent and is "1\n"; b was unreadable (no) and is absent"#);
    }

    #[test]
    fn masks_are_read_from_the_right() {
        let path = std::env::temp_dir().join(format!("selvedge-lab-mask-{}", std::process::id()));
        std::fs::write(&path, "00000001,80000002\n").unwrap();
        let read = mask(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, Ok(BTreeSet::from([1, 31, 32])));
    }

    #[test]
    fn threads_of_this_process_are_seen() {
        let id = std::process::id();
        // The threads of other tests come and go meanwhile.
        let snapshot = Snapshot::of(&[], &[id]).unwrap();
        assert!(snapshot.len() >= 1);
        assert!(!allowed(id, &id.to_string()).unwrap().is_empty());
    }

    #[test]
    fn threads_that_come_and_go_do_no_harm() {
        let come_and_go = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while come_and_go.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::spawn(|| ()).join().unwrap();
                }
            });
            let looks: Vec<_> = (0..200).map(|_| Snapshot::of(&[], &[std::process::id()])).collect();
            come_and_go.store(false, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(looks.into_iter().find_map(Result::err), None);
        });
    }
}
