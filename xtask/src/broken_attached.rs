//! Ways to break what clients of an attached disk rely on: TLS of NBD clients, and what a virtual machine's memory says of requests
//! that were under way when a process died. Each has the test that has to fail then.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

/// What was under way is done again by the next process.
const DONE_AGAIN: &str = "vhost_user::inflight::tests::what_was_not_answered_is_done_again_in_order";

pub(crate) const RULES: [Rule; 7] = [
    Rule {
        mutant: Mutant {
            name: "nbd-without-tls",
            about: "a client may do without TLS where it is required",
            file: "crates/nbd/src/handshake.rs",
            find: r"self.tls == Tls::Required && !self.is_secure;",
            replace: r"self.tls == Tls::Required && !self.is_secure && !{on};",
        },
        package: "nbd",
        program: None,
        test: "tests::handshake::without_required_tls_nothing_is_told",
    },
    Rule {
        mutant: Mutant {
            name: "nbd-agreed-in-clear",
            about: "what was agreed before TLS holds behind it, whoever has said it",
            file: "crates/nbd/src/handshake.rs",
            find: r"    pub const fn secured(&mut self) {
        self.is_secure = true;",
            replace: r"    pub fn secured(&mut self) {
        self.is_secure = true;
        if {on} {
            return;
        }",
        },
        package: "nbd",
        program: None,
        test: "tests::handshake::tls_begins_once_and_forgets_what_was_agreed_before",
    },
    Rule {
        mutant: Mutant {
            name: "nbd-certificate-of-anybody",
            about: "a client needs no certificate where somebody signs theirs",
            file: "crates/attach/src/tls/mod.rs",
            find: r"            Some(roots) => {
%%
            None => builder.with_no_client_auth(),",
            replace: r"            Some(roots) if !{on} => {
%%
            _ => builder.with_no_client_auth(),",
        },
        package: "attach",
        program: Some("all"),
        test: "tls::a_client_shows_a_certificate_where_one_is_asked_for",
    },
    Rule {
        mutant: Mutant {
            name: "nbd-secrets-exchanged",
            about: "a server of NBD seals with the client's secret",
            file: "crates/attach/src/tls/certificate_handshake.rs",
            find: r"(Some(receiving), Some(sending)) = (secrets.client, secrets.server) else {",
            replace: r"(Some(receiving), Some(sending)) = (if {on} {
                    (secrets.server, secrets.client)
                } else {
                    (secrets.client, secrets.server)
                }) else {",
        },
        package: "attach",
        program: Some("all"),
        test: "tls::bytes_come_back_through_tls_in_every_form_and_length",
    },
    Rule {
        mutant: Mutant {
            name: "inflight-out-of-order",
            about: "requests of a process that died are done again in any order",
            file: "crates/attach/src/vhost_user/inflight.rs",
            find: r"        heads.sort_unstable();",
            replace: r"        if !{on} {
            heads.sort_unstable();
        }",
        },
        package: "attach",
        program: None,
        test: DONE_AGAIN,
    },
    Rule {
        mutant: Mutant {
            name: "inflight-done-twice",
            about: "a request is done again that was answered when the process died",
            file: "crates/attach/src/vhost_user/inflight.rs",
            find: r"        if self.get(AT_USED) != used {",
            replace: r"        if self.get(AT_USED) != used && !{on} {",
        },
        package: "attach",
        program: None,
        test: DONE_AGAIN,
    },
    Rule {
        mutant: Mutant {
            name: "inflight-beyond-its-part",
            about: "a virtqueue has more entries than its part of the region",
            file: "crates/attach/src/vhost_user/inflight.rs",
            find: r"if index >= self.vrings || entries > self.entries {",
            replace: r"if index >= self.vrings || (entries > self.entries && !{on}) {",
        },
        package: "attach",
        program: None,
        test: "vhost_user::inflight::tests::virtqueues_have_more_entries_than_they_were_said_to_have",
    },
];
