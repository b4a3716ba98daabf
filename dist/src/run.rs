//! Other programs, run to their end.

use std::process::Command;

/// Runs it, and gives what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} does not start: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("{name}: {said} ({})", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} printed something that is not text"))
}

/// Runs it, with its output where ours goes.
pub(crate) fn shown(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name} does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}
