//! Secrets of hosts: no command returns one, neither to another host nor to one without a proof.

use authentication::Secret;
use engine::target::HostKeyConfig;
use nvme::Status;
use nvme::discovery::DISCOVERY_NQN;
use nvme::features::{FeatureId, Select};
use nvme::identify::{Cns, IdentifyRequest};
use nvme::log_page::{LogPageId, LogPageRequest};

use crate::raw_host::proof::host_key;
use crate::raw_host::{ENGINES, HOST_NQN, Host, NQN, Options, Reply, TestTarget};

const OTHER: &str = "nqn.2014-08.org.example:with-secret";

/// Secret whose bytes stand nowhere else.
fn secret(first: u8) -> Secret {
    let bytes: Vec<u8> = (0..32).map(|at| (at * 7) ^ first).collect();
    Secret::new(&bytes, None).unwrap()
}

/// Forms in which a secret could be returned: its text, and its bytes.
fn forms(first: u8) -> [Vec<u8>; 2] {
    let text = secret(first).reveal().as_bytes()[10..40].to_vec();
    [text, (0..32).map(|at| (at * 7) ^ first).collect()]
}

/// Data of all reports that a host can ask for: Identify, log pages, and features.
fn reported(host: &mut Host) -> Vec<u8> {
    let mut reports = Vec::new();
    let mut add = |reply: Reply| {
        reports.extend(reply.data);
        reports.extend(reply.result.to_le_bytes());
        reply.status
    };
    for number in 0..=u8::MAX {
        for nsid in [0, 1, u32::MAX] {
            add(host.admin.identify(nsid, IdentifyRequest::new(Cns(number))));
            let request = LogPageRequest::new(LogPageId(number), 0, 4096);
            add(host.admin.log_page_of(nsid, &request));
        }
        for select in [Select::Current, Select::Default, Select::Saved, Select::Capabilities] {
            add(host.admin.get_feature(FeatureId(number), select, 0, 4096));
        }
    }
    assert_eq!(add(host.admin.identify(0, IdentifyRequest::new(Cns::CONTROLLER))), Status::SUCCESS);
    for offset in (0..0x100).step_by(4) {
        add(host.admin.property(offset, false));
    }
    reports
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn a_host_reads_no_secret_by_any_report() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let target = TestTarget::start_with(engine, |config| {
            let controller = host_key(folder.path(), "controller", &secret(2)).dhchap_secret_file;
            let key = host_key(folder.path(), OTHER, &secret(1));
            let key = HostKeyConfig { dhchap_ctrl_secret_file: controller, ..key };
            config.fabric.subsystems[0].host_keys = vec![key];
        });
        let discovery = Options { subsystem_nqn: DISCOVERY_NQN.to_owned(), ..Options::default() };
        for options in [Options::default(), discovery] {
            let mut host = Host::connect_with(target.address(), options);
            let reports = reported(&mut host);
            assert!(
                contains(&reports, NQN.as_bytes()),
                "Identify and the discovery log have the subsystem's name"
            );
            for secret in [1, 2].into_iter().flat_map(forms) {
                assert!(!contains(&reports, &secret), "{HOST_NQN} reads a secret of {OTHER}");
            }
        }
    }
}
