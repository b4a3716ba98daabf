//! What nvmetcli is said to have saved: what is taken over is a configuration that can be served and written down.

use selvedge::edges;

use crate::config::same_again;

/// Reads the bytes of one input as JSON of nvmetcli's.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    match edges::import_nvmet(text) {
        Err(what) => assert!(!what.trim().is_empty() && !what.contains('\n'), "{what:?}"),
        Ok((fabric, losses)) => {
            for loss in &losses {
                let place = loss.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
                let number = place.and_then(|(number, _)| number.parse::<usize>().ok());
                assert!(
                    number.is_some_and(|number| (1..=lines).contains(&number)),
                    "of {lines} lines: {loss}"
                );
            }
            // Without either there is nothing to serve, and `selvedge import` says so.
            if !fabric.ports.is_empty() && !fabric.subsystems.is_empty() {
                same_again(&fabric);
            }
        }
    }
}
