//! Modules of the C library for names of users and groups (nss(5)), loaded before the process is confined, which can map no code
//! afterwards. No name is looked up for that: a directory service that does not answer does not hold up the start. A static program
//! does without them (`command_line::name_sources`).

use std::collections::BTreeSet;
use std::ffi::CString;

/// Configuration of the modules.
const CONFIGURATION: &str = "/etc/nsswitch.conf";
/// Databases of it that name users, groups, and the groups of a user.
const DATABASES: [&str; 5] = ["passwd", "group", "initgroups", "passwd_compat", "group_compat"];

/// Loads the modules that this machine is configured to use.
pub(super) fn load_configured() {
    // Comments may be in any encoding.
    let configuration = std::fs::read(CONFIGURATION).unwrap_or_default();
    let configuration = String::from_utf8_lossy(&configuration);
    for name in services(&configuration).into_iter().filter(|name| !load(name)) {
        tracing::debug!(source = name, "there is no module of the C library for this source of names");
    }
}

/// Loads one module for good, under the name by which the C library loads it, and finds it later. Returns true if it is there.
#[allow(unsafe_code, reason = "no library here has dlopen(3) without unloading")]
fn load(service: &str) -> bool {
    let Ok(file) = CString::new(format!("libnss_{service}.so.2")) else { return false };
    // SAFETY: the name ends in a zero byte and outlives the call. Initializers of the module are those that the first look-up of a
    // name would run, on any thread: they need nothing of this program.
    let module = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY) };
    !module.is_null()
}

/// Sources of names, in this text.
fn services(configuration: &str) -> BTreeSet<&str> {
    let lines = configuration.lines().filter_map(|line| line.split('#').next()?.split_once(':'));
    let listed = lines.filter(|(database, _)| DATABASES.contains(&database.trim()));
    // Conditions for further sources are in brackets between them.
    let names =
        listed.flat_map(|(_, names)| names.split(['[', ']']).step_by(2).flat_map(str::split_whitespace));
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::net::ToSocketAddrs as _;
    use std::process::Command;

    use prerequisite::missing;

    use super::*;

    #[test]
    fn sources_of_users_and_groups_are_found() {
        let configuration = "# passwd: nis\npasswd:\tfiles [NOTFOUND=return UNAVAIL=continue] sss # ldap\n\
                             group: files systemd\ninitgroups:sss [SUCCESS=continue]ldap\nhosts: files dns\n";
        assert_eq!(
            services(configuration).into_iter().collect::<Vec<_>>(),
            ["files", "ldap", "sss", "systemd"]
        );
        assert_eq!(services("").len(), 0);
    }

    /// Mark of a test that runs in a process of its own.
    const INSIDE: &str = "SELVEDGE_TEST_IN_PROCESS";

    #[test]
    fn a_static_program_looks_names_up_without_modules() {
        if std::env::var_os(INSIDE).is_some() {
            command_line::name_sources::keep_to_own();
            let root = uzers::get_user_by_uid(0).unwrap();
            assert_eq!(root.name(), "root");
            let _ =
                (root.groups(), uzers::get_user_by_uid(u32::MAX - 1), uzers::get_group_by_gid(u32::MAX - 1));
            // A container may have no list.
            let list = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
            let mut lines = list.lines().filter(|line| !line.starts_with('#'));
            let is_listed = lines.any(|line| line.split_whitespace().skip(1).any(|name| name == "localhost"));
            let found = ("localhost", 1).to_socket_addrs();
            assert!(!is_listed || found.is_ok_and(|found| found.count() > 0));
            // Behind the machine's own list is DNS, which may be silent here.
            let _ = ("name.invalid.", 1).to_socket_addrs();
            let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
            assert!(!mapped.contains("/libnss_"), "{mapped}");
            return;
        }
        let test = "control::access::name_modules::tests::a_static_program_looks_names_up_without_modules";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test]).env(INSIDE, "1").env("RES_OPTIONS", "timeout:1 attempts:1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn a_module_stays_loaded() {
        assert!(!load("none\0") && !load("no_module_of_this_name"));
        if !load("files") {
            return missing("a module of the C library for names");
        }
        let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(mapped.contains("/libnss_files.so.2") || mapped.contains("/libnss_files-"), "{mapped}");
    }
}
