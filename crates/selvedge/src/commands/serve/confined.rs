//! Resources that `serve` needs, from its flags and its configuration; all others are given up.

use std::path::PathBuf;

use engine::backend::BackendConfig;
use engine::ceph;
use engine::target::{FabricConfig, TargetConfig};
use engine::transport::congestion;

use crate::confinement::{self, Confinement, Extent, Needs, folder_of};
use crate::control::access::AllowedStorage;
use crate::control::socket;
use crate::failure::Failure;
use crate::flags::serve::ServeFlags;
use crate::spec::audit_destination::AuditDestination;
use crate::spec::endpoint::Endpoint;

/// Gives up all privileges and files that a target with these flags and this configuration does not
/// need, except those that `list` allows later. No thread may run yet.
pub(super) fn confine(
    flags: &ServeFlags,
    list: Option<&AllowedStorage>,
    target: &TargetConfig,
) -> Result<Confinement, Failure> {
    let wishes = flags.confinement.wishes().map_err(Failure::usage)?;
    confinement::confine(wishes, &needs(flags, list, target))
}

fn needs(flags: &ServeFlags, list: Option<&AllowedStorage>, target: &TargetConfig) -> Needs {
    let fabric = &target.fabric;
    let conf = flags.gateway_group.as_ref().map(|group| group.conf.clone());
    let confs: Vec<PathBuf> = images(fabric).chain(conf.clone()).flatten().collect();
    let has_images = images(fabric).next().is_some() || conf.is_some();
    let (confine_to, lists) = (&flags.confinement.confine_to, list.into_iter());
    let extent = match (confine_to.is_empty(), list) {
        (false, _) => Extent::Listed,
        (true, Some(_)) => Extent::ListedWherePossible,
        (true, None) => Extent::Free,
    };
    let listed = lists.clone().flat_map(|list| list.directories.iter().chain(&list.devices));
    let paths: Vec<PathBuf> = confine_to.iter().chain(listed).cloned().collect();
    let mut written = served(fabric);
    written.extend(target.state_dir.clone());
    if let Some(AuditDestination::File(path)) = &flags.audit_log {
        written.extend(folder_of(path));
    }
    let sockets = if extent == Extent::Free { Vec::new() } else { control_folders(flags) };
    // Where others may name files, they may put links in the place of these, too.
    let secrets =
        secrets(fabric).flat_map(|file| if list.is_none() { with_target(file) } else { vec![file] });
    let named = named_files(flags).chain(confs).flat_map(with_target).chain(secrets);
    let mut read: Vec<PathBuf> = named.filter_map(|file| folder_of(&file)).collect();
    read.extend(lists.flat_map(|list| list.key_directories.clone()));
    Needs {
        extent,
        paths,
        written,
        sockets,
        read,
        programs: flags.configure_mptcp,
        network_settings: flags.configure_mptcp || has_privileged_congestion(fabric),
        ceph: has_images || ceph::is_installed(),
        attach: false,
        block_devices: false,
    }
}

/// Returns the files that flags name, which are reloaded when they change.
fn named_files(flags: &ServeFlags) -> impl Iterator<Item = PathBuf> {
    let own = &flags.administered;
    let certificates = [&own.control_tls_cert, &own.control_tls_key, &own.control_tls_client_ca];
    let files = [&flags.config, &flags.encryption_key, &own.control_token_file, &own.control_access];
    files.into_iter().chain(certificates).flatten().cloned()
}

/// Returns a path, and the target of its links if there are some.
fn with_target(path: PathBuf) -> Vec<PathBuf> {
    let target = path.canonicalize().ok().filter(|target| *target != path);
    std::iter::once(path).chain(target).collect()
}

/// The configuration files of images' clusters.
fn images(fabric: &FabricConfig) -> impl Iterator<Item = Option<PathBuf>> {
    let namespaces = fabric.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    namespaces.filter_map(|namespace| match &namespace.backend {
        BackendConfig::Rbd(image) => Some(image.conf.clone()),
        _ => None,
    })
}

/// Returns the folders of served files, the folders in which hosts create files, and the devices. The folder of a device may
/// hold other devices, which are not served.
fn served(fabric: &FabricConfig) -> Vec<PathBuf> {
    let namespaces = fabric.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    let disks = namespaces.filter_map(|namespace| match &namespace.backend {
        BackendConfig::File { path, .. } => folder_of(path),
        BackendConfig::Block { path } => Some(path.clone()),
        BackendConfig::Memory { .. } | BackendConfig::Null { .. } | BackendConfig::Rbd(_) => None,
    });
    let storages = fabric.subsystems.iter().filter_map(|subsystem| subsystem.storage.as_ref());
    disks.chain(storages.map(|storage| storage.directory.clone())).collect()
}

/// Returns the files of hosts' secrets, which are reloaded when they change, and of images' passphrases.
fn secrets(fabric: &FabricConfig) -> impl Iterator<Item = PathBuf> {
    let keys = fabric.subsystems.iter().flat_map(|subsystem| &subsystem.host_keys);
    let keys = keys.flat_map(|key| key.files()).map(|(_, file)| file.to_owned());
    let namespaces = fabric.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    let passphrases = namespaces.filter_map(|namespace| match &namespace.backend {
        BackendConfig::Rbd(image) => Some(image.encryption.as_ref()?.passphrase_file.clone()),
        _ => None,
    });
    keys.chain(passphrases)
}

/// Returns the folders of control sockets.
fn control_folders(flags: &ServeFlags) -> Vec<PathBuf> {
    let chosen = &flags.administered.control;
    if chosen.is_empty() {
        return socket::make_default_folder().into_iter().collect();
    }
    let folder = |endpoint: &Endpoint| match endpoint {
        Endpoint::Unix(path) => folder_of(path),
        Endpoint::Tcp(_) | Endpoint::Tls { .. } | Endpoint::None => None,
    };
    chosen.iter().filter_map(folder).collect()
}

/// True if a port has a congestion control that needs privileges to choose. The kernel loads
/// missing ones for root alone, and they are available afterwards.
fn has_privileged_congestion(fabric: &FabricConfig) -> bool {
    let named = fabric.ports.iter().filter_map(|port| port.congestion.as_deref());
    named.filter(|name| *name != congestion::SYSTEM).any(|name| {
        let names = if name == congestion::AUTO { ["bbr", "cubic"].as_slice() } else { &[name] };
        names.iter().any(|name| congestion::check(name).is_ok() && !congestion::is_allowed(name))
    })
}

#[cfg(test)]
mod tests {
    use engine::backend::RbdEncryption;
    use engine::ceph::LuksFormat;
    use engine::target::{HostKeyConfig, NamespaceConfig, SubsystemConfig};

    use super::*;

    fn target(backends: Vec<BackendConfig>) -> TargetConfig {
        let namespaces = backends.into_iter().zip(1..);
        let namespaces =
            namespaces.map(|(backend, nsid)| NamespaceConfig::new(nsid, backend, 4096)).collect();
        let subsystem = SubsystemConfig::new("nqn.test:a", "A", "Selvedge").with(namespaces);
        let fabric = FabricConfig { subsystems: vec![subsystem], ..FabricConfig::default() };
        TargetConfig { fabric, ..TargetConfig::default() }
    }

    #[test]
    fn what_is_configured_needs_no_flag() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk.img");
        let device = PathBuf::from("/dev/disk/by-id/a");
        let file = BackendConfig::File { path: disk, size: None };
        let mut target = target(vec![file, BackendConfig::Block { path: device.clone() }]);
        target.state_dir = Some("/var/lib/state".into());
        let control = folder.path().join("socket/a.sock").display().to_string();
        let flags = format!("--confine-to /srv --control unix:{control}");
        let needs = needs(&ServeFlags::of(&flags), None, &target);
        let here = folder.path().to_owned();
        assert_eq!(needs.written, [here.clone(), device, "/var/lib/state".into()]);
        assert_eq!(needs.sockets, [here]);
        assert_eq!(needs.paths, [PathBuf::from("/srv")]);
        assert!(!needs.programs && !needs.network_settings);
    }

    #[test]
    fn what_may_not_be_named_is_not_opened_either() {
        let list = AllowedStorage {
            directories: vec!["/srv".into()],
            devices: vec!["/dev/zvol".into()],
            key_directories: vec!["/keys".into()],
            ..AllowedStorage::default()
        };
        let flags = ServeFlags::of("--control none --audit-log /var/log/audit");
        let needs = needs(&flags, Some(&list), &target(Vec::new()));
        assert_eq!(needs.extent, Extent::ListedWherePossible);
        assert_eq!(needs.paths, [PathBuf::from("/srv"), "/dev/zvol".into()]);
        assert_eq!((needs.read, needs.written), (vec!["/keys".into()], vec!["/var/log".into()]));
        let list = AllowedStorage::default();
        assert!(super::needs(&flags, Some(&list), &target(Vec::new())).is_closed());
        assert!(!super::needs(&flags, None, &target(Vec::new())).is_closed());
    }

    #[test]
    fn files_of_secrets_are_read_where_they_and_their_links_are() {
        let folder = tempfile::tempdir().unwrap();
        let [named, real, passphrases] = ["named", "real", "passphrases"].map(|name| {
            let path = folder.path().canonicalize().unwrap().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        });
        std::fs::write(real.join("key"), "").unwrap();
        std::os::unix::fs::symlink(real.join("key"), named.join("key")).unwrap();
        let mut image: engine::backend::RbdConfig =
            serde_json::from_str(r#"{"pool":"rbd","image":"disk"}"#).unwrap();
        let passphrase_file = passphrases.join("passphrase");
        image.encryption = Some(Box::new(RbdEncryption { format: LuksFormat::Luks2, passphrase_file }));
        let mut target = target(vec![BackendConfig::Rbd(image)]);
        target.fabric.subsystems[0].host_keys = vec![HostKeyConfig::tls("nqn.h", named.join("key"))];
        let free = needs(&ServeFlags::of("--confine-to /srv"), None, &target);
        assert_eq!(free.read, [named.clone(), real, passphrases.clone()]);
        let listed = needs(&ServeFlags::of(""), Some(&AllowedStorage::default()), &target);
        assert_eq!(listed.read, [named, passphrases]);
    }

    #[test]
    fn what_sets_the_network_runs_programs() {
        let needs = needs(&ServeFlags::of("--configure-mptcp"), None, &target(Vec::new()));
        assert!(needs.programs && needs.network_settings);
    }

    #[test]
    fn images_need_cephs_libraries_and_configuration() {
        let mut image: engine::backend::RbdConfig =
            serde_json::from_str(r#"{"pool":"rbd","image":"disk"}"#).unwrap();
        image.conf = Some("/etc/hosts".into());
        let needs = needs(&ServeFlags::of(""), None, &target(vec![BackendConfig::Rbd(image)]));
        assert!(needs.ceph);
        assert_eq!(needs.read, [PathBuf::from("/etc")]);
    }
}
