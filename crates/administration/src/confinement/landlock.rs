//! Restrictions on files, regardless of the user's permissions (landlock(7)).

use std::env;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, LandlockStatus, RestrictionStatus,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};

use super::{Extent, Measure, Needs, State};

/// The newest version whose rules this program was tried with. Older kernels have a part of them.
const VERSION: ABI = ABI::V7;

/// Folders that the program and its libraries read: names, certificates, libraries, and the
/// kernel's files on disks, threads and congestion control. `/etc` is whole: a rule on one of its files ends when a program
/// replaces the file, as programs replace `/etc/hosts`, `/etc/resolv.conf` and `/etc/passwd`.
const READ: [&str; 8] = ["/etc", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sys"];
/// List of name servers. Services write it elsewhere (systemd-resolved, NetworkManager), and have a link here.
const NAME_SERVERS: &str = "/etc/resolv.conf";
/// Names of these folders in the status.
const READ_SHOWN: &str = "/etc /usr /lib /proc /sys";
/// Folders of programs, if programs may be run.
const PROGRAMS: [&str; 2] = ["/bin", "/sbin"];
/// Devices that every program may use.
const DEVICES: [&str; 2] = ["/dev/null", "/dev/urandom"];
/// Folders of the sockets and logs of Ceph's libraries.
const CEPH_WRITTEN: [&str; 2] = ["/run/ceph", "/var/log/ceph"];
/// Folders of the keys of Ceph's libraries. Their configuration is in `/etc`.
const CEPH_READ: [&str; 1] = ["/var/lib/ceph"];

/// Has the kernel refuse what is not needed.
pub(super) fn restrict(needs: &Needs) -> Result<Measure, String> {
    let must_exist = needs.extent == Extent::Listed;
    if let Some(missing) = needs.paths.iter().find(|path| must_exist && !path.exists()) {
        return Err(format!("{} does not exist", missing.display()));
    }
    let status = enforce(needs).map_err(|error| format!("the kernel refuses it: {error}"))?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        LandlockStatus::NotEnabled => return Err("the kernel was started without it".to_owned()),
        LandlockStatus::NotImplemented => return Err("the kernel does not have it".to_owned()),
    };
    let state = match status.ruleset {
        RulesetStatus::FullyEnforced => State::On,
        RulesetStatus::PartiallyEnforced => State::Partial,
        RulesetStatus::NotEnforced => return Err("the kernel does not enforce it".to_owned()),
    };
    Ok(Measure { state, detail: format!("{} (ABI {version})", describe(needs)) })
}

fn describe(needs: &Needs) -> String {
    let programs = if needs.programs { "" } else { "no program is run, " };
    let files = match needs.paths.as_slice() {
        _ if !needs.is_closed() => "any file is opened".to_owned(),
        [] => format!("no file but what was configured, and {READ_SHOWN} for reading"),
        paths => {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("files in {} and what was configured, and {READ_SHOWN} for reading", paths.join(" "))
        }
    };
    format!("{programs}no device is made, {files}")
}

fn enforce(needs: &Needs) -> Result<RestrictionStatus, RulesetError> {
    // Without it, which the first version lacks, nothing can be moved to another folder, as the control socket is.
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.handle_access(AccessFs::Refer)?.set_compatibility(CompatLevel::BestEffort);
    let mut ruleset = ruleset.handle_access(refused(needs))?.scope(Scope::Signal)?;
    if !notifies_abstract_socket() {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    let mut ruleset = ruleset.create()?;
    if needs.is_closed() {
        let strings = |paths: &[&str]| -> Vec<PathBuf> { paths.iter().map(PathBuf::from).collect() };
        let mut written = [needs.paths.clone(), needs.written.clone(), strings(&DEVICES)].concat();
        let mut read = [needs.read.clone(), strings(&READ), name_servers(Path::new(NAME_SERVERS))].concat();
        if needs.ceph {
            written.extend(strings(&CEPH_WRITTEN));
            read.extend(strings(&CEPH_READ));
        }
        if needs.programs {
            read.extend(strings(&PROGRAMS));
        }
        // What does not exist is left out: it cannot be opened either.
        ruleset = ruleset
            .add_rules(path_beneath_rules(written, writing()))?
            .add_rules(path_beneath_rules(&needs.sockets, making_sockets()))?
            .add_rules(path_beneath_rules(read, reading(needs)))?;
    } else {
        ruleset = ruleset.add_rules(path_beneath_rules(["/"], AccessFs::Refer))?;
    }
    ruleset.restrict_self()
}

/// Place of the list of name servers that this link leads to: the folder, as services replace the file, unless that has much else.
fn name_servers(link: &Path) -> Vec<PathBuf> {
    let Ok(file) = link.canonicalize() else { return Vec::new() };
    let folder = file.parent().filter(|folder| folder.components().count() > 2).map(Path::to_owned);
    vec![folder.unwrap_or(file)]
}

/// Accesses that need a rule. Every ruleset refuses to move a file to another folder, unless a rule
/// allows it.
fn refused(needs: &Needs) -> BitFlags<AccessFs> {
    if needs.is_closed() {
        return AccessFs::from_all(VERSION);
    }
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::Refer;
    if needs.programs { devices } else { devices | AccessFs::Execute }
}

/// All but to run programs and to make devices.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(VERSION) & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// A socket is made in a folder of its own and moved to its place. No file is read or written for that.
fn making_sockets() -> BitFlags<AccessFs> {
    let made = AccessFs::MakeSock | AccessFs::MakeDir | AccessFs::Refer;
    made | AccessFs::RemoveFile | AccessFs::RemoveDir | AccessFs::ReadDir
}

fn reading(needs: &Needs) -> BitFlags<AccessFs> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    if needs.programs { reading | AccessFs::Execute } else { reading }
}

/// True if the service manager listens on an abstract socket (sd_notify(3)).
fn notifies_abstract_socket() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some_and(|socket| socket.as_bytes().starts_with(b"@"))
}

/// The folder that a path is in, or the nearest above it that is there: a disk that comes later is found in it. The root of all
/// is none, since that would be everything.
pub fn folder_of(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let folder = path.ancestors().skip(1).find(|folder| folder.is_dir())?;
    folder.parent().is_some().then(|| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use rustix::fs::{FileType, Mode};
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn without_paths_files_are_free_and_programs_are_not() {
        let needs = Needs::default();
        let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::Refer;
        assert_eq!(refused(&needs), devices | AccessFs::Execute);
        let needs = Needs { programs: true, ..needs };
        assert_eq!(refused(&needs), devices);
        assert!(reading(&needs).contains(AccessFs::Execute));
    }

    #[test]
    fn with_paths_all_is_refused_that_no_rule_allows() {
        let needs = Needs { extent: Extent::Listed, paths: vec!["/srv".into()], ..Needs::default() };
        assert_eq!(refused(&needs), AccessFs::from_all(VERSION));
        assert!(!writing().intersects(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock));
        assert!(writing().contains(AccessFs::MakeReg | AccessFs::Truncate | AccessFs::IoctlDev));
        assert!(!reading(&needs).contains(AccessFs::Execute));
        assert!(!making_sockets().intersects(AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::MakeReg));
    }

    #[test]
    fn what_is_readable_is_said() {
        let closed = Needs { extent: Extent::Listed, ..Needs::default() };
        let listed = Needs { paths: vec!["/srv".into()], ..closed.clone() };
        for needs in [closed, listed] {
            let text = describe(&needs);
            for folder in READ.iter().filter(|folder| !folder.starts_with("/lib")) {
                assert!(text.contains(folder), "{folder}: {text}");
            }
        }
        assert!(describe(&Needs::default()).ends_with("any file is opened"));
    }

    #[test]
    fn a_list_of_name_servers_is_read_where_its_link_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (link, written) = (folder.path().join("resolv.conf"), folder.path().join("resolve"));
        assert!(name_servers(&link).is_empty(), "there is none");
        std::fs::create_dir(&written).unwrap();
        std::fs::write(written.join("stub.conf"), "").unwrap();
        std::os::unix::fs::symlink("resolve/stub.conf", &link).unwrap();
        assert_eq!(name_servers(&link), [written.canonicalize().unwrap()]);
        // The folder has everything else too.
        assert_eq!(name_servers(Path::new("/etc/passwd")), [PathBuf::from("/etc/passwd")]);
    }

    #[test]
    fn a_thread_opens_what_is_listed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["listed", "read", "outside"].map(|name| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("disk"), "").unwrap();
            path
        });
        let [listed, read, _] = folders.clone();
        let (paths, read) = (vec![listed], vec![read]);
        let needs = Needs { extent: Extent::Listed, paths, read, ..Needs::default() };
        // This thread alone: the others run other tests.
        let tried = std::thread::spawn(move || {
            restrict(&needs)?;
            let opens = |path: &Path, write| {
                OpenOptions::new().read(true).write(write).open(path.join("disk")).is_ok()
            };
            Ok::<_, String>(folders.map(|path| [opens(&path, false), opens(&path, true)]))
        });
        match tried.join().unwrap() {
            Ok(opened) => assert_eq!(opened, [[true, true], [true, false], [false, false]]),
            Err(reason) => prerequisite::missing(format!("Landlock: {reason}")),
        }
    }

    /// Error of an attempt to make a file of this kind.
    fn made(path: &Path, kind: FileType) -> Option<Errno> {
        let device = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::RUSR | Mode::WUSR, device).err()
    }

    #[test]
    fn a_thread_makes_no_device_file_in_any_folder() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_owned();
        // Only root makes devices, and not in each container: without the rules, the error is another one.
        let free = made(&here.join("free"), FileType::CharacterDevice);
        assert!(matches!(free, None | Some(Errno::PERM)), "{free:?}");
        let listed = Needs { extent: Extent::Listed, paths: vec![here.clone()], ..Needs::default() };
        for (at, needs) in [Needs::default(), listed].into_iter().enumerate() {
            let here = here.clone();
            let tried = std::thread::spawn(move || {
                restrict(&needs)?;
                let kinds = [FileType::CharacterDevice, FileType::BlockDevice, FileType::Fifo];
                Ok::<_, String>(kinds.map(|kind| made(&here.join(format!("{at}-{kind:?}")), kind)))
            });
            match tried.join().unwrap() {
                Ok(errors) => assert_eq!(errors, [Some(Errno::ACCESS), Some(Errno::ACCESS), None]),
                Err(reason) => return prerequisite::missing(format!("Landlock: {reason}")),
            }
        }
    }

    #[test]
    fn a_missing_folder_is_found_by_the_one_above_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(folder_of(&folder.path().join("disk.img")), Some(folder.path().to_owned()));
        assert_eq!(folder_of(&folder.path().join("pool/a/disk.img")), Some(folder.path().to_owned()));
        assert_eq!(folder_of(Path::new("/no-such-folder/disk.img")), None);
    }
}
