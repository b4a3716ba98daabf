//! Packages for Debian and what is made from it: an `ar` of two tars, laid down by deb(5) and Debian's policy.

use std::path::{Path, PathBuf};

use crate::archive;
use crate::checksums::put;
use crate::contents::{Contents, Entry, Kind};
use crate::library;
use crate::licences::ThirdParty;
use crate::program::Program;
use crate::release::Release;

const MAINTAINER: &str = "Selvedge developers <selvedge@users.noreply.github.com>";
const SECTION: &str = "admin";
/// Package of the library, whose number is that of its SONAME.
pub(crate) const LIBRARY: &str = "libselvedge0";
const DEVELOPMENT: &str = "libselvedge-dev";
/// Folder of libraries for one architecture, beside those for others.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Writes the package, and gives its path.
pub(crate) fn write(
    release: &Release,
    program: &Program,
    contents: &Contents,
    output: &Path,
) -> Result<PathBuf, String> {
    let mut data = Contents::default();
    for (entry, bytes) in contents.files() {
        // The changelog of a package whose version is upstream's and a revision.
        data.file(&entry.path, entry.mode, bytes.to_vec());
    }
    documents(release, "selvedge", &mut data)?;
    let depends = depends(program)?;
    let fields = format!(
        "Depends: {depends}\n\
         Suggests: librados2, librbd1, nvme-cli\n\
         Section: {SECTION}\nPriority: optional\n\
         Homepage: https://github.com/selvedge/selvedge\n\
         Description: NVMe over TCP in userspace: target, host, tuner and benchmark\n \
         Selvedge serves files, block devices, memory and images of a Ceph cluster to\n \
         NVMe/TCP hosts, alone or as a group of gateways. It needs no kernel module,\n \
         no huge pages and no root, and costs nothing while it is idle.\n .\n \
         The same program is an NVMe/TCP host over many queues and paths, a benchmark\n \
         that takes fio's options, and a tuner that steers each queue's packets to the\n \
         CPU of its worker thread.\n"
    );
    let scripts = ["postinst", "prerm", "postrm"];
    let scripts = scripts.map(|name| Ok((name, release.file(&format!("packaging/deb/{name}"))?)));
    let mut control = Contents::default();
    for script in scripts {
        let (name, text) = script.map_err(|reason: String| reason)?;
        control.file(name, 0o755, text);
    }
    control.file("conffiles", 0o644, conffiles(contents).into_bytes());
    package(release, "selvedge", &fields, control, &data, output)
}

/// The library, and what programs are compiled with: two packages, since those that use it depend on the first alone.
pub(crate) fn write_library(
    release: &Release,
    library: &Program,
    licences: &ThirdParty,
    output: &Path,
) -> Result<[PathBuf; 2], String> {
    let mut data = library::runtime(release, library, LIBRARIES)?;
    data.file(
        &format!("usr/share/doc/{LIBRARY}/THIRD-PARTY.gz"),
        0o644,
        archive::gzip(licences.text.as_bytes())?,
    );
    documents(release, LIBRARY, &mut data)?;
    let mut control = Contents::default();
    // Programs that are built with this version may call what it has added.
    let needed = format!("libselvedge 0 {LIBRARY} (>= {})\n", release.version);
    control.file("shlibs", 0o644, needed.into_bytes());
    control.file("triggers", 0o644, b"activate-noawait ldconfig\n".to_vec());
    let fields = format!(
        "Depends: {}\nSection: libs\nPriority: optional\nMulti-Arch: same\n\
         Homepage: https://github.com/selvedge/selvedge\n\
         Description: NVMe over TCP from userspace - shared library\n \
         Programs use namespaces of any NVMe/TCP target by this library, over several\n \
         paths, without root and without a kernel driver.\n",
        depends(library)?
    );
    let runtime = package(release, LIBRARY, &fields, control, &data, output)?;

    let folder = format!("usr/share/doc/{DEVELOPMENT}");
    let mut data = library::development(release, LIBRARIES, &folder)?;
    documents(release, DEVELOPMENT, &mut data)?;
    let fields = format!(
        "Depends: {LIBRARY} (= {})\nSuggests: pkgconf\n\
         Section: libdevel\nPriority: optional\nMulti-Arch: same\n\
         Homepage: https://github.com/selvedge/selvedge\n\
         Description: NVMe over TCP from userspace - header and examples\n \
         Programs in C are compiled with this header, by pkg-config for example.\n \
         An example in Python and the source of an engine for fio are among the\n \
         documents.\n",
        version(release)
    );
    let development = package(release, DEVELOPMENT, &fields, Contents::default(), &data, output)?;
    Ok([runtime, development])
}

/// The debug information of a package's program or library, where debuggers look for it.
pub(crate) fn write_debug(
    release: &Release,
    of: &str,
    program: &Program,
    output: &Path,
) -> Result<PathBuf, String> {
    let (folder, file) = program.build_id.split_at(2);
    let bytes =
        std::fs::read(&program.debug).map_err(|error| format!("{}: {error}", program.debug.display()))?;
    let mut data = Contents::default();
    data.file(&format!("usr/lib/debug/.build-id/{folder}/{file}.debug"), 0o644, bytes);
    let name = format!("{of}-dbgsym");
    documents(release, &name, &mut data)?;
    let fields = format!(
        "Depends: {of} (= {})\nSection: debug\nPriority: optional\nBuild-Ids: {}\n\
         Description: debug information for {of}\n \
         Debuggers and profilers find here which line of the source each address of\n \
         the program belongs to.\n",
        version(release),
        program.build_id
    );
    package(release, &name, &fields, Contents::default(), &data, output)
}

/// Files of every package: licence, changelog, and overrides of lintian.
fn documents(release: &Release, name: &str, data: &mut Contents) -> Result<(), String> {
    data.file(&format!("usr/share/doc/{name}/copyright"), 0o644, copyright().into_bytes());
    data.file(&format!("usr/share/doc/{name}/changelog.Debian.gz"), 0o644, changelog(release)?);
    data.file(&format!("usr/share/lintian/overrides/{name}"), 0o644, overrides(name));
    Ok(())
}

fn package(
    release: &Release,
    name: &str,
    fields: &str,
    mut control: Contents,
    data: &Contents,
    output: &Path,
) -> Result<PathBuf, String> {
    let version = version(release);
    let size_kib: u64 = data.entries().map(size_kib).sum();
    // Lintian looks at packages of one source together.
    let source = if name == "selvedge" { "" } else { "Source: selvedge\n" };
    let text = format!(
        "Package: {name}\n{source}Version: {version}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {size_kib}\n{fields}"
    );
    control.file("control", 0o644, text.into_bytes());
    let sums: String =
        data.files().map(|(entry, bytes)| format!("{}  {}\n", md5(bytes), entry.path)).collect();
    control.file("md5sums", 0o644, sums.into_bytes());

    let mut archive = ar::Builder::new(Vec::new());
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", archive::gzip(&archive::tar(control.entries(), "./", release.date)?)?),
        ("data.tar.gz", archive::gzip(&archive::tar(data.entries(), "./", release.date)?)?),
    ];
    for (member, bytes) in members {
        let mut header = ar::Header::new(member.as_bytes().to_vec(), bytes.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(release.date);
        archive.append(&header, &bytes[..]).map_err(|error| error.to_string())?;
    }
    let bytes = archive.into_inner().map_err(|error| error.to_string())?;
    put(&output.join(format!("{name}_{version}_amd64.deb")), &bytes)
}

fn version(release: &Release) -> String {
    format!("{}-{}", release.version, release.revision)
}

/// Dependencies of the program, from its libraries.
fn depends(program: &Program) -> Result<String, String> {
    let mut depends = Vec::new();
    let (major, minor) = program.libc;
    depends.push(format!("libc6 (>= {major}.{minor})"));
    for library in &program.libraries {
        match library.as_str() {
            "libc.so.6" | "libm.so.6" | "ld-linux-x86-64.so.2" => {}
            "libgcc_s.so.1" => depends.push("libgcc-s1 (>= 4.2)".to_owned()),
            other => return Err(format!("no package is known that has {other}")),
        }
    }
    Ok(depends.join(", "))
}

fn conffiles(contents: &Contents) -> String {
    let files = contents.entries().filter(|entry| entry.is_configuration);
    files.map(|entry| format!("/{}\n", entry.path)).collect()
}

/// Size of a file on a disk, as dpkg counts it.
fn size_kib(entry: &Entry) -> u64 {
    match &entry.kind {
        Kind::Folder | Kind::Link(_) => 1,
        Kind::File(bytes) => (bytes.len() as u64).div_ceil(1024),
    }
}

fn changelog(release: &Release) -> Result<Vec<u8>, String> {
    let text = format!(
        "selvedge ({}) unstable; urgency=medium\n\n  \
         * Made from commit\n    {}.\n  \
         * What is new is in changelog.gz.\n\n \
         -- {MAINTAINER}  {}\n",
        version(release),
        release.commit,
        release.formatted("%a, %d %b %Y %H:%M:%S +0000")?
    );
    archive::gzip(text.as_bytes())
}

/// Overrides of lintian's checks for packages of Debian, which this one is not.
fn overrides(name: &str) -> Vec<u8> {
    format!(
        "# Debian has no bug that asks for this package: it is not an upload to Debian.\n\
         {name}: initial-upload-closes-no-bugs *\n"
    )
    .into_bytes()
}

fn copyright() -> String {
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
     Upstream-Name: selvedge\n\
     Source: https://github.com/selvedge/selvedge\n\
     Comment: Libraries that are part of the program are listed with their licences in THIRD-PARTY.gz.\n\n\
     Files: *\n\
     Copyright: 2026 The Selvedge developers\n\
     License: MIT or Apache-2.0\n\n\
     License: MIT\n\
     @MIT@\n\
     License: Apache-2.0\n \
     On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.\n"
        .replace("@MIT@", &indented(include_str!("../../LICENSE-MIT")))
}

/// A text as the value of a field of several lines.
fn indented(text: &str) -> String {
    let lines = text.trim().lines();
    lines.map(|line| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect()
}

/// As dpkg checks files with; nothing depends on its strength.
fn md5(bytes: &[u8]) -> String {
    use md5::{Digest as _, Md5};
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
