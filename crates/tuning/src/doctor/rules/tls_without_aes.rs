//! Encrypted connections on processors without instructions for AES.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "tls-without-aes", judge };

fn judge(case: &Case) -> Vec<Finding> {
    let served: u64 = case.targets.iter().map(|target| target.tls_queues).sum();
    let kernels: Vec<&str> = case
        .host
        .controllers
        .iter()
        .filter(|controller| controller.has_tls)
        .map(|controller| controller.name.as_str())
        .collect();
    if case.host.has_aes != Some(false) || served == 0 && kernels.is_empty() {
        return Vec::new();
    }
    let cause =
        "TLS is computed without instructions for AES: this machine's processors tell none".to_owned();
    let mut finding = Finding::new(Severity::MayCost, "processors", cause)
        // Software does about 100 MB/s for each processor.
        .ranked(0.8)
        .seen("/proc/cpuinfo: no aes among the flags".to_owned());
    if served > 0 {
        finding = finding.seen(format!("{} with TLS", chart::units::plural(served, "served queue")));
    }
    if !kernels.is_empty() {
        finding = finding.seen(format!("controllers with TLS: {}", kernels.join(", ")));
    }
    vec![finding.cure(
        "Give a virtual machine the host's processor model (`-cpu host`), or use a machine with these instructions.",
        "Sealing and opening take a tenth of the processor time, or less.",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::kernel_controllers::KernelController;
    use crate::doctor::sample::{healthy, named_first, with_target};

    fn with_tls(has_aes: Option<bool>) -> Case {
        let mut case = with_target();
        case.targets[0].tls_queues = 2;
        case.host.has_aes = has_aes;
        case
    }

    #[test]
    fn either_end_with_tls_is_named() {
        assert!(named_first(&with_tls(Some(false)), RULE.name).evidence[1].contains("2 served queues"));
        let mut kernel = healthy();
        kernel.host.has_aes = Some(false);
        let controller = KernelController { name: "nvme3".into(), has_tls: true, ..Default::default() };
        kernel.host.controllers = vec![controller];
        assert!(named_first(&kernel, RULE.name).evidence[1].contains("nvme3"));
        let mut both = with_tls(Some(false));
        both.host.controllers = kernel.host.controllers;
        assert_eq!(named_first(&both, RULE.name).evidence.len(), 3);
    }

    #[test]
    fn look_alikes_are_well() {
        let mut clear = healthy();
        clear.host.has_aes = Some(false);
        for case in [with_tls(Some(true)), with_tls(None), clear] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
