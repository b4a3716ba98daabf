//! What a package installs where: one list, from which deb, rpm, tarball and image are made.

use std::collections::BTreeMap;
use std::path::Path;

use crate::archive;
use crate::licences::ThirdParty;
use crate::program::Program;
use crate::release::Release;

/// A file or folder of a package.
pub(crate) struct Entry {
    /// From the root, without a slash before it.
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// The number of the user and of the group that own it.
    pub(crate) owner: u32,
    pub(crate) kind: Kind,
    /// True if administrators may change it.
    pub(crate) is_configuration: bool,
}

pub(crate) enum Kind {
    Folder,
    File(Vec<u8>),
    /// Symbolic link to this path.
    Link(String),
}

/// Purpose of the contents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Installed by a package manager, which runs scripts.
    Package,
    /// Unpacked by hand.
    Tarball,
}

/// All entries, sorted by path.
#[derive(Default)]
pub(crate) struct Contents {
    entries: BTreeMap<String, Entry>,
}

/// Files of the checkout, where they go, and whether only a package manager has a use for them.
const FILES: [(&str, &str, bool); 17] = [
    ("packaging/systemd/selvedge.service", "usr/lib/systemd/system/selvedge.service", false),
    ("packaging/systemd/selvedge.socket", "usr/lib/systemd/system/selvedge.socket", false),
    (
        "packaging/systemd/selvedge-gateway@.service",
        "usr/lib/systemd/system/selvedge-gateway@.service",
        false,
    ),
    ("packaging/systemd/selvedge-attach@.service", "usr/lib/systemd/system/selvedge-attach@.service", false),
    (
        "packaging/systemd/selvedge-connect@.service",
        "usr/lib/systemd/system/selvedge-connect@.service",
        false,
    ),
    ("packaging/sysusers.d/selvedge.conf", "usr/lib/sysusers.d/selvedge.conf", false),
    ("packaging/tmpfiles.d/selvedge.conf", "usr/lib/tmpfiles.d/selvedge.conf", false),
    ("packaging/udev/59-selvedge-attach.rules", "usr/lib/udev/rules.d/59-selvedge-attach.rules", false),
    ("packaging/udev/90-selvedge.rules", "usr/lib/udev/rules.d/90-selvedge.rules", false),
    ("README.md", "usr/share/doc/selvedge/README.md", false),
    ("SECURITY.md", "usr/share/doc/selvedge/SECURITY.md", false),
    ("LICENSE-APACHE", "usr/share/doc/selvedge/LICENSE-APACHE", true),
    ("LICENSE-MIT", "usr/share/doc/selvedge/LICENSE-MIT", true),
    ("packaging/target.toml", "usr/share/doc/selvedge/examples/target.toml", false),
    ("packaging/compose.yaml", "usr/share/doc/selvedge/examples/compose.yaml", false),
    ("packaging/kubernetes.yaml", "usr/share/doc/selvedge/examples/kubernetes.yaml", false),
    ("packaging/grafana/selvedge.json", "usr/share/doc/selvedge/examples/grafana/selvedge.json", false),
];

/// Folders of the checkout that are taken whole, where they are there.
const FOLDERS: [(&str, &str); 4] = [
    ("packaging/ceph", "usr/share/doc/selvedge/examples/ceph"),
    ("packaging/systemd/drop-ins", "usr/share/doc/selvedge/examples/drop-ins"),
    ("packaging/prometheus", "usr/share/doc/selvedge/examples/prometheus"),
    ("docs", "usr/share/doc/selvedge/docs"),
];

/// Folders of the shells' completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions"),
    ("zsh", "usr/share/zsh/vendor-completions"),
    ("fish", "usr/share/fish/vendor_completions.d"),
];

impl Contents {
    pub(crate) fn collect(
        release: &Release,
        program: &Program,
        generated: &Path,
        licences: &ThirdParty,
        purpose: Purpose,
    ) -> Result<Self, String> {
        let mut contents = Self::default();
        contents.file("usr/bin/selvedge", 0o755, read(&program.path)?);
        for (from, to, is_for_tarball) in FILES {
            // Debian's copyright file has the licences' texts or names where they are.
            if is_for_tarball && purpose == Purpose::Package {
                continue;
            }
            contents.file(to, 0o644, release.file(from)?);
        }
        for (from, to) in FOLDERS {
            contents.folder_of_files(&release.root.join(from), to)?;
        }
        contents.generated(generated, purpose)?;
        contents.file(
            "usr/share/doc/selvedge/THIRD-PARTY.gz",
            0o644,
            archive::gzip(licences.text.as_bytes())?,
        );
        let changelog = archive::gzip(&release.file("CHANGELOG.md")?)?;
        contents.file("usr/share/doc/selvedge/changelog.gz", 0o644, changelog);
        if purpose == Purpose::Package {
            contents.file("etc/selvedge/target.toml", 0o644, release.file("packaging/target.toml")?);
            if let Some(entry) = contents.entries.get_mut("etc/selvedge/target.toml") {
                entry.is_configuration = true;
            }
        }
        Ok(contents)
    }

    /// Man pages, compressed as distributions have them, and completions.
    fn generated(&mut self, folder: &Path, purpose: Purpose) -> Result<(), String> {
        for (name, bytes) in files(&folder.join("man"))? {
            let section = name.rsplit('.').next().unwrap_or_default();
            match purpose {
                Purpose::Package => {
                    let path = format!("usr/share/man/man{section}/{name}.gz");
                    self.file(&path, 0o644, archive::gzip(&bytes)?);
                }
                Purpose::Tarball => self.file(&format!("usr/share/man/man{section}/{name}"), 0o644, bytes),
            }
        }
        let schema = "target.schema.json";
        self.file(&format!("usr/share/selvedge/{schema}"), 0o644, read(&folder.join(schema))?);
        for (name, bytes) in files(&folder.join("schema"))? {
            self.file(&format!("usr/share/selvedge/schema/{name}"), 0o644, bytes);
        }
        for (shell, to) in COMPLETIONS {
            for (name, bytes) in files(&folder.join("completions").join(shell))? {
                self.file(&format!("{to}/{name}"), 0o644, bytes);
            }
        }
        Ok(())
    }

    /// All files below a folder of the checkout, with the folders in it.
    fn folder_of_files(&mut self, from: &Path, to: &str) -> Result<(), String> {
        if !from.exists() {
            return Ok(());
        }
        for (name, bytes) in files(from)? {
            self.file(&format!("{to}/{name}"), 0o644, bytes);
        }
        Ok(())
    }

    pub(crate) fn file(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        let kind = Kind::File(bytes);
        self.add(Entry { path: path.to_owned(), mode, owner: 0, kind, is_configuration: false });
    }

    pub(crate) fn link(&mut self, path: &str, to: &str) {
        let kind = Kind::Link(to.to_owned());
        self.add(Entry { path: path.to_owned(), mode: 0o777, owner: 0, kind, is_configuration: false });
    }

    pub(crate) fn folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.add(Entry { path: path.to_owned(), mode, owner, kind: Kind::Folder, is_configuration: false });
    }

    /// Adds an entry, and the folders that it is in.
    fn add(&mut self, entry: Entry) {
        let mut above = entry.path.as_str();
        while let Some((folder, _)) = above.rsplit_once('/') {
            self.entries.entry(folder.to_owned()).or_insert_with(|| Entry {
                path: folder.to_owned(),
                mode: 0o755,
                owner: 0,
                kind: Kind::Folder,
                is_configuration: false,
            });
            above = folder;
        }
        self.entries.insert(entry.path.clone(), entry);
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The files alone, with their bytes.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Entry, &[u8])> {
        self.entries.values().filter_map(|entry| match &entry.kind {
            Kind::File(bytes) => Some((entry, &bytes[..])),
            Kind::Folder | Kind::Link(_) => None,
        })
    }
}

/// The files below a folder by their path in it, sorted; none where there is no such folder.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let Ok(listed) = std::fs::read_dir(folder) else { return Ok(found) };
    for entry in listed {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(files(&path)?.into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            let bytes = read(&path)?;
            found.insert(name, bytes);
        }
    }
    Ok(found)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
