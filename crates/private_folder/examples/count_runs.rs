//! Counts its runs in a file that is there whole at any time, even if the machine loses its power:
//! `cargo run -p selvedge-private-folder --example count_runs -- FOLDER`.

use std::error::Error;
use std::path::Path;

use private_folder::PrivateFolder;

/// Longest file that is read.
const BYTES_MAX: u64 = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: count_runs FOLDER")?;
    // Refused if others may write in it.
    let folder = PrivateFolder::make(Path::new(&path))?;
    let before = folder.read("runs", BYTES_MAX)?.unwrap_or_default();
    let before: u64 = String::from_utf8_lossy(&before).trim().parse().unwrap_or(0);
    folder.replace("runs", format!("{}\n", before + 1).as_bytes())?;
    println!("{}: {} runs", folder.path().display(), before + 1);
    Ok(())
}
