//! The files, devices, images and secrets that administrators may name. Without such a list a
//! target would serve to its hosts any file that its user can open.

use std::path::{Component, Path, PathBuf};

use engine::backend::{BackendConfig, FilePin, RbdConfig, resolved};
use engine::target::{FabricConfig, NamespaceConfig, SubsystemConfig};
use serde::{Deserialize, Serialize};

use super::super::refusal::Refusal;
use crate::spec::ceph::image_path;

/// Storage and secrets that may be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedStorage {
    /// Folders whose files may be namespaces, and where hosts may create them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<PathBuf>,
    /// Block devices, or folders of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PathBuf>,
    /// Pools of a Ceph cluster, as POOL or POOL/NAMESPACE.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<String>,
    /// Folders of files with hosts' secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_directories: Vec<PathBuf>,
}

/// Resource outside a target that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Resource<'a> {
    File(&'a Path),
    Device(&'a Path),
    Image(&'a RbdConfig),
    Secret(&'a Path),
}

impl AllowedStorage {
    /// Refuses lists that could not mean what they say.
    pub(super) fn check(&self) -> Result<(), String> {
        let paths = self.directories.iter().chain(&self.devices).chain(&self.key_directories);
        for path in paths {
            if !path.is_absolute() {
                return Err(format!("{} is not an absolute path", path.display()));
            }
        }
        Ok(())
    }

    /// Refuses what a subsystem of `wanted` names that it does not name in `before`, and that is in none of the lists. What
    /// another subsystem names is its own: a caller that may change this subsystem must not have its
    /// hosts read the other's blocks.
    pub(super) fn allow(&self, before: &FabricConfig, wanted: &FabricConfig) -> Result<(), Refusal> {
        for (at, subsystem) in wanted.subsystems.iter().enumerate() {
            let known = before.subsystem(&subsystem.nqn);
            let known: Vec<Resource<'_>> =
                known.into_iter().flat_map(resources).map(|(_, resource)| resource).collect();
            for (field, resource) in resources(subsystem) {
                if !known.contains(&resource) && !self.has(&resource, before) {
                    let refusal = Refusal::new(403, format!("{} may not be named here", resource.shown()));
                    let hint = format!("the administrator's list of {} does not have it", resource.list());
                    return Err(refusal.about(format!("subsystems[{at}].{field}")).hint(hint));
                }
            }
        }
        Ok(())
    }

    /// Refuses an image that is in none of the lists, although a subsystem has it: one that was served before the list was made
    /// may go on to be, and is not its administrators' to remove.
    pub(super) fn allow_image(&self, image: &RbdConfig, fabric: &FabricConfig) -> Result<(), Refusal> {
        let resource = Resource::Image(image);
        if self.has(&resource, fabric) {
            return Ok(());
        }
        let refusal = Refusal::new(403, format!("{} may not be named here", resource.shown()));
        Err(refusal.hint(format!("the administrator's list of {} does not have it", resource.list())))
    }

    fn has(&self, resource: &Resource<'_>, before: &FabricConfig) -> bool {
        match resource {
            Resource::File(path) => is_within(path, &self.directories),
            Resource::Device(path) => is_within(path, &self.devices) || is_link_in_dev(path, &self.devices),
            Resource::Secret(path) => is_within(path, &self.key_directories),
            Resource::Image(image) => {
                let is_of = |pool: &String| {
                    pool.split_once('/').unwrap_or((pool, ""))
                        == (image.pool.as_str(), image.namespace.as_str())
                };
                self.pools.iter().any(is_of) && is_conf_known(image, before)
            }
        }
    }
}

/// True if the image's cluster is in use already or is the machine's default: another configuration
/// file could lead to any cluster.
fn is_conf_known(image: &RbdConfig, before: &FabricConfig) -> bool {
    let mut backends = before.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    image.conf.is_none()
        || backends
            .any(|known| matches!(&known.backend, BackendConfig::Rbd(known) if known.conf == image.conf))
}

/// Resources that a subsystem names, each with the name of the setting.
fn resources(subsystem: &SubsystemConfig) -> impl Iterator<Item = (String, Resource<'_>)> {
    let storage = subsystem
        .storage
        .iter()
        .map(|storage| ("storage.directory".to_owned(), Resource::File(&storage.directory)));
    let namespaces = subsystem.namespaces.iter().enumerate().filter_map(|(at, namespace)| {
        let (name, resource) = match &namespace.backend {
            BackendConfig::File { path, .. } => ("file.path", Resource::File(path)),
            BackendConfig::Block { path, .. } => ("block.path", Resource::Device(path)),
            BackendConfig::Rbd(image) => ("rbd", Resource::Image(image)),
            BackendConfig::Memory { .. } | BackendConfig::Null { .. } => return None,
        };
        Some((format!("namespaces[{at}].backend.{name}"), resource))
    });
    let secrets = subsystem.host_keys.iter().enumerate().flat_map(|(at, key)| {
        key.files().map(move |(name, file)| (format!("host_keys[{at}].{name}"), Resource::Secret(file)))
    });
    let passphrases = subsystem.namespaces.iter().enumerate().filter_map(|(at, namespace)| {
        let BackendConfig::Rbd(image) = &namespace.backend else { return None };
        let file = &image.encryption.as_ref()?.passphrase_file;
        Some((format!("namespaces[{at}].backend.rbd.encryption.passphrase_file"), Resource::Secret(file)))
    });
    storage.chain(namespaces).chain(secrets).chain(passphrases)
}

impl Resource<'_> {
    /// The folder below which a file or device is by all lists; none for a device in `/dev`, where only root makes links.
    fn pinned_below(&self, lists: &[AllowedStorage]) -> Result<Option<PathBuf>, ()> {
        let (path, is_device) = match self {
            Self::File(path) => (path, false),
            Self::Device(path) => (path, true),
            Self::Image(_) | Self::Secret(_) => return Ok(None),
        };
        let is_by_root = is_plain(path) && path.starts_with("/dev") && !path.starts_with("/dev/shm");
        if lists.is_empty() || is_device && is_by_root {
            return Ok(None);
        }
        let real = resolved(path).map_err(|_| ())?;
        // A listed device may be the target of anybody's link, and other devices are in its folder.
        if is_device && real != **path {
            return Err(());
        }
        let roots =
            |list: &AllowedStorage| bound(&real, if is_device { &list.devices } else { &list.directories });
        let bounds: Vec<_> = lists.iter().map(roots).collect::<Option<_>>().ok_or(())?;
        Ok(bounds.into_iter().max_by_key(|(depth, _)| *depth).map(|(_, root)| root))
    }

    fn shown(&self) -> String {
        match self {
            Self::File(path) | Self::Device(path) | Self::Secret(path) => path.display().to_string(),
            Self::Image(image) => image_path(image),
        }
    }

    fn list(&self) -> &'static str {
        match self {
            Self::File(_) => "directories",
            Self::Device(_) => "devices",
            Self::Image(_) => "pools",
            Self::Secret(_) => "key_directories",
        }
    }
}

/// The highest of a list's folders that has a path without links in it, with its depth: within it, others may make links in
/// place of folders that are listed, too. The folder of a file that is listed itself.
fn bound(real: &Path, roots: &[PathBuf]) -> Option<(usize, PathBuf)> {
    let folder = |root: &PathBuf| {
        let resolved = root.canonicalize().ok().filter(|resolved| real.starts_with(resolved))?;
        let is_file = resolved == real && !real.is_dir();
        let root = if is_file { real.parent()?.to_owned() } else { root.clone() };
        Some((resolved.components().count(), root))
    };
    roots.iter().filter_map(folder).min_by_key(|(depth, _)| *depth)
}

/// Pins files and directories of files that are named in `wanted` and not in `before` to the folders of the lists by which their
/// sender may name them: they are opened below these later. What was there before keeps its pin.
pub(super) fn pin_files(
    lists: &[AllowedStorage],
    before: &FabricConfig,
    wanted: &mut FabricConfig,
) -> Result<(), Refusal> {
    for (at, subsystem) in wanted.subsystems.iter_mut().enumerate() {
        let known = before.subsystem(&subsystem.nqn);
        let refused = |field: String, resource: &Resource<'_>| {
            let refusal = Refusal::new(403, format!("{} may not be named here", resource.shown()));
            refusal
                .about(format!("subsystems[{at}].{field}"))
                .hint("its links changed while they were checked, or lead to a device: name it without links")
        };
        if let Some(storage) = &mut subsystem.storage {
            let known = known.and_then(|known| known.storage.as_ref());
            let resource = Resource::File(&storage.directory);
            storage.pinned_below = match known.filter(|known| known.directory == storage.directory) {
                Some(known) => known.pinned_below.clone(),
                None => resource
                    .pinned_below(lists)
                    .map_err(|()| refused("storage.directory".to_owned(), &resource))?,
            };
        }
        for (number, namespace) in subsystem.namespaces.iter_mut().enumerate() {
            let resource = match &namespace.backend {
                BackendConfig::File { path, .. } => Resource::File(path),
                BackendConfig::Block { path } => Resource::Device(path),
                _ => continue,
            };
            let is_same = |known: &&NamespaceConfig| known.backend.is_same_place(&namespace.backend);
            let mut known = known.into_iter().flat_map(|known| &known.namespaces);
            namespace.file_pin = match known.find(is_same) {
                Some(known) => known.file_pin.clone(),
                None => {
                    let field = format!("namespaces[{number}].backend");
                    let directory = resource.pinned_below(lists).map_err(|()| refused(field, &resource))?;
                    directory.map(|directory| FilePin { directory, file: None })
                }
            };
        }
    }
    Ok(())
}

/// True if a path, with its links resolved, leads into one of these folders. For a file that does
/// not exist yet, its folder counts.
fn is_within(path: &Path, roots: &[PathBuf]) -> bool {
    let real = path.canonicalize().or_else(|_| {
        let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
        // What is there and leads nowhere is made where it leads to.
        if path.is_symlink() {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        folder.canonicalize().map(|folder| folder.join(name))
    });
    let Ok(real) = real else { return false };
    roots.iter().any(|root| root.canonicalize().is_ok_and(|root| real.starts_with(root)))
}

/// True if the system's own link names the device, such as `/dev/zvol/tank/disk`: the link leads to
/// a node elsewhere, and only root can change it.
fn is_link_in_dev(path: &Path, roots: &[PathBuf]) -> bool {
    let dev = Path::new("/dev");
    is_plain(path)
        && path.canonicalize().is_ok_and(|real| real.starts_with(dev))
        && roots.iter().any(|root| root.starts_with(dev) && path.starts_with(root))
}

/// True for a path from the root on, without `..`.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use engine::backend::RbdEncryption;
    use engine::ceph::LuksFormat;
    use engine::target::{HostKeyConfig, StorageConfig};

    use super::*;

    fn fabric(backend: BackendConfig) -> FabricConfig {
        let namespace = NamespaceConfig::new(1, backend, 4096);
        FabricConfig {
            subsystems: vec![SubsystemConfig::new("nqn.a", "A", "Selvedge").with(vec![namespace])],
            ..FabricConfig::default()
        }
    }

    fn file(path: impl Into<PathBuf>) -> FabricConfig {
        fabric(BackendConfig::File { path: path.into(), size: None })
    }

    fn refused(list: &AllowedStorage, wanted: &FabricConfig) -> Option<String> {
        list.allow(&FabricConfig::default(), wanted).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn a_file_is_where_its_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        for made in [&inside, &outside] {
            std::fs::create_dir(made).unwrap();
            std::fs::write(made.join("disk"), "").unwrap();
        }
        symlink(&outside, inside.join("away")).unwrap();
        symlink(outside.join("new"), inside.join("dangling")).unwrap();
        symlink(&inside, folder.path().join("back")).unwrap();
        let list = AllowedStorage { directories: vec![inside.clone()], ..AllowedStorage::default() };
        for allowed in ["in/disk", "in/new", "back/disk", "in/../in/disk"] {
            assert_eq!(refused(&list, &file(folder.path().join(allowed))), None, "{allowed}");
        }
        for other in [
            "out/disk",
            "out/new",
            "in/../out/disk",
            "in/away/disk",
            "in/away/new",
            "in/dangling",
            "in/a/b",
            "inn",
        ] {
            let error = refused(&list, &file(folder.path().join(other))).expect(other);
            assert!(
                error.contains("subsystems[0].namespaces[0].backend.file.path")
                    && error.contains("directories"),
                "{error}"
            );
        }
        assert!(
            refused(&AllowedStorage::default(), &file(inside.join("disk"))).is_some(),
            "an empty list has nothing"
        );
        let known = file(outside.join("disk"));
        assert_eq!(list.allow(&known, &known), Ok(()), "storage that is served already needs no permission");
        let mut others = known.clone();
        others.subsystems[0].nqn = "nqn.b".to_owned();
        assert!(list.allow(&known, &others).is_err(), "but by another subsystem it is");
    }

    #[test]
    fn new_files_are_pinned_to_the_deepest_folder_of_all_lists() {
        let folder = tempfile::tempdir().unwrap();
        let (all, mine) = (folder.path().to_owned(), folder.path().join("mine"));
        std::fs::create_dir(&mine).unwrap();
        std::fs::write(mine.join("disk"), "").unwrap();
        let list = |directory: &Path| AllowedStorage {
            directories: vec![directory.to_owned()],
            devices: vec![directory.to_owned()],
            ..AllowedStorage::default()
        };
        let lists = [list(&mine), list(&all)];
        let pinned = |lists: &[AllowedStorage], before: &FabricConfig, mut wanted: FabricConfig| {
            pin_files(lists, before, &mut wanted)
                .map(|()| wanted.subsystems[0].namespaces[0].file_pin.clone())
        };
        let pin = |directory: &Path| Some(FilePin { directory: directory.to_owned(), file: None });
        let none = FabricConfig::default();
        let disk = || file(mine.join("disk"));
        assert_eq!(pinned(&lists, &none, disk()), Ok(pin(&mine)));
        assert_eq!(pinned(&lists[1..], &none, disk()), Ok(pin(&all)));
        let both =
            AllowedStorage { directories: vec![mine.clone(), all.clone()], ..AllowedStorage::default() };
        assert_eq!(pinned(&[both], &none, disk()), Ok(pin(&all)), "`mine` may become a link in it");
        assert!(pinned(&[list(&all), list(&mine.join("disk/no"))], &none, disk()).is_err());
        assert_eq!(pinned(&lists, &none, file(mine.join("new"))), Ok(pin(&mine)));
        assert!(pinned(&lists, &none, file(mine.join("no/disk"))).is_err());
        // The operator of the machine has no lists, and a sender cannot choose its own pin.
        assert_eq!(pinned(&[], &none, disk()), Ok(None));
        let mut forged = disk();
        forged.subsystems[0].namespaces[0].file_pin = pin(Path::new("/"));
        assert_eq!(pinned(&lists, &none, forged.clone()), Ok(pin(&mine)));
        // What is served already keeps its pin, or its lack of one.
        assert_eq!(pinned(&lists, &disk(), forged.clone()), Ok(None));
        assert_eq!(pinned(&lists, &forged, disk()), Ok(pin(Path::new("/"))));
        let device = |path: PathBuf| fabric(BackendConfig::Block { path });
        assert_eq!(pinned(&lists, &none, device(mine.join("disk"))), Ok(pin(&mine)));
        assert_eq!(
            pinned(&lists, &none, device("/dev/null".into())),
            Ok(None),
            "only root makes links there"
        );
        symlink(mine.join("disk"), all.join("link")).unwrap();
        assert!(pinned(&lists[1..], &none, device(all.join("link"))).is_err());
        assert_eq!(pinned(&lists, &none, file(all.join("link"))), Ok(pin(&mine)));
        let mut stored = disk();
        stored.subsystems[0].storage = Some(StorageConfig::new(mine.clone(), 1));
        pin_files(&lists, &none, &mut stored).unwrap();
        let below = stored.subsystems[0].storage.as_ref().and_then(|storage| storage.pinned_below.clone());
        assert_eq!(below, Some(mine), "a listed directory is its own limit");
    }

    #[test]
    fn each_kind_has_its_own_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "").unwrap();
        let here = vec![folder.path().to_owned()];
        let lists = [
            AllowedStorage { directories: here.clone(), ..AllowedStorage::default() },
            AllowedStorage { devices: here.clone(), ..AllowedStorage::default() },
            AllowedStorage { key_directories: here, ..AllowedStorage::default() },
        ];
        let mut stored = FabricConfig::default();
        stored.subsystems.push(SubsystemConfig {
            storage: Some(StorageConfig::new(folder.path().to_owned(), 1)),
            ..SubsystemConfig::new("nqn.a", "A", "Selvedge")
        });
        let mut keyed = FabricConfig::default();
        keyed.subsystems.push(SubsystemConfig {
            host_keys: vec![HostKeyConfig::new("nqn.h", path.clone())],
            ..SubsystemConfig::new("nqn.a", "A", "Selvedge")
        });
        let wanted = [file(&path), stored, fabric(BackendConfig::Block { path }), keyed];
        for (number, wanted) in wanted.iter().enumerate() {
            let allowing = [0, 0, 1, 2][number];
            for (at, list) in lists.iter().enumerate() {
                assert_eq!(refused(list, wanted).is_none(), at == allowing, "{number} {at}");
            }
        }
    }

    #[test]
    fn a_passphrase_is_in_a_directory_of_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pass");
        std::fs::write(&path, "").unwrap();
        let encryption = RbdEncryption { format: LuksFormat::Luks2, passphrase_file: path };
        let image = fabric(BackendConfig::Rbd(RbdConfig {
            pool: "rbd".to_owned(),
            namespace: String::new(),
            image: "disk".to_owned(),
            snapshot: None,
            conf: None,
            id: None,
            encryption: Some(Box::new(encryption)),
        }));
        let pools = AllowedStorage { pools: vec!["rbd".to_owned()], ..AllowedStorage::default() };
        assert!(refused(&pools, &image).is_some_and(|what| what.contains("passphrase_file")));
        let both = AllowedStorage { key_directories: vec![folder.path().to_owned()], ..pools };
        assert_eq!(refused(&both, &image), None);
        assert!(refused(&AllowedStorage { pools: Vec::new(), ..both }, &image).is_some());
    }

    #[test]
    fn an_image_that_a_subsystem_has_is_removed_by_those_whose_list_has_it() {
        let image = |pool: &str| RbdConfig {
            pool: pool.to_owned(),
            namespace: String::new(),
            image: "disk".to_owned(),
            snapshot: None,
            conf: None,
            id: None,
            encryption: None,
        };
        let served = fabric(BackendConfig::Rbd(image("theirs")));
        let list = AllowedStorage { pools: vec!["mine".to_owned()], ..AllowedStorage::default() };
        assert_eq!(list.allow(&served, &served), Ok(()), "it is served already");
        assert_eq!(list.allow_image(&image("theirs"), &served).unwrap_err().status, 403);
        assert_eq!(list.allow_image(&image("mine"), &served), Ok(()));
    }

    #[test]
    fn an_image_is_in_its_pool_and_its_cluster_is_known() {
        let image = |pool: &str, namespace: &str, conf: Option<&str>| {
            let conf = conf.map(PathBuf::from);
            let (pool, namespace, image) = (pool.to_owned(), namespace.to_owned(), "disk".to_owned());
            fabric(BackendConfig::Rbd(RbdConfig {
                pool,
                namespace,
                image,
                snapshot: None,
                conf,
                id: None,
                encryption: None,
            }))
        };
        let list =
            AllowedStorage { pools: vec!["rbd".to_owned(), "ssd/a".to_owned()], ..AllowedStorage::default() };
        assert_eq!(refused(&list, &image("rbd", "", None)), None);
        assert_eq!(refused(&list, &image("ssd", "a", None)), None);
        for (pool, namespace) in [("ssd", ""), ("rbd", "a"), ("rb", ""), ("ssd/a", "")] {
            assert!(refused(&list, &image(pool, namespace, None)).is_some(), "{pool} {namespace}");
        }
        let other = image("rbd", "", Some("/srv/eve/ceph.conf"));
        assert!(refused(&list, &other).is_some());
        let mut served = image("other", "", Some("/srv/eve/ceph.conf"));
        served.subsystems[0].nqn = "nqn.b".to_owned();
        assert_eq!(list.allow(&served, &other), Ok(()));
    }
}
