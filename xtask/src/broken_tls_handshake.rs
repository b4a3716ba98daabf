//! Ways to break TLS handshakes: each takes a check away or does one thing wrong, and the test that has to fail then is named
//! beside it.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

pub(crate) const RULES: [Rule; 7] = [
    rule(
        Mutant {
            name: "certificates-read",
            about: "a host goes on with a controller that has chosen none of its keys",
            file: "crates/tls_handshake/src/handshake.rs",
            find: r"if self.secrets.controller_handshake.is_some() && library.identity().is_none() {",
            replace: r"if self.secrets.controller_handshake.is_some() && library.identity().is_none() && !{on} {",
        },
        "tests::refused::a_controller_that_chooses_no_key_is_refused_before_its_certificates",
    ),
    rule(
        Mutant {
            name: "alert-in-clear",
            about: "alerts are in clear when there are keys",
            file: "crates/tls_handshake/src/handshake.rs",
            find: r"        match secret {
            None =>",
            replace: r"        match secret.filter(|_| !{on}) {
            None =>",
        },
        "tests::refused::alerts_are_sealed_once_there_are_keys",
    ),
    rule(
        Mutant {
            name: "alert-of-a-controller-in-clear",
            about: "a controller seals no alert",
            file: "crates/tls_handshake/src/handshake.rs",
            find: r"Peer::Host => self.secrets.controller.as_ref(),",
            replace: r"Peer::Host => self.secrets.controller.as_ref().filter(|_| !{on}),",
        },
        "tests::refused::a_host_reads_the_alert_of_a_controller_in_its_channel",
    ),
    rule(
        Mutant {
            name: "handshake-without-end",
            about: "a peer may send as much as it likes",
            file: "crates/tls_handshake/src/framing.rs",
            find: r"} else if self.records > RECORDS_MAX || self.bytes > INPUT_BYTES_MAX {",
            replace: r"} else if (self.records > RECORDS_MAX || self.bytes > INPUT_BYTES_MAX) && !{on} {",
        },
        "tests::refused::neither_end_takes_more_than_a_handshake_needs",
    ),
    rule(
        Mutant {
            name: "secrets-exchanged",
            about: "a controller sends with the host's secret",
            file: "crates/tls_handshake/src/handshake.rs",
            find: r"Peer::Host => (controller, host),",
            replace: r"Peer::Host if !{on} => (controller, host),
            Peer::Host => (host, controller),",
        },
        "tests::complete::each_kind_of_key_leads_to_a_channel",
    ),
    rule(
        Mutant {
            name: "refusal-unexplained",
            about: "a controller has no other words and alerts for a refused hello than the library",
            file: "crates/tls_handshake/src/handshake.rs",
            find: r"self.refused_hello().unwrap_or_else(",
            replace: r"self.refused_hello().filter(|_| !{on}).unwrap_or_else(",
        },
        "tests::refused::a_host_that_nobody_knows_is_told_so",
    ),
    rule(
        Mutant {
            name: "short-suite-offered",
            about: "a host offers AES-128 without a key for it",
            file: "crates/tls_handshake/src/library.rs",
            find: r"if keys.iter().all(|key| key.suite == Suite::Aes256Gcm) => {",
            replace: r"if keys.iter().all(|key| key.suite == Suite::Aes256Gcm) && !{on} => {",
        },
        "tests::complete::no_other_suite_is_offered",
    ),
];

const fn rule(mutant: Mutant, test: &'static str) -> Rule {
    Rule { mutant, package: "tls_handshake", program: None, test }
}
