//! The program itself: built from vendored sources without a network, the same bytes in every folder, its debug
//! information apart.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::release::Release;
use crate::run;

/// The only machine that packages are made for where no other standard library is installed.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Packages that are optimized in a quick build, too: the data path, and code that is not safe by
/// itself.
const QUICK_AS_DELIVERED: [&str; 2] = ["selvedge-engine", "selvedge-nvme"];
/// Packages that are not optimized in a quick build: optimizing them takes longer than the tests.
const QUICK_AS_WRITTEN: [&str; 4] = ["selvedge", "lab", "chart", "selvedge-topology"];

/// Linkage of the C library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// The machine's own, as every package of a distribution does.
    Dynamic,
    /// Inside, so that nothing is needed of the machine. Ceph's libraries cannot be loaded then.
    Static,
}

/// A program or shared library without its debug information, and where that is.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) debug: PathBuf,
    /// Identifier that joins the two, in hexadecimal.
    pub(crate) build_id: String,
    /// The libraries it is linked with, by file name.
    pub(crate) libraries: BTreeSet<String>,
    /// The newest version of the C library's symbols that it needs, such as (2, 34).
    pub(crate) libc: (u32, u32),
}

/// Builds programs of one checkout.
pub(crate) struct Builder<'a> {
    root: &'a Path,
    work: PathBuf,
    release: &'a Release,
    is_quick: bool,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(root: &'a Path, work: &Path, release: &'a Release, is_quick: bool) -> Self {
        Self { root, work: work.join("dist-work"), release, is_quick }
    }

    /// Folder of all crates' sources.
    pub(crate) fn vendored(&self) -> PathBuf {
        self.work.join("vendor")
    }

    /// Puts the sources of all crates into one folder. Only this step may use the network.
    pub(crate) fn vendor(&self) -> Result<(), String> {
        let (folder, stamp) = (self.vendored(), self.work.join("vendored.lock"));
        let lock = self.release.file("Cargo.lock")?;
        // Each suite asks for its programs.
        if folder.exists() && std::fs::read(&stamp).is_ok_and(|vendored| vendored == lock) {
            return Ok(());
        }
        // Crates of another lock file would appear in the licences.
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut cargo = self.cargo();
        cargo.args(["vendor", "--locked", "--versioned-dirs", "--quiet"]).arg(&folder);
        run::output(&mut cargo)?;
        std::fs::write(&stamp, lock).map_err(|error| format!("{}: {error}", stamp.display()))
    }

    /// A cargo that finds nothing but what was vendored.
    pub(crate) fn offline_cargo(&self, command: &str) -> Command {
        let mut cargo = self.cargo();
        let folder = self.vendored();
        cargo.arg(command).arg("--frozen").args(["--config", "source.crates-io.replace-with='vendored'"]);
        cargo.args(["--config", &format!("source.vendored.directory='{}'", folder.display())]);
        cargo
    }

    /// Builds the program, and takes its debug information out.
    pub(crate) fn build(&self, linkage: Linkage) -> Result<Program, String> {
        // How the C library gets in is the linker's business, which the program alone meets: all crates are shared.
        let (name, words): (&str, &[&str]) = match linkage {
            Linkage::Dynamic => ("dynamic", &[]),
            Linkage::Static => ("static", &["--bin", "selvedge", "--", "-Ctarget-feature=+crt-static"]),
        };
        let built = self.cargo_build("selvedge", words)?.join("selvedge");
        self.strip(&built, name)
    }

    /// Builds the library for C in the same way, as a shared library alone: as a crate, too, it would not be optimized as a whole.
    pub(crate) fn build_library(&self) -> Result<Program, String> {
        let built = self.cargo_build("c_library", &["--lib", "--crate-type", "cdylib"])?;
        self.strip(&built.join("libc_library.so"), "library")
    }

    /// Builds a package, with these words for `cargo rustc`, and gives the folder that it is in until the next build.
    fn cargo_build(&self, package: &str, words: &[&str]) -> Result<PathBuf, String> {
        let output = self.work.join("target");
        let mut cargo = self.offline_cargo(if words.is_empty() { "build" } else { "rustc" });
        cargo.args(["--profile", "dist", "--target", TARGET, "--quiet"]).arg("--target-dir").arg(&output);
        if self.is_quick {
            // Each program would be optimized as a whole, for minutes.
            cargo.env("CARGO_PROFILE_DIST_LTO", "off").env("CARGO_PROFILE_DIST_OPT_LEVEL", "1");
            for package in QUICK_AS_DELIVERED {
                cargo.args(["--config", &format!("profile.dist.package.{package}.opt-level=3")]);
            }
            for package in QUICK_AS_WRITTEN {
                cargo.args(["--config", &format!("profile.dist.package.{package}.opt-level=0")]);
            }
        }
        cargo.args(["--package", package]).args(words);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", self.flags().join("\u{1f}"));
        cargo.env("SELVEDGE_COMMIT", &self.release.commit).env("CARGO_INCREMENTAL", "0");
        run::shown(&mut cargo)?;
        Ok(output.join(TARGET).join("dist"))
    }

    fn flags(&self) -> [String; 5] {
        let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
        [
            remap(self.root, "/selvedge"),
            remap(&self.work, "/selvedge/target"),
            remap(&self.vendored(), "/crates"),
            // The linker of some systems leaves it out.
            "-Clink-arg=-Wl,--build-id=sha1".to_owned(),
            // Random numbers by a system call: a static program does not find its C library's function for them, and opens a
            // device instead that a root folder of its own does not have.
            "--cfg=getrandom_backend=\"linux_getrandom\"".to_owned(),
        ]
    }

    fn strip(&self, built: &Path, name: &str) -> Result<Program, String> {
        let folder = self.work.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (path, debug) = (folder.join("selvedge"), folder.join("selvedge.debug"));
        let objcopy = || Command::new("objcopy");
        let apart = ["--only-keep-debug", "--compress-debug-sections=zlib"];
        run::output(objcopy().args(apart).arg(built).arg(&debug))?;
        run::output(objcopy().arg("--strip-all").arg(built).arg(&path))?;
        let notes = run::output(Command::new("readelf").args(["--notes", "--wide"]).arg(built))?;
        let build_id = notes.lines().find_map(|line| line.split_once("Build ID: "));
        let build_id = build_id.ok_or("the program has no build ID")?.1.trim().to_owned();
        let dynamic = run::output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(built))?;
        let libraries = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
        let libraries =
            libraries.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()));
        let versions = run::output(Command::new("readelf").args(["--version-info", "--wide"]).arg(built))?;
        Ok(Program { path, debug, build_id, libraries: libraries.collect(), libc: newest_libc(&versions) })
    }

    /// Man pages, completions and references, as the program itself writes them.
    pub(crate) fn generate(&self, program: &Program) -> Result<PathBuf, String> {
        let folder = self.work.join("generated");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        run::output(Command::new(&program.path).args(["generate", "--output"]).arg(&folder))?;
        Ok(folder)
    }

    fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut cargo = Command::new(cargo);
        cargo.current_dir(self.root).env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
        cargo
    }
}

/// The newest GLIBC_x.y among the versions that a program asks for.
fn newest_libc(versions: &str) -> (u32, u32) {
    let named = versions.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut parts = rest[..end].split('.').map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
            _ => None,
        }
    });
    named.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::newest_libc;

    #[test]
    fn the_newest_version_counts_by_numbers() {
        let said = "  0x0020: Name: GLIBC_2.9  Flags: none\n  0x0030: Name: GLIBC_2.34  Flags: WEAK\n Name: GLIBC_2.2.5";
        assert_eq!(newest_libc(said), (2, 34));
        assert_eq!(newest_libc("nothing"), (0, 0));
    }
}
