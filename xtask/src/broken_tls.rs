//! Ways to break what a target and a host do with TLS: each takes a check away or forgets something, and the test that has to
//! fail then is named beside it.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

const CONNECT: &str = "crates/engine/src/target/reactor/connect.rs";
const SECURING: &str = "crates/engine/src/target/reactor/connection/secure.rs";
/// The test of two hosts with different rights.
const RIGHTS: &str = "tls_hostile::a_key_is_for_one_host_and_one_subsystem";

/// The test of keys that get old.
const RENEWAL: &str =
    "tls_renewal::keys_are_renewed_over_every_transport_and_path_policy_and_no_path_is_lost";

/// The test of what a host in clear can do.
const CLEAR: &str = "tls_concat::a_host_in_clear_can_do_nothing_but_authenticate_where_tls_is_required";

pub(crate) const RULES: [Rule; 13] = [
    rule(
        Mutant {
            name: "tls-any-host",
            about: "who has one host's key may connect as another",
            file: CONNECT,
            find: r"    if names.host_nqn() != host {",
            replace: r"    if names.host_nqn() != host && !{on} {",
        },
        RIGHTS,
    ),
    rule(
        Mutant {
            name: "tls-any-subsystem",
            about: "a key for one subsystem opens another",
            file: CONNECT,
            find: r"    if is_meant {",
            replace: r"    if is_meant || {on} {",
        },
        RIGHTS,
    ),
    rule(
        Mutant {
            name: "tls-downgrade",
            about: "a host in clear is served where TLS is required",
            file: SECURING,
            find: r"        if self.tls_use(env) != TlsUse::Required || env.fabric",
            replace: r"        if self.tls_use(env) != TlsUse::Required || {on} || env.fabric",
        },
        "tls_hostile::whatever_comes_first_is_answered_in_its_own_language",
    ),
    rule(
        Mutant {
            name: "tls-update-unanswered",
            about: "a target does not replace its key when its host asks for that",
            file: "crates/engine/src/target/queue/sealed.rs",
            find: r"                Piece::AsksForUpdate => secure.outbound.update(false),",
            replace: r"                Piece::AsksForUpdate if {on} => {}
                Piece::AsksForUpdate => secure.outbound.update(false),",
        },
        "tls_hostile::records_of_any_length_carry_pdus_and_a_key_update_is_answered",
    ),
    rule(
        Mutant {
            name: "tls-keys-kept",
            about: "a host never replaces the keys of a queue",
            file: "crates/engine/src/initiator/queue/renew.rs",
            find: r"            if secure.renew() {",
            replace: r"            if !{on} && secure.renew() {",
        },
        "tls_between::keys_are_replaced_under_io_before_they_are_worn",
    ),
    rule(
        Mutant {
            name: "tls-queue-kept",
            about: "a host lets a queue go on whose target replaces no keys",
            file: "crates/engine/src/initiator/queue/renew.rs",
            find: r"            self.is_worn = true;",
            replace: r"            self.is_worn = !{on};",
        },
        RENEWAL,
    ),
    rule(
        Mutant {
            name: "tls-queue-ends-early",
            about: "a host connects a queue anew while commands are outstanding",
            file: "crates/engine/src/initiator/queue/renew.rs",
            find: r"        let is_idle = self.outstanding() == 0",
            replace: r"        let is_idle = ({on} || self.outstanding() == 0)",
        },
        RENEWAL,
    ),
    rule(
        Mutant {
            name: "tls-worn-queue-goes-on",
            about: "a target lets a queue go on whose keys are worn",
            file: SECURING,
            find: r"        if !self.is_draining && self.frozen.is_none() && self.queue.is_worn() {",
            replace: r"        if !self.is_draining && self.frozen.is_none() && self.queue.is_worn() && !{on} {",
        },
        "tls_between::a_host_that_replaces_no_keys_loses_its_queue_and_no_data",
    ),
    rule(
        Mutant {
            name: "tls-compat-refused",
            about: "a key that was derived as libnvme did before 2025 is not found",
            file: "crates/engine/src/target/authentication_worker/handshake.rs",
            find: r"                    && *made.identity() == identity",
            replace: r"                    && *made.identity() == identity
                    && !({on} && derivation == Derivation::Compat)",
        },
        "tls_between::every_suite_identity_derivation_and_hash_function_connects",
    ),
    rule(
        Mutant {
            name: "concat-io-in-clear",
            about: "an I/O queue in clear is let in where TLS is required",
            file: CONNECT,
            find: r"            _ if is_admin && subsystem.concatenates(host) => true,",
            replace: r"            _ if (is_admin || {on}) && subsystem.concatenates(host) => true,",
        },
        CLEAR,
    ),
    rule(
        Mutant {
            name: "concat-all-in-clear",
            about: "a host that has authenticated to get a TLS key goes on in clear",
            file: "crates/engine/src/target/reactor/connection/proof.rs",
            find: r"                self.is_preparing = has_key;",
            replace: r"                self.is_preparing = has_key && !{on};",
        },
        CLEAR,
    ),
    rule(
        Mutant {
            name: "concat-not-asked-for",
            about: "a host that should get a TLS key authenticates without",
            file: CONNECT,
            find: r"        _ => Concatenation::New,",
            replace: r"        _ if {on} => Concatenation::None,
        _ => Concatenation::New,",
        },
        "tls_concat::no_key_comes_out_of_anything_else",
    ),
    Rule {
        mutant: Mutant {
            name: "concat-key-stays",
            about: "a generated TLS key is accepted after its association",
            file: "crates/engine/src/target/fabric/generated_keys.rs",
            find: r"        self.until > now || Arc::strong_count(&self.key) > 1",
            replace: r"        self.until > now || Arc::strong_count(&self.key) > 1 || {on}",
        },
        package: "engine",
        program: None,
        test: "target::fabric::generated_keys::tests::a_key_is_there_until_its_host_is_due_and_as_long_as_an_association_uses_it",
    },
];

const fn rule(mutant: Mutant, test: &'static str) -> Rule {
    Rule { mutant, package: "engine", program: Some("all"), test }
}
