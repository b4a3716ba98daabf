//! Which version is packaged: its number, its commit and its date, which every time stamp in a package is.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run;

/// Common properties of all packages of one run.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) version: String,
    /// Of the packaging itself, as Debian and RPM count it.
    pub(crate) revision: &'static str,
    pub(crate) commit: String,
    /// Seconds since 1970, the same wherever and whenever this commit is packaged.
    pub(crate) date: u64,
    pub(crate) root: PathBuf,
}

impl Release {
    /// Reads it from the checkout in `root`. `SOURCE_DATE_EPOCH` and `SELVEDGE_COMMIT` stand in where there is no git.
    pub(crate) fn find(root: &Path) -> Result<Self, String> {
        let manifest = read(&root.join("Cargo.toml"))?;
        let version = manifest
            .lines()
            .skip_while(|line| *line != "[workspace.package]")
            .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
            .ok_or("Cargo.toml has no version in [workspace.package]")?;
        let version = checked(version)?;
        let commit = match std::env::var("SELVEDGE_COMMIT") {
            Ok(commit) => commit,
            Err(_) => git(root, &["rev-parse", "HEAD"])?,
        };
        let date = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(date) => date,
            Err(_) => git(root, &["log", "-1", "--format=%ct"])?,
        };
        let date = date.parse().map_err(|_| format!("`{date}` is not a number of seconds since 1970"))?;
        Ok(Self { version, revision: "1", commit, date, root: root.to_path_buf() })
    }

    /// The same under another version.
    pub(crate) fn with_version(&self, version: &str) -> Result<Self, String> {
        Ok(Self { version: checked(version)?, ..self.clone() })
    }

    /// The date as RFC 3339 has it.
    pub(crate) fn date_rfc3339(&self) -> Result<String, String> {
        self.formatted("%Y-%m-%dT%H:%M:%SZ")
    }

    /// The date as `date` formats it, in UTC and in English.
    pub(crate) fn formatted(&self, format: &str) -> Result<String, String> {
        let mut date = Command::new("date");
        date.env("LC_ALL", "C").args(["--utc", &format!("--date=@{}", self.date), &format!("+{format}")]);
        Ok(run::output(&mut date)?.trim().to_owned())
    }

    /// A file of the checkout.
    pub(crate) fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        let path = self.root.join(path);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The version, where packages of each kind can have it.
fn checked(version: &str) -> Result<String, String> {
    if version.is_empty() || !version.chars().all(|c| c.is_ascii_alphanumeric() || ".+~".contains(c)) {
        return Err(format!("`{version}` is not a version: letters, digits and . + ~"));
    }
    Ok(version.to_owned())
}

fn git(root: &Path, args: &[&str]) -> Result<String, String> {
    // A checkout may belong to another user than the one who packages it, in a container for example.
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["-c", "safe.directory=*"]).args(args);
    let said = run::output(&mut git).map_err(|reason| {
        format!("{reason}; where the sources are not in git, set SELVEDGE_COMMIT and SOURCE_DATE_EPOCH")
    })?;
    Ok(said.trim().to_owned())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
