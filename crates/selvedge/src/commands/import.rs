//! `selvedge import`: another target's configuration as a target.toml, and what of it cannot be taken over.

mod ceph_nvmeof;

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use engine::target::FabricConfig;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::{nvmet, target_dump};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::import::{ImportResultFlags, ImportSource};
use crate::report;

/// Bytes of a saved configuration: far more than a kernel has subsystems for.
const BYTES_MAX: u64 = 64 << 20;

/// Does what was typed.
pub(super) fn run(source: &ImportSource) -> Result<(), Failure> {
    match source {
        ImportSource::Nvmet { file, result } => {
            let place = file.display().to_string();
            let read =
                nvmet::read(&read(file)?).map_err(|what| Failure::usage(format!("{place}: {what}")))?;
            let found = Found::new(place, read.fabric, &read.losses, &read.warnings);
            found.checked(result)?.finish(result)
        }
        ImportSource::CephNvmeof(flags) => ceph_nvmeof::run(flags),
    }
}

/// Imported configuration, with warnings.
struct Found {
    /// Source of the configuration.
    place: String,
    fabric: FabricConfig,
    /// Files of secrets that were written for it.
    secret_files: Vec<PathBuf>,
    losses: Vec<String>,
    warnings: Vec<String>,
}

impl Found {
    fn new(place: String, fabric: FabricConfig, losses: &[impl Display], warnings: &[impl Display]) -> Self {
        let losses = losses.iter().map(ToString::to_string).collect();
        let warnings = warnings.iter().map(ToString::to_string).collect();
        Self { place, fabric, secret_files: Vec::new(), losses, warnings }
    }

    /// Prints unsupported settings; fails unless the others are wanted and can be written.
    fn checked(self, flags: &ImportResultFlags) -> Result<Self, Failure> {
        let Self { place, losses, warnings, .. } = &self;
        for loss in losses {
            eprintln!("selvedge: {place}: {loss}");
        }
        for warning in warnings {
            eprintln!("selvedge: {place}: warning: {warning}");
        }
        if !losses.is_empty() && !flags.partial {
            let count = losses.len();
            return Err(Failure::failed(format!(
                "nothing is imported: unsupported settings in {place}: {count}; --partial imports the rest"
            )));
        }
        if self.fabric.ports.is_empty() || self.fabric.subsystems.is_empty() {
            return Err(Failure::failed(format!("{place} has no supported settings")));
        }
        Ok(self)
    }

    fn finish(&self, flags: &ImportResultFlags) -> Result<(), Failure> {
        let text = target_dump::write(&self.fabric)?;
        if let Some(path) = &flags.output {
            write(path, &text, flags.force)?;
        }
        match (flags.output_format, &flags.output) {
            (OutputFormat::Normal, None) => report::print_exactly(text),
            (OutputFormat::Normal, Some(_)) => Ok(()),
            (OutputFormat::Json, output) => report::print_json(&Imported {
                output: output.as_deref(),
                secret_files: &self.secret_files,
                losses: &self.losses,
                warnings: &self.warnings,
                config: &self.fabric,
            }),
        }
    }
}

/// For programs.
#[derive(Serialize, JsonSchema)]
pub(super) struct Imported<'a> {
    /// The file that was written.
    output: Option<&'a Path>,
    /// The files of secrets that the configuration names, which were written as well.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    secret_files: &'a [PathBuf],
    /// Settings that are not supported.
    losses: &'a [String],
    warnings: &'a [String],
    /// The configuration, as `config check -o json` prints it.
    config: &'a FabricConfig,
}

fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |error: &dyn Display| Failure::usage(format!("{} cannot be read: {error}", path.display()));
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

/// Writes the file. One that already exists may have been changed by hand since, and is left as it is unless
/// `force` says otherwise.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let options = if force { options.create(true).truncate(true) } else { options.create_new(true) };
    let written = options.write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => is_there(path),
        _ => Failure::failed(format!("{} cannot be written: {error}", path.display())),
    })
}

fn is_there(path: &Path) -> Failure {
    Failure::failed(format!("{} already exists: --force replaces it", path.display()))
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
                result: ImportResultFlags {
                    partial,
                    output: Some(target.clone()),
                    force: false,
                    output_format: OutputFormat::Normal,
                },
            })
        };
        assert!(matches!(import(false), Err(Failure::Failed(_))));
        assert!(!target.exists());
        import(true).unwrap();
        let text = fs::read_to_string(&target).unwrap();
        assert!(text.contains("127.0.0.1") && !text.contains("127.0.0.2"), "{text}");
    }
}
