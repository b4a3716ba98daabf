//! The `install` suite: the packages are made, checked by programs of others, and installed in whole Debian guests. It keeps
//! out what is checked inside a guest, which lab/job-install.sh says.

use std::path::{Path, PathBuf};

use crate::command::Step;
use crate::guest::{Scratch, fault};
use crate::suite::{Fault, Options, Outcome};
use crate::{dashboard, dist, workspace};

/// The Debians that the packages are for. Under CI, which has an hour for all suites, the commit says which of them is tried.
const SUITES: [&str; 2] = ["bookworm", "trixie"];
const BUILD_LIMIT_S: u64 = 900;
/// Several boots on an emulated processor, on a machine with other work.
const GUEST_LIMIT_S: u64 = 1500;
/// Most bytes of a layer in a registry, without Ceph's libraries.
const IMAGE_BYTES_MAX: u64 = 25 << 20;
/// An upgrade needs something to come from.
const VERSION_BEFORE: &str = "0.0.9";
/// Packages of the library, by their names in Debian.
const LIBRARY: [&str; 2] = ["libselvedge0", "libselvedge-dev"];

/// The packages themselves, and each Debian in which they are installed.
pub(crate) fn jobs() -> Vec<String> {
    ["packages"].into_iter().chain(SUITES).map(str::to_owned).collect()
}

/// Makes the packages, and runs a job with them.
pub(crate) fn run(options: &Options, job: &str) -> Outcome {
    let prepare = || {
        let work = workspace::target_dir();
        dist::make(&workspace::root(), &work, &["--quick", "--earlier", VERSION_BEFORE])?;
        Ok((work.join("dist"), Scratch::new(&format!("install-{job}"), options.keep)?))
    };
    let tried = prepare().and_then(|(made, scratch): (PathBuf, Scratch)| match job {
        "packages" => Ok(packages(&made, &scratch.path)?),
        debian => install(&made, &scratch.path, debian).map(|()| String::new()),
    });
    tried.into()
}

/// Verdicts of other projects' programs on the packages.
fn packages(made: &Path, scratch: &Path) -> Result<String, String> {
    let alerts = workspace::root().join("packaging/prometheus");
    passes("promtool", &["check", "rules", "--lint-fatal", "selvedge.rules.yaml"], &alerts)?;
    passes("promtool", &["test", "rules", "selvedge.rules.test.yaml"], &alerts)?;
    dashboard_parses(scratch)?;
    passes("sha256sum", &["--check", "--quiet", "--strict", "SHA256SUMS"], made)?;
    // Together, since the library's link for compilers is in another package than the library.
    let debs: Vec<String> =
        files(made, ".deb")?.iter().map(|package| package.display().to_string()).collect();
    let words =
        ["--allow-root", "--fail-on", "error,warning"].into_iter().chain(debs.iter().map(String::as_str));
    passes("lintian", &words.collect::<Vec<_>>(), made)?;
    for package in files(made, ".rpm")? {
        passes("rpm", &["--query", "--list", "--package", &package.display().to_string()], made)?;
    }
    let image = one(made, "-oci.tar")?;
    let bytes = std::fs::metadata(&image).map_err(|error| format!("{}: {error}", image.display()))?.len();
    if bytes > IMAGE_BYTES_MAX {
        return Err(format!("the container image has {bytes} bytes, and {IMAGE_BYTES_MAX} are the limit"));
    }
    run_in_an_empty_root(&one(made, "-x86_64-linux.tar.gz")?, scratch)?;
    Ok(format!("lintian, image of {:.1} MiB", bytes as f64 / f64::from(1 << 20)))
}

/// Prometheus parses each expression of the dashboard.
fn dashboard_parses(scratch: &Path) -> Result<(), String> {
    let source = workspace::root().join("packaging/grafana/selvedge.json");
    let said = |error: std::io::Error| format!("{}: {error}", source.display());
    let text = std::fs::read_to_string(&source).map_err(said)?;
    let rules = dashboard::rules(&text).map_err(|reason| format!("{}: {reason}", source.display()))?;
    std::fs::write(scratch.join("dashboard.yaml"), rules).map_err(said)?;
    passes("promtool", &["check", "rules", "--lint-fatal", "dashboard.yaml"], scratch)
}

/// Installs, upgrades and purges them in a guest.
fn install(made: &Path, scratch: &Path, debian: &str) -> Result<(), Fault> {
    let (now, former) = (scratch.join("now.deb"), scratch.join("before.deb"));
    copy(&one_named(made, "selvedge_", ".deb")?, &now)?;
    copy(&one_named(&made.join("earlier"), "selvedge_", ".deb")?, &former)?;
    let mut files = vec![now, former, program_in_c(made, scratch)?];
    for name in LIBRARY {
        let package = scratch.join(format!("{name}.deb"));
        copy(&one_named(made, &format!("{name}_"), ".deb")?, &package)?;
        files.push(package);
    }
    in_guest(debian, &files)
}

/// A program that is compiled with nothing but the packages of the library.
fn program_in_c(made: &Path, scratch: &Path) -> Result<PathBuf, String> {
    let (root, program) = (scratch.join("library"), scratch.join("read-block"));
    let folder = root.display().to_string();
    for name in LIBRARY {
        let package = one_named(made, &format!("{name}_"), ".deb")?.display().to_string();
        passes("dpkg-deb", &["--extract", &package, &folder], scratch)?;
    }
    let compile = "cc -Wall -Werror \"$1\" $(pkg-config --cflags --libs selvedge) -o \"$2\"";
    let source = workspace::root().join("lab/read-block.c").display().to_string();
    let step = Step::new("sh", &["-ec", compile, "sh", &source, &program.display().to_string()])
        .env("PKG_CONFIG_SYSROOT_DIR", &folder)
        .env("PKG_CONFIG_LIBDIR", &format!("{folder}/usr/lib/x86_64-linux-gnu/pkgconfig"));
    if step.run().passed {
        Ok(program)
    } else {
        Err("no program can be compiled with the library".to_owned())
    }
}

/// The static program needs nothing of the machine, not even the folder of devices.
fn run_in_an_empty_root(tarball: &Path, scratch: &Path) -> Result<(), String> {
    let root = scratch.join("empty");
    std::fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let (tarball, folder) = (tarball.display().to_string(), root.display().to_string());
    passes("tar", &["-xzf", &tarball, "-C", &folder, "--strip-components=1"], scratch)?;
    passes("chroot", &[&folder, "/bin/selvedge", "--version"], scratch)?;
    let shown =
        Step::new("chroot", &[&folder, "/bin/selvedge", "serve", "-s", "0", "--namespace", "rbd:a/b"]);
    // It says so at once, and goes on without the image: it is ended.
    let shown = shown.limit_s(15).run_quietly();
    if shown.passed || !shown.output.contains("install the deb or rpm package") {
        return Err(format!("the static program says of Ceph: {}", shown.output.trim()));
    }
    Ok(())
}

fn in_guest(suite: &str, files: &[PathBuf]) -> Result<(), Fault> {
    let script = workspace::root().join("lab/installed-guest.sh").display().to_string();
    let build = Step::new(&script, &["build", suite]).limit_s(BUILD_LIMIT_S).run();
    if !build.passed {
        return Err(Fault::Laboratory("the guest was not built".to_owned()));
    }
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let words = ["run", suite, "install"].into_iter().chain(files.iter().map(String::as_str));
    let job = Step::new(&script, &words.collect::<Vec<_>>()).limit_s(GUEST_LIMIT_S).run();
    for line in job.output.lines().filter(|line| line.starts_with("checks: ") || line.starts_with("figure: "))
    {
        println!("  {line}");
    }
    if job.passed { Ok(()) } else { Err(fault(&job.output)) }
}

fn passes(program: &str, args: &[&str], folder: &Path) -> Result<(), String> {
    let folder = folder.display().to_string();
    let line: Vec<&str> = ["-C", &folder, program].into_iter().chain(args.iter().copied()).collect();
    let step = Step::new("env", &line).run();
    if step.passed { Ok(()) } else { Err(format!("{program} finds faults")) }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

fn one(folder: &Path, end: &str) -> Result<PathBuf, String> {
    one_named(folder, "selvedge", end)
}

fn one_named(folder: &Path, beginning: &str, end: &str) -> Result<PathBuf, String> {
    let is_it =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning));
    let found = files(folder, end)?.into_iter().find(is_it);
    found.ok_or_else(|| format!("{} has no {beginning}*{end}", folder.display()))
}

fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>, String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(said)? {
        let path = entry.map_err(said)?.path();
        if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
