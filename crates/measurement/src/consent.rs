//! Consent to write to a namespace: not needed without data in it, else asked for.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use engine::initiator::Volume;
use nvme::discovery::Nqn;

use crate::failure::Failure;
use crate::spec::size::Size;
use crate::workload::Range;

/// Places that are looked at, spread evenly over the range.
const PLACES: u64 = 64;
/// Bytes of the first place, where tables of partitions and superblocks are, and of each other one.
const FIRST_BYTES: u64 = 1 << 20;
const PLACE_BYTES: u64 = 64 << 10;

/// Returns when `who`, a command in a few words, may write there.
///
/// # Errors
/// When it may not, with what to do; or when the namespace cannot be read.
pub fn ask(who: &str, (nqn, namespace): (&Nqn, &Volume), ranges: &[Range]) -> Result<(), Failure> {
    // What cannot be written is refused for that.
    if namespace.info().is_write_protected {
        return Ok(());
    }
    for range in ranges {
        let (offset, length) = range.bytes(namespace.size_bytes());
        let Some(found) = first_data(namespace, offset, length)? else { continue };
        return ask_about(&format!(
            "{who} overwrites {} of namespace {} of {nqn}, which has data (at offset {found})",
            Size(length),
            namespace.info().nsid
        ));
    }
    Ok(())
}

fn ask_about(what: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(format!("{what}: add --destroy-data to overwrite it")));
    }
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{what}.\nDestroy it? Type yes: ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(Failure::failed)?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::failed("nothing was written")) }
}

/// Returns the offset of the first data found; reading all would take as long as the sweep.
fn first_data(namespace: &Volume, offset: u64, length: u64) -> Result<Option<u64>, Failure> {
    let block = u64::from(namespace.block_size());
    let end = offset.saturating_add(length);
    // A share of the namespace may begin within a block.
    let offset = offset / block * block;
    let mut data = vec![0; FIRST_BYTES as usize];
    for place in 0..PLACES {
        let at =
            offset + (u128::from(length) * u128::from(place) / u128::from(PLACES)) as u64 / block * block;
        let most = if place == 0 { FIRST_BYTES } else { PLACE_BYTES };
        let bytes = most.min(end.saturating_sub(at)) / block * block;
        let part = &mut data[..bytes as usize];
        namespace.read_at(at, part).map_err(|error| {
            Failure::failed(format!("cannot see whether there is data in the namespace: {error}"))
        })?;
        if let Some(byte) = part.iter().position(|byte| *byte != 0) {
            return Ok(Some(at + byte as u64));
        }
    }
    Ok(None)
}
