//! The Debian packages that the suites need: which are missing, and how they get here. It keeps out
//! what they are for.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::command::Step;
use crate::suite::Fault;

/// Package lists older than this name versions that the mirror may have dropped.
const LISTS_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A package, and the program or file that shows that it is here.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) evidence: &'static str,
}

/// For a list of the checkout's files.
pub(crate) const CHECK: [Package; 1] = [Package { name: "git", evidence: "git" }];

/// For tests on a machine that has everything (crates/prerequisite): networks and terminals of
/// their own, disks that fail or are late, Ceph's libraries, others' TLS, and Prometheus' rules.
pub(crate) const UNIT: [Package; 12] = [
    Package { name: "iproute2", evidence: "ip" },
    Package { name: "bsdutils", evidence: "script" },
    Package { name: "util-linux", evidence: "unshare" },
    Package { name: "mount", evidence: "losetup" },
    Package { name: "e2fsprogs", evidence: "mkfs.ext4" },
    Package { name: "librados2", evidence: "/var/lib/dpkg/info/librados2.list" },
    Package { name: "librbd1", evidence: "/var/lib/dpkg/info/librbd1.list" },
    Package { name: "openssl", evidence: "openssl" },
    Package { name: "gnutls-bin", evidence: "gnutls-serv" },
    Package { name: "curl", evidence: "curl" },
    Package { name: "prometheus", evidence: "promtool" },
    Package { name: "strace", evidence: "strace" },
];

/// Others' NBD clients.
pub(crate) const ATTACH: [Package; 6] = [
    Package { name: "qemu-utils", evidence: "qemu-io" },
    Package { name: "libnbd-bin", evidence: "nbdcopy" },
    Package { name: "python3-libnbd", evidence: "nbdsh" },
    Package { name: "diffutils", evidence: "cmp" },
    Package { name: "fio", evidence: "fio" },
    Package { name: "gnutls-bin", evidence: "psktool" },
];

/// For building and running the guest.
pub(crate) const GUEST: [Package; 9] = [
    Package { name: "qemu-system-x86", evidence: "qemu-system-x86_64" },
    Package { name: "seabios", evidence: "/usr/share/seabios/bios-256k.bin" },
    Package { name: "cpio", evidence: "cpio" },
    Package { name: "zstd", evidence: "zstd" },
    Package { name: "xz-utils", evidence: "xz" },
    Package { name: "kmod", evidence: "depmod" },
    Package { name: "binutils", evidence: "readelf" },
    Package { name: "mount", evidence: "losetup" },
    Package { name: "debian-archive-keyring", evidence: "/usr/share/keyrings/debian-archive-keyring.gpg" },
];

/// For making packages, checking them, and the Debians that they are installed in.
pub(crate) const INSTALL: [Package; 11] = [
    Package { name: "prometheus", evidence: "promtool" },
    Package { name: "git", evidence: "git" },
    Package { name: "binutils", evidence: "objcopy" },
    Package { name: "lintian", evidence: "lintian" },
    Package { name: "pkgconf", evidence: "pkg-config" },
    Package { name: "rpm", evidence: "rpm" },
    Package { name: "mmdebstrap", evidence: "mmdebstrap" },
    Package { name: "qemu-system-x86", evidence: "qemu-system-x86_64" },
    Package { name: "qemu-utils", evidence: "qemu-img" },
    Package { name: "seabios", evidence: "/usr/share/seabios/bios-256k.bin" },
    Package { name: "e2fsprogs", evidence: "mke2fs" },
];

/// For building the fuzzers: libFuzzer is C++.
pub(crate) const FUZZ: [Package; 1] = [Package { name: "g++", evidence: "g++" }];

/// For viewing pages: a browser, and a font for it.
pub(crate) const BROWSER: [Package; 2] = [
    Package { name: "chromium", evidence: "/usr/bin/chromium" },
    Package { name: "fonts-dejavu-core", evidence: "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf" },
];

/// For networks with many links.
pub(crate) const PATHS: [Package; 2] =
    [Package { name: "iproute2", evidence: "ip" }, Package { name: "util-linux", evidence: "chrt" }];

/// For hosts with several paths: such networks, and the guest.
pub(crate) const PATHS_SUITE: [Package; 11] = {
    let [a, b, c, d, e, f, g, h, i] = GUEST;
    let [j, k] = PATHS;
    [a, b, c, d, e, f, g, h, i, j, k]
};

/// For the tuner's suite: such networks, and a user without rights.
pub(crate) const TUNE: [Package; 2] =
    [Package { name: "iproute2", evidence: "tc" }, Package { name: "util-linux", evidence: "setpriv" }];

/// For chaos: such networks, and a disk that is small.
pub(crate) const CHAOS: [Package; 3] = [
    Package { name: "iproute2", evidence: "ip" },
    Package { name: "util-linux", evidence: "unshare" },
    Package { name: "mount", evidence: "mount" },
];

/// For a small Ceph and its clients. Where services run, these packages start targets without a
/// service in them: there is no configuration, and the lab's daemons are its own.
pub(crate) const CEPH: [Package; 7] = [
    Package { name: "ceph-mon", evidence: "ceph-mon" },
    Package { name: "ceph-mgr", evidence: "ceph-mgr" },
    Package { name: "ceph-osd", evidence: "ceph-osd" },
    Package { name: "ceph-common", evidence: "rbd" },
    Package { name: "librados2", evidence: "/var/lib/dpkg/info/librados2.list" },
    Package { name: "librbd1", evidence: "/var/lib/dpkg/info/librbd1.list" },
    Package { name: "util-linux", evidence: "setpriv" },
];

/// For installing ceph-nvmeof's command, of which one part is compiled, and making certificates for
/// it.
pub(crate) const CEPH_NVMEOF: [Package; 3] = [
    Package { name: "python3-venv", evidence: "/var/lib/dpkg/info/python3-venv.list" },
    Package { name: "python3-dev", evidence: "/var/lib/dpkg/info/python3-dev.list" },
    Package { name: "openssl", evidence: "openssl" },
];

/// For Ceph without a gateway, beside a Ceph.
pub(crate) const CEPH_BENCH: [Package; 1] = [Package { name: "fio", evidence: "fio" }];

/// For the other storage servers and their clients. Where services run, Debian's tgt starts one of
/// its own, which is left alone: the measurement has its own process and its own ports.
pub(crate) const PEERS: [Package; 5] = [
    Package { name: "tgt", evidence: "tgtd" },
    Package { name: "libiscsi-bin", evidence: "iscsi-perf" },
    Package { name: "qemu-utils", evidence: "qemu-nbd" },
    Package { name: "fio", evidence: "fio" },
    Package { name: "util-linux", evidence: "taskset" },
];

/// For qemu-img as an iSCSI host. The package has to be of QEMU's own version, and is absent where
/// QEMU is from elsewhere.
pub(crate) const PEERS_BLOCK: [Package; 1] =
    [Package { name: "qemu-block-extra", evidence: "/var/lib/dpkg/info/qemu-block-extra.list" }];

/// For a second opinion on latencies.
pub(crate) const LATENCY: [Package; 3] = [
    Package { name: "tcpdump", evidence: "tcpdump" },
    Package { name: "tshark", evidence: "tshark" },
    Package { name: "fio", evidence: "fio" },
];

/// Installs what is missing.
///
/// # Errors
/// Installs the packages; a mirror that does not answer is the laboratory's fault.
pub(crate) fn ensure(packages: &[Package]) -> Result<(), Fault> {
    let missing: Vec<&str> =
        packages.iter().filter(|package| !is_here(package.evidence)).map(|package| package.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let wanted = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    if !is_here("apt-get") {
        return Err(format!("missing packages, by their names in Debian: {}", missing.join(" ")).into());
    }
    let Some(sudo) = way_to_root() else {
        return Err(format!("missing packages; as root: {wanted}").into());
    };
    if lists_are_stale() && !apt(sudo, &["update"]).run().passed {
        return Err(Fault::Laboratory(format!("apt-get update failed; needed: {wanted}")));
    }
    let install = ["install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];
    if apt(sudo, &[&install[..], &missing].concat()).run().passed {
        Ok(())
    } else {
        Err(Fault::Laboratory(format!("failed: {wanted}")))
    }
}

/// True if a program (or, with a path, a file) exists. System programs are not in every user's
/// PATH.
pub(crate) fn is_here(evidence: &str) -> bool {
    if evidence.starts_with('/') {
        return Path::new(evidence).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/local/sbin", "/usr/sbin", "/sbin"]);
    folders.into_iter().any(|folder| Path::new(folder).join(evidence).is_file())
}

/// True if this process runs as root.
pub(crate) fn is_root() -> bool {
    Step::new("id", &["-u"]).run_quietly().output.trim() == "0"
}

/// Prefix of commands as root: empty for root, sudo when it asks no questions, or None.
fn way_to_root() -> Option<&'static [&'static str]> {
    if is_root() {
        Some(&[])
    } else if is_here("sudo") && Step::new("sudo", &["-n", "true"]).run_quietly().passed {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

fn apt(sudo: &[&str], args: &[&str]) -> Step {
    // sudo drops the environment, so the variable is set behind it.
    let words = [sudo, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"], args].concat();
    Step::new(words[0], &words[1..]).limit_s(900)
}

fn lists_are_stale() -> bool {
    let Ok(lists) = std::fs::read_dir("/var/lib/apt/lists") else { return true };
    let newest = lists
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains("_InRelease"))
        .filter_map(|entry| entry.metadata().ok()?.modified().ok())
        .max();
    // A time in the future is not old.
    newest.is_none_or(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > LISTS_AGE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_is_here() {
        assert!(is_here("sh"));
        assert!(is_here("/bin/sh"));
        assert!(!is_here("selvedge-no-such-program"));
        assert!(ensure(&[Package { name: "dash", evidence: "sh" }]).is_ok());
    }
}
