//! Packages for Fedora, RHEL, openSUSE and what is made from them.

use std::path::{Path, PathBuf};

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use crate::checksums::put;
use crate::contents::{Contents, Kind};
use crate::program::Program;
use crate::release::Release;

const GZIP_LEVEL: u32 = 9;

/// Writes it, and gives its path.
pub(crate) fn write(
    release: &Release,
    program: &Program,
    contents: &Contents,
    output: &Path,
) -> Result<PathBuf, String> {
    let date = u32::try_from(release.date).map_err(|_| "the commit's date is too late for RPM")?;
    let config = BuildConfig::v4().source_date(date).compression(CompressionWithLevel::Gzip(GZIP_LEVEL));
    let summary = "NVMe over TCP in userspace: target, host, tuner and benchmark";
    let mut package =
        PackageBuilder::new("selvedge", &release.version, "MIT OR Apache-2.0", "x86_64", summary);
    package.using_config(config).release(release.revision).url("https://github.com/selvedge/selvedge");
    package.build_host("reproducible").cookie("selvedge").vendor("Selvedge developers");
    package.description(
        // 79 columns at most, as rpmlint asks.
        "Selvedge serves files, block devices, memory and images of a Ceph cluster to\n\
         NVMe/TCP hosts, alone or as a group of gateways. It needs no kernel module, no\n\
         huge pages and no root, and costs nothing while it is idle. The same program\n\
         is an NVMe/TCP host, a benchmark and a tuner.",
    );
    add(&mut package, contents).map_err(|error| error.to_string())?;
    for need in needs(program) {
        package.requires(need);
    }
    package.suggests(Dependency::any("librbd1")).suggests(Dependency::any("nvme-cli"));
    let script = |name: &str| {
        let text = release.file(&format!("packaging/rpm/{name}"))?;
        String::from_utf8(text).map_err(|_| format!("packaging/rpm/{name} is not text"))
    };
    package.post_install_script(script("post")?);
    package.pre_uninstall_script(script("preun")?);
    package.post_uninstall_script(script("postun")?);

    let built = package.build().map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    built.write(&mut bytes).map_err(|error| error.to_string())?;
    put(&output.join(format!("selvedge-{}-{}.x86_64.rpm", release.version, release.revision)), &bytes)
}

/// Files, and the folders that are this package's alone.
fn add(package: &mut PackageBuilder, contents: &Contents) -> Result<(), rpm::Error> {
    for entry in contents.entries() {
        let path = rpm_path(&entry.path);
        let mode = u16::try_from(entry.mode).unwrap_or(0o644);
        match &entry.kind {
            Kind::Folder => {
                if entry.path.contains("selvedge") {
                    package.with_dir_entry(FileOptions::dir(path).permissions(mode))?;
                }
            }
            Kind::File(bytes) => {
                let mut options = FileOptions::new(&path).permissions(mode);
                if entry.is_configuration {
                    options = options.config().noreplace();
                } else if path.starts_with("/usr/share/doc/") || path.starts_with("/usr/share/man/") {
                    options = options.doc();
                }
                package.with_file_contents(bytes.clone(), options)?;
            }
        }
    }
    Ok(())
}

/// Path in RPM's distributions for a path in Debian.
fn rpm_path(path: &str) -> String {
    let path = path.replace("usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions");
    format!("/{path}")
}

/// Dependencies of the program, in the form that RPM finds by itself in a program.
fn needs(program: &Program) -> Vec<Dependency> {
    let (major, minor) = program.libc;
    let mut needs = vec![Dependency::any(format!("libc.so.6(GLIBC_{major}.{minor})(64bit)"))];
    for library in
        program.libraries.iter().filter(|name| !name.starts_with("libc.") && !name.starts_with("ld-"))
    {
        needs.push(Dependency::any(format!("{library}()(64bit)")));
    }
    needs
}
