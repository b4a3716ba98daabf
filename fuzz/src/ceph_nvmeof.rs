//! What is said to be the state of a ceph-nvmeof group: what is taken over is a configuration that can be served and written down.

use selvedge::edges;

use crate::config::same_again;

/// Key by which the secrets of the seeds are encrypted.
const KEY: &str = include_str!("../../crates/administration/src/config/ceph_nvmeof/recorded/encryption.pem");

/// Reads the bytes of one input as a saved state, in either form.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let gateway = text.contains("node-a").then_some("node-a");
    match edges::import_ceph_nvmeof(text, gateway, Some(KEY)) {
        Err(what) => assert!(is_line(&what), "{what:?}"),
        Ok((fabric, losses)) => {
            for loss in &losses {
                assert!(is_line(loss) && loss.contains(": "), "{loss:?}");
            }
            // Without either there is nothing to serve, and `selvedge import` says so.
            if !fabric.ports.is_empty() && !fabric.subsystems.is_empty() {
                same_again(&fabric);
            }
        }
    }
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('\n')
}
