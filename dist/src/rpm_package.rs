//! Packages for Fedora, RHEL, openSUSE and what is made from them.

use std::path::{Path, PathBuf};

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use crate::archive;
use crate::checksums::put;
use crate::contents::{Contents, Kind};
use crate::library;
use crate::licences::ThirdParty;
use crate::program::Program;
use crate::release::Release;

const GZIP_LEVEL: u32 = 9;
const LIBRARY: &str = "selvedge-libs";
const DEVELOPMENT: &str = "selvedge-devel";
const LIBRARIES: &str = "usr/lib64";
/// For systems whose libraries do not enter the linker's cache by themselves.
const LDCONFIG: &str = "/sbin/ldconfig";

/// Writes it, and gives its path.
pub(crate) fn write(
    release: &Release,
    program: &Program,
    contents: &Contents,
    output: &Path,
) -> Result<PathBuf, String> {
    let summary = "NVMe over TCP in userspace: target, host, tuner and benchmark";
    let mut package = begun(release, "selvedge", summary)?;
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
    finished(release, "selvedge", package.build(), output)
}

/// The library, and what programs are compiled with, as `deb` has them.
pub(crate) fn write_library(
    release: &Release,
    library: &Program,
    licences: &ThirdParty,
    output: &Path,
) -> Result<[PathBuf; 2], String> {
    let mut contents = library::runtime(release, library, LIBRARIES)?;
    let folder = format!("usr/share/doc/{LIBRARY}");
    contents.file(&format!("{folder}/THIRD-PARTY.gz"), 0o644, archive::gzip(licences.text.as_bytes())?);
    contents.file(&format!("{folder}/LICENSE-MIT"), 0o644, release.file("LICENSE-MIT")?);
    contents.file(&format!("{folder}/LICENSE-APACHE"), 0o644, release.file("LICENSE-APACHE")?);
    let mut package = begun(release, LIBRARY, "NVMe over TCP from userspace: shared library")?;
    package.description(
        "Programs use namespaces of any NVMe/TCP target by this library, over several\n\
         paths, without root and without a kernel driver.",
    );
    add(&mut package, &contents).map_err(|error| error.to_string())?;
    for need in needs(library) {
        package.requires(need);
    }
    package.provides(Dependency::any(format!("{}()(64bit)", library::SONAME)));
    package.post_install_script(LDCONFIG.to_owned());
    package.post_uninstall_script(LDCONFIG.to_owned());
    let runtime = finished(release, LIBRARY, package.build(), output)?;

    let folder = format!("usr/share/doc/{DEVELOPMENT}");
    let contents = library::development(release, LIBRARIES, &folder)?;
    let mut package = begun(release, DEVELOPMENT, "NVMe over TCP from userspace: header and examples")?;
    package.description(
        "Programs in C are compiled with this header, by pkg-config for example. An\n\
         example in Python and the source of an engine for fio are among the documents.",
    );
    add(&mut package, &contents).map_err(|error| error.to_string())?;
    package.requires(Dependency::eq(LIBRARY, format!("{}-{}", release.version, release.revision)));
    Ok([runtime, finished(release, DEVELOPMENT, package.build(), output)?])
}

/// A package with everything but description, dependencies and files.
fn begun(release: &Release, name: &str, summary: &str) -> Result<PackageBuilder, String> {
    let date = u32::try_from(release.date).map_err(|_| "the commit's date is too late for RPM")?;
    let config = BuildConfig::v4().source_date(date).compression(CompressionWithLevel::Gzip(GZIP_LEVEL));
    let mut package = PackageBuilder::new(name, &release.version, "MIT OR Apache-2.0", "x86_64", summary);
    package.using_config(config).release(release.revision).url("https://github.com/selvedge/selvedge");
    package.build_host("reproducible").cookie("selvedge").vendor("Selvedge developers");
    Ok(package)
}

fn finished(
    release: &Release,
    name: &str,
    built: Result<rpm::Package, rpm::Error>,
    output: &Path,
) -> Result<PathBuf, String> {
    let built = built.map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    built.write(&mut bytes).map_err(|error| error.to_string())?;
    put(&output.join(format!("{name}-{}-{}.x86_64.rpm", release.version, release.revision)), &bytes)
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
            Kind::Link(to) => {
                package.with_symlink(FileOptions::symlink(path, to))?;
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
