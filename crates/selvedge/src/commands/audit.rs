//! `selvedge audit`: whether an audit log is whole.

use std::path::{Path, PathBuf};

use chart::units;
use rustix::fs::{Access, access};

use crate::control::audit::{Verified, head_in, verify};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::audit::AuditAction;
use crate::report;

/// Does what was typed.
pub(super) fn run(action: &AuditAction) -> Result<(), Failure> {
    let AuditAction::Verify { files, state_dir, format } = action;
    let end = state_dir.as_deref().map(head_in).transpose()?.flatten();
    let files: Vec<PathBuf> = match state_dir {
        Some(directory) if files.is_empty() => vec![directory.join(crate::control::audit::NAME)],
        _ => files.clone(),
    };
    // A missing file is a mistake in the command line, and a changed log what the command looks for. A pipe is not opened
    // twice.
    for file in files.iter().filter(|file| *file != Path::new("-")) {
        access(file, Access::READ_OK)
            .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", file.display())))?;
    }
    let verified = verify(&files, end).map_err(Failure::failed)?;
    match format.output_format {
        OutputFormat::Normal => report::print_exactly(text(&verified)),
        OutputFormat::Json => report::print_json(&verified),
    }
}

fn text(verified: &Verified) -> String {
    let Verified { records, first, last, hash, is_end_known } = verified;
    let end = match is_end_known {
        Some(true) => "the last is the last that was written",
        Some(false) => "the last is newer than the state directory knows",
        None => "--state-dir is required to detect missing records at the end",
    };
    let before =
        if *first > 0 { format!("; those before {first} are in older files") } else { String::new() };
    format!(
        "{}, {first} to {last}: none was changed or taken out{before}\n{end}\nSHA-256 {hash}\n",
        units::plural(*records, "record")
    )
}
