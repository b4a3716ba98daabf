//! `selvedge import`: another target's configuration as a target.toml, and what of it cannot be taken over.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use engine::target::FabricConfig;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::{nvmet, target_dump};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::config::ImportSource;
use crate::report;

/// Bytes of a saved configuration: far more than a kernel has subsystems for.
const BYTES_MAX: u64 = 64 << 20;

/// Does what was typed.
pub(super) fn run(source: &ImportSource) -> Result<(), Failure> {
    let ImportSource::Nvmet { file, partial, output, force, output_format } = source;
    let text = read(file)?;
    let imported =
        nvmet::read(&text).map_err(|what| Failure::usage(format!("{}: {what}", file.display())))?;
    for loss in &imported.losses {
        eprintln!("selvedge: {}: {loss}", file.display());
    }
    for warning in &imported.warnings {
        eprintln!("selvedge: {}: warning: {warning}", file.display());
    }
    if !imported.losses.is_empty() && !partial {
        return Err(Failure::failed(format!(
            "nothing is imported: {} of {} cannot be taken over; --partial takes over the rest",
            imported.losses.len(),
            file.display()
        )));
    }
    if imported.fabric.ports.is_empty() || imported.fabric.subsystems.is_empty() {
        return Err(Failure::failed(format!("{} has nothing that can be served", file.display())));
    }
    let text = target_dump::write(&imported.fabric)?;
    if let Some(path) = output {
        write(path, &text, *force)?;
    }
    match (output_format, output) {
        (OutputFormat::Normal, None) => report::print_exactly(text),
        (OutputFormat::Normal, Some(_)) => Ok(()),
        (OutputFormat::Json, output) => report::print_json(&Told {
            output: output.as_deref(),
            losses: imported.losses.iter().map(ToString::to_string).collect(),
            warnings: imported.warnings.iter().map(ToString::to_string).collect(),
            config: &imported.fabric,
        }),
    }
}

/// For programs.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told<'a> {
    /// The file that was written.
    output: Option<&'a Path>,
    /// What could not be taken over.
    losses: Vec<String>,
    warnings: Vec<String>,
    /// The configuration, as `config check -o json` prints it.
    config: &'a FabricConfig,
}

fn read(path: &Path) -> Result<String, Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::usage(format!("{} cannot be read: {error}", path.display()));
    let mut bytes = Vec::new();
    // A pipe says nothing of its length beforehand.
    File::open(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong(&"it is too large to be a saved configuration"));
    }
    String::from_utf8(bytes).map_err(|error| wrong(&error))
}

/// Writes the file. One that is there already may have been changed by hand since, and is left as it is unless
/// `force` says otherwise.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let options = if force { options.create(true).truncate(true) } else { options.create_new(true) };
    let written = options.write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::failed(format!("{} is there already: --force replaces it", path.display()))
        }
        _ => Failure::failed(format!("{} cannot be written: {error}", path.display())),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_there_is_replaced_by_force_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target.toml");
        write(&path, "first, and longer", false).unwrap();
        let refusal = write(&path, "second", false).unwrap_err();
        assert!(refusal.line().unwrap().contains("--force"), "{refusal:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "first, and longer");
        write(&path, "second", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    }

    #[test]
    fn what_cannot_be_taken_over_is_left_out_only_if_asked() {
        let folder = tempfile::tempdir().unwrap();
        let (file, target) = (folder.path().join("nvmet.json"), folder.path().join("target.toml"));
        let port = |id: u16, kind: &str| {
            format!(
                r#"{{"portid": {id}, "addr": {{"trtype": "{kind}", "traddr": "127.0.0.{id}", "trsvcid": "4420"}}, "subsystems": ["nqn.nvmet:a"]}}"#
            )
        };
        let saved = format!(
            r#"{{"ports": [{}, {}], "subsystems": [{{"nqn": "nqn.nvmet:a", "attr": {{"allow_any_host": "1"}}}}]}}"#,
            port(1, "tcp"),
            port(2, "rdma")
        );
        fs::write(&file, saved).unwrap();
        let import = |partial| {
            run(&ImportSource::Nvmet {
                file: file.clone(),
                partial,
                output: Some(target.clone()),
                force: false,
                output_format: OutputFormat::Normal,
            })
        };
        assert!(matches!(import(false), Err(Failure::Failed(_))));
        assert!(!target.exists());
        import(true).unwrap();
        let text = fs::read_to_string(&target).unwrap();
        assert!(text.contains("127.0.0.1") && !text.contains("127.0.0.2"), "{text}");
    }
}
