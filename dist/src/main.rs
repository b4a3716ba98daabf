//! Makes the packages: `cargo xtask dist` builds and starts this. It reads its command line and names the steps in their
//! order; each step has a file of its own.

mod archive;
mod checksums;
mod contents;
mod deb;
mod image;
mod library;
mod licences;
mod materials;
mod program;
mod release;
mod rpm_package;
mod run;
mod tarball;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use contents::{Contents, Purpose};
use licences::ThirdParty;
use materials::Materials;
use program::{Builder, Linkage};
use release::Release;

const HELP: &str = "\
cargo xtask dist [--output DIR] [--earlier VERSION] [--quick] [--twice]

Makes deb and rpm of program and C library, static tarball, container image, bill of materials and checksums in DIR
(target/dist without it), from the commit that is checked out. It vendors the sources of all crates first, and builds
without a network from there on.
--earlier makes in DIR/earlier, too, the deb of the same program with an earlier version, to try an upgrade. --quick
optimizes no more than the data path, and nothing across crates, which takes most of the time: for the suites.
--twice makes everything again in a second folder and compares.";

/// Arguments of the command line.
struct Wanted {
    root: PathBuf,
    work: PathBuf,
    output: PathBuf,
    earlier: Option<String>,
    is_quick: bool,
}

fn main() -> ExitCode {
    let wanted = match wanted(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(problem) => {
            eprintln!("dist: {problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match make(&wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("dist: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn wanted(mut args: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let (mut root, mut work, mut output, mut earlier) = (None, None, None, None);
    let mut is_quick = false;
    while let Some(name) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--root" => root = Some(PathBuf::from(value()?)),
            "--work" => work = Some(PathBuf::from(value()?)),
            "--output" => output = Some(PathBuf::from(value()?)),
            "--earlier" => earlier = Some(value()?),
            "--quick" => is_quick = true,
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    let root = root.ok_or("--root is missing")?;
    let work = work.ok_or("--work is missing")?;
    let output = output.unwrap_or_else(|| work.join("dist"));
    Ok(Wanted { root, work, output, earlier, is_quick })
}

fn make(wanted: &Wanted) -> Result<(), String> {
    let release = Release::find(&wanted.root)?;
    println!("selvedge {}, commit {}", release.version, release.commit);
    let builder = Builder::new(&wanted.root, &wanted.work, &release, wanted.is_quick);
    step("vendor the crates", || builder.vendor())?;
    let dynamic = step("build for deb and rpm", || builder.build(Linkage::Dynamic))?;
    let fixed = step("build for tarball and image", || builder.build(Linkage::Static))?;
    let library = step("build the library for C", || builder.build_library())?;
    let materials = step("list what is in it", || Materials::collect(&builder))?;
    let licences = ThirdParty::collect(&materials)?;
    let generated = builder.generate(&dynamic)?;
    let packaged = Contents::collect(&release, &dynamic, &generated, &licences, Purpose::Package)?;
    let unpacked = Contents::collect(&release, &fixed, &generated, &licences, Purpose::Tarball)?;

    let output = &wanted.output;
    make_folder(output)?;
    if let Some(version) = &wanted.earlier {
        let (earlier, folder) = (release.with_version(version)?, output.join("earlier"));
        make_folder(&folder)?;
        step("deb of the earlier version", || deb::write(&earlier, &dynamic, &packaged, &folder))?;
    }
    let debs = step("debs of the library", || deb::write_library(&release, &library, &licences, output))?;
    let rpms =
        step("rpms of the library", || rpm_package::write_library(&release, &library, &licences, output))?;
    let mut made = vec![
        step("deb", || deb::write(&release, &dynamic, &packaged, output))?,
        step("deb of debug information", || deb::write_debug(&release, "selvedge", &dynamic, output))?,
        step("deb of the library's debug information", || {
            deb::write_debug(&release, deb::LIBRARY, &library, output)
        })?,
        step("rpm", || rpm_package::write(&release, &dynamic, &packaged, output))?,
        step("tarball", || tarball::write(&release, &unpacked, output))?,
        step("debug information of the tarball", || tarball::write_debug(&release, &fixed, output))?,
        step("container image", || image::write(&release, &fixed, &licences, output))?,
        materials.write(&release, output)?,
    ];
    made.extend(debs.into_iter().chain(rpms));
    checksums::write(&made, output)?;
    for file in &made {
        let size = std::fs::metadata(file).map_or(0, |data| data.len());
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        println!("{:>8.1} MiB  {name}", size as f64 / f64::from(1 << 20));
    }
    println!("in {}", output.display());
    Ok(())
}

fn make_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Says what is done, and how long it took.
fn step<T>(name: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let started = Instant::now();
    println!("- {name}");
    let result = work().map_err(|reason| format!("{name}: {reason}"))?;
    println!("  {:.1} s", started.elapsed().as_secs_f64());
    Ok(result)
}
