//! What a plan can reach, and so what a journal may bring back: undoing is done as root, and a journal decides what is
//! written where. Who may have written the journal is looked at before (`private_folder`).

use super::journal::{Before, Record};
use crate::plan::Change;

/// The longest name of an interface (IFNAMSIZ less its end).
const INTERFACE_LENGTH_MAX: usize = 15;
/// The files of a queue that a change of their number may lose, by the queue's kind.
pub(super) const QUEUE_FILES: [(&str, [&str; 2]); 2] =
    [("rx-", ["rps_cpus", "rps_flow_cnt"]), ("tx-", ["xps_cpus", "xps_rxqs"])];

/// Checks that a plan could have made this change; an error says what is wrong with it.
pub(super) fn check(record: &Record) -> Result<(), String> {
    let change = &record.change;
    if let Some(interface) = change.interface()
        && !is_interface(interface)
    {
        return Err(format!("{interface:?} is not a valid interface name"));
    }
    match (change, &record.before) {
        (Change::Affinity { .. } | Change::Xps { .. } | Change::Rps { .. }, Before::File { content }) => {
            check_content(content)
        }
        (Change::Channels { interface, .. }, Before::Channels { files, .. }) => {
            files.iter().try_for_each(|(path, content)| match is_queue_file(interface, path) {
                true => check_content(content),
                false => Err(format!("no plan changes /{path} with the queues of {interface}")),
            })
        }
        (Change::NtupleOn { .. }, Before::Ntuple { .. })
        | (Change::Rule { .. }, Before::Rule { .. })
        | (Change::RssTable { .. }, Before::Table { .. })
        | (Change::Thread { .. }, Before::Thread { .. }) => Ok(()),
        (change, _) => Err(format!("it has something else for `{}`", change.shell())),
    }
}

/// True if the kernel accepts this name for an interface.
fn is_interface(name: &str) -> bool {
    let is_wrong = |byte: u8| byte == b'/' || byte == b':' || !byte.is_ascii_graphic();
    let length = name.len();
    (1..=INTERFACE_LENGTH_MAX).contains(&length) && !matches!(name, "." | "..") && !name.bytes().any(is_wrong)
}

fn is_queue_file(interface: &str, path: &str) -> bool {
    let below = path.strip_prefix("sys/class/net/").and_then(|path| path.strip_prefix(interface));
    let Some((queue, name)) = below.and_then(|path| path.strip_prefix("/queues/")?.split_once('/')) else {
        return false;
    };
    QUEUE_FILES.iter().any(|(kind, names)| {
        let number = queue.strip_prefix(kind);
        names.contains(&name)
            && number.is_some_and(|number| number.parse::<u32>().is_ok_and(|n| n.to_string() == number))
    })
}

/// Such a file has a number, a list of numbers or a mask.
fn check_content(content: &str) -> Result<(), String> {
    let is_wrong = |byte: u8| !byte.is_ascii_hexdigit() && !matches!(byte, b',' | b'-' | b'\n');
    match content.bytes().any(is_wrong) {
        true => Err(format!("{content:?} is not a number, a list or a mask")),
        false => Ok(()),
    }
}
