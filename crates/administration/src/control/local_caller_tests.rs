//! Users of this machine on the Unix socket: with an access file, those that it does not name may do nothing. Their numbers are
//! those that the kernel gives with a connection, handed in where the server hands them in.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target};
use prerequisite::missing;
use tempfile::TempDir;

use super::access::{Access, Peer};
use super::access_tests::{MINE, OTHER};
use super::administration::Administration;
use super::in_process::InProcess;
use super::routes::{LIVE_PATH, ROUTES};
use super::test_target;
use crate::spec::role::Role;

/// A user that no system has, and no file names.
const STRANGER: u32 = 3_000_000_017;
/// Another one, for files to name.
const NAMED: u32 = 3_000_000_018;

/// Connection of a user's process.
const fn local(uid: u32) -> Peer {
    Peer::Local { uid, pid: None }
}

/// Access by a file with this content.
fn access(folder: &Path, content: &str) -> Arc<Access> {
    let path = folder.join("access.toml");
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    Arc::new(Access::new(Some(&path), None).unwrap())
}

/// The API of a target with two subsystems, as it is for one user.
struct Testbed {
    target: Arc<Target>,
    api: InProcess,
    _folder: TempDir,
}

impl Testbed {
    fn new(content: &str, uid: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let subsystem = |nqn| {
            let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
            SubsystemConfig::new(nqn, "A", "Selvedge").with(vec![namespace])
        };
        let target = test_target::start(FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![subsystem(MINE), subsystem(OTHER)],
            ..FabricConfig::default()
        });
        let administration = Arc::new(Administration::new(target.clone(), None).unwrap());
        let api = InProcess::of_peer(administration, access(folder.path(), content), local(uid)).unwrap();
        Self { target, api, _folder: folder }
    }

    /// Status and body of an answer.
    fn ask(&self, method: &str, path: &str) -> (u16, String) {
        let reply = self.api.ask(method, path, b"").unwrap();
        (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
    }
}

/// Path of a route, with names of nothing beside the subsystem.
fn path_of(route: &str, nqn: &str) -> String {
    let path = route.replace("{nqn}", nqn).replace("{nsid}", "9").replace("{id}", "9");
    path.replace(['{', '}'], "").replace(LIVE_PATH, "/v1/live?once")
}

#[test]
fn a_user_whom_the_access_file_does_not_name_may_do_nothing() {
    let others = format!(
        "[[user]]\nname = \"{NAMED}\"\nrole = \"admin\"\n[[user]]\nname = \"root\"\nrole = \"read\"\n\
         [[group]]\nname = \"0\"\nrole = \"admin\"\n[[group]]\nname = \"{STRANGER}\"\nrole = \"admin\"\n"
    );
    for content in ["", others.as_str()] {
        let testbed = Testbed::new(content, STRANGER);
        for route in ROUTES {
            let path = path_of(route.path, MINE);
            let (status, body) = testbed.ask(route.method, &path);
            assert_eq!(status, 403, "{} {path}: {body}", route.method);
            assert!(body.contains(&format!("user {STRANGER} may not use this target")), "{path}: {body}");
        }
        let config = testbed.target.config();
        let served: Vec<&str> = config.subsystems.iter().map(|subsystem| subsystem.nqn.as_str()).collect();
        assert_eq!(served, [MINE, OTHER]);
    }
}

#[test]
fn a_user_whom_the_access_file_names_has_its_role_and_no_more() {
    let content = format!("[[user]]\nname = \"{NAMED}\"\nrole = \"operate\"\nsubsystems = [\"{MINE}\"]\n");
    let testbed = Testbed::new(&content, NAMED);
    for route in ROUTES {
        for nqn in [MINE, OTHER] {
            let path = path_of(route.path, nqn);
            let allowed = route.needs < Role::Operate || (route.needs == Role::Operate && nqn == MINE);
            let (status, body) = testbed.ask(route.method, &path);
            assert_eq!(status != 403, allowed, "{} {path}: {status} {body}", route.method);
        }
    }
}

#[test]
fn root_and_the_targets_user_need_no_entry_and_others_lose_theirs_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let access = access(folder.path(), &format!("[[user]]\nname = \"{NAMED}\"\nrole = \"read\"\n"));
    let own = rustix::process::geteuid().as_raw();
    let role = |uid| access.identify(&local(uid), None).map(|caller| caller.rights.role);
    let roles = || [0, own, NAMED, STRANGER].map(|uid| role(uid).map_err(|refusal| refusal.status));
    assert_eq!(roles(), [Ok(Role::Admin), Ok(Role::Admin), Ok(Role::Read), Err(403)]);
    std::fs::remove_file(folder.path().join("access.toml")).unwrap();
    assert_eq!(roles(), [Ok(Role::Admin), Ok(Role::Admin), Err(403), Err(403)]);
    // A token is for other addresses: a user does not become another one by it.
    let header = Some(&b"Bearer selvedge_token"[..]);
    assert_eq!(access.identify(&local(STRANGER), header).map(drop).unwrap_err().status, 403);
}

#[test]
fn a_group_of_the_access_file_admits_its_members_alone() {
    let own = rustix::process::geteuid().as_raw();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let uids = passwd.lines().filter_map(|line| line.split(':').nth(2)?.parse::<u32>().ok());
    let member = uids.filter(|&uid| uid != 0 && uid != own).find_map(|uid| {
        let group = uzers::get_user_by_uid(uid)?.groups()?.into_iter().next()?;
        Some((uid, group.gid()))
    });
    let Some((uid, gid)) = member else { return missing("a user with a group, beside root and our own") };
    let folder = tempfile::tempdir().unwrap();
    let role = |content: &str, uid| {
        let known = access(folder.path(), content).identify(&local(uid), None);
        known.map(|caller| caller.rights.role).map_err(|refusal| refusal.status)
    };
    let group = format!("[[group]]\nname = \"{gid}\"\nrole = \"read\"\n");
    assert_eq!(role(&group, uid), Ok(Role::Read));
    assert_eq!(role(&group, STRANGER), Err(403));
    assert_eq!(role("", uid), Err(403));
    // The highest of several roles counts.
    let both = format!("{group}[[user]]\nname = \"{uid}\"\nrole = \"metrics\"\n");
    assert_eq!(role(&both, uid), Ok(Role::Read));
}
