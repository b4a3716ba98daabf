//! Modules of the C library for names of users and groups (nss(5)), loaded before the process is confined, which can map no code
//! afterwards. No name is looked up for that: a directory service that does not answer does not hold up the start. A static program
//! does without them.

use std::collections::BTreeSet;
use std::ffi::CString;
#[cfg(target_env = "gnu")]
use std::ffi::{c_char, c_int};

/// Configuration of the modules.
const CONFIGURATION: &str = "/etc/nsswitch.conf";
/// Databases of it that name users, groups, and the groups of a user.
const DATABASES: [&str; 5] = ["passwd", "group", "initgroups", "passwd_compat", "group_compat"];

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no library has this function")]
unsafe extern "C" {
    /// Sets the sources of a database for this process (nss.h).
    fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
}

/// Prepares look-ups of names: loads the modules that this machine is configured to use, or has a static program look only into the
/// machine's own lists. A C library inside the program that loads a module crashes, then or at a look-up, which any user can cause.
pub(super) fn prepare(is_static: bool) {
    match is_static {
        true => look_into_files(),
        false => load_configured(),
    }
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no library has this function")]
fn look_into_files() {
    for database in [c"passwd", c"group", c"initgroups"] {
        // SAFETY: both texts end in a zero byte, and the function keeps neither. It takes the C library's own locks.
        let status = unsafe { __nss_configure_lookup(database.as_ptr(), c"files".as_ptr()) };
        if status != 0 {
            tracing::warn!(?database, "cannot keep look-ups of names to the machine's own lists");
        }
    }
}

/// Other C libraries look nowhere else.
#[cfg(not(target_env = "gnu"))]
const fn look_into_files() {}

fn load_configured() {
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
            prepare(true);
            let root = uzers::get_user_by_uid(0).unwrap();
            assert_eq!(root.name(), "root");
            let _ =
                (root.groups(), uzers::get_user_by_uid(u32::MAX - 1), uzers::get_group_by_gid(u32::MAX - 1));
            let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
            assert!(!mapped.contains("/libnss_"), "{mapped}");
            return;
        }
        let test = "control::access::name_modules::tests::a_static_program_looks_names_up_without_modules";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", test]).env(INSIDE, "1").output().unwrap();
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
