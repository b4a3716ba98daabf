//! The filter of system calls (seccomp(2)): what a target makes is allowed, all else fails with EPERM.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};

use super::system_calls::{ATTACH, BLOCK_DEVICES, CEPH, LIMITED, Limit, PROGRAMS, TARGET};
use super::{Measure, Needs};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Has the kernel refuse all other calls.
pub(super) fn filter(needs: &Needs) -> Result<Measure, String> {
    let failed = |error: &dyn std::fmt::Display| format!("the kernel refuses the filter: {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("there is no filter for {}", std::env::consts::ARCH))?;
    let rules = rules(needs).map_err(|error| failed(&error))?;
    let count = rules.len();
    let allowed = compile(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, arch);
    let allowed = allowed.map_err(|error| failed(&error))?;
    let without_clone3 = without_clone3(arch).map_err(|error| failed(&error))?;
    let apply = |filter: &BpfProgram| apply_filter_all_threads(filter).map_err(|error| reason(&error));
    // In this order: the second no longer allows a third.
    if !needs.programs {
        apply(&without_clone3)?;
    }
    apply(&allowed)?;
    let ceph = if needs.ceph { ", with those of Ceph's libraries" } else { "" };
    Ok(Measure::on(format!("{count} system calls{ceph}")))
}

fn reason(error: &Error) -> String {
    match error {
        Error::Seccomp(error) | Error::Prctl(error) => format!("the kernel refuses the filter: {error}"),
        error => format!("the kernel refuses the filter: {error}"),
    }
}

fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
    arch: TargetArch,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, otherwise, matched, arch)?.try_into()
}

/// The calls that are allowed, and with which arguments.
fn rules(needs: &Needs) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    for (call, limit) in LIMITED {
        rules.insert(*call, limited(limit)?);
    }
    if needs.block_devices {
        for (call, limit) in BLOCK_DEVICES {
            rules.entry(*call).or_default().extend(limited(limit)?);
        }
    }
    let mut allow = |calls: &[i64]| rules.extend(calls.iter().map(|call| (*call, Vec::new())));
    TARGET.iter().for_each(|group| allow(group));
    if needs.ceph {
        allow(CEPH);
    }
    if needs.attach {
        allow(ATTACH);
    }
    if needs.programs {
        allow(PROGRAMS);
    }
    Ok(rules)
}

/// Rules for an argument: one for each permitted value.
fn limited(limit: &Limit) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |at: u8, operator: SeccompCmpOp, value: u64| {
        // The kernel looks at no more of these arguments.
        let condition = SeccompCondition::new(at, SeccompCmpArgLen::Dword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    match limit {
        Limit::OneOf(at, values) => values.iter().map(|value| rule(*at, SeccompCmpOp::Eq, *value)).collect(),
        Limit::With(at, flag) => Ok(vec![rule(*at, SeccompCmpOp::MaskedEq(*flag), *flag)?]),
        Limit::Without(at, flag) => Ok(vec![rule(*at, SeccompCmpOp::MaskedEq(*flag), 0)?]),
        Limit::ThisProcess(at) => Ok(vec![rule(*at, SeccompCmpOp::Eq, u64::from(std::process::id()))?]),
    }
}

/// Has clone3 seem to be missing. A filter cannot see whether it makes a thread or a process; the C library then takes clone,
/// of which it can.
fn without_clone3(arch: TargetArch) -> Result<BpfProgram, BackendError> {
    let rules = Rules::from([(libc::SYS_clone3, Vec::new())]);
    compile(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32), arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ceph: bool, programs: bool) -> Rules {
        rules(&Needs { ceph, programs, ..Needs::default() }).unwrap()
    }

    #[test]
    fn programs_are_run_only_where_that_is_needed() {
        assert!(!calls(true, false).contains_key(&libc::SYS_execve));
        assert!(calls(false, true).contains_key(&libc::SYS_execve));
        let clone = |programs| calls(false, programs)[&libc::SYS_clone].is_empty();
        assert!(!clone(false), "threads alone");
        assert!(clone(true), "processes too");
    }

    #[test]
    fn block_devices_need_one_more_control() {
        let rules = |block_devices| {
            rules(&Needs { attach: true, block_devices, ..Needs::default() }).unwrap()[&libc::SYS_ioctl].len()
        };
        assert_eq!(rules(true), rules(false) + 1);
    }

    #[test]
    fn code_is_loaded_only_with_libraries_or_programs() {
        let is_free = |ceph, programs| calls(ceph, programs)[&libc::SYS_mprotect].is_empty();
        assert!(!is_free(false, false));
        assert!(is_free(true, false) && is_free(false, true));
    }

    #[test]
    fn what_takes_over_a_machine_is_never_allowed() {
        let all = calls(true, true);
        for call in [
            libc::SYS_ptrace,
            libc::SYS_process_vm_writev,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_bpf,
            libc::SYS_init_module,
            libc::SYS_kexec_load,
            libc::SYS_keyctl,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_seccomp,
        ] {
            assert!(!all.contains_key(&call), "{call}");
        }
    }

    #[test]
    fn a_target_has_about_as_many_calls_as_the_documents_say() {
        let count = calls(false, false).len();
        // Older names of calls are x86-64's alone.
        let expected = if cfg!(target_arch = "x86_64") { 115..=125 } else { 100..=125 };
        assert!(expected.contains(&count), "{count}: docs/security.md says about 120");
    }

    #[test]
    fn the_filter_is_one_that_the_kernel_takes() {
        for (ceph, programs) in [(false, false), (true, false), (true, true)] {
            let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
            let allow = SeccompAction::Allow;
            let filter = compile(calls(ceph, programs), SeccompAction::Errno(1), allow, arch).unwrap();
            assert!(filter.len() < 4096, "{} instructions (BPF_MAXINSNS)", filter.len());
        }
    }

    #[test]
    fn a_thread_with_the_filter_starts_no_process() {
        let tried = std::thread::spawn(|| {
            // This thread alone: the others run other tests.
            let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
            let refuse = SeccompAction::Errno(libc::EPERM as u32);
            let filter = compile(calls(false, false), refuse, SeccompAction::Allow, arch).unwrap();
            seccompiler::apply_filter(&without_clone3(arch).unwrap()).unwrap();
            seccompiler::apply_filter(&filter).unwrap();
            let program = std::process::Command::new("/bin/true").status();
            let thread = std::thread::Builder::new().spawn(|| 1).map(|thread| thread.join().unwrap());
            let socket =
                rustix::net::socket(rustix::net::AddressFamily::PACKET, rustix::net::SocketType::DGRAM, None);
            (program, thread, socket.map(drop))
        });
        let (program, thread, socket) = tried.join().unwrap();
        assert_eq!(program.unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(thread.unwrap(), 1);
        assert_eq!(socket, Err(rustix::io::Errno::PERM));
    }
}
