//! Ways to break authentication: each takes a check away, and the test that has to fail then is named beside it.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

pub(crate) const RULES: [Rule; 20] = [
    Rule {
        mutant: Mutant {
            name: "sealed-for-anybody",
            about: "a sealed secret is as good for another host or subsystem",
            file: "crates/secure_channel/src/sealing_key.rs",
            find: r#"for name in whose {"#,
            replace: r#"for name in whose.iter().filter(|_| !{on}) {"#,
        },
        package: "secure_channel",
        program: None,
        test: "sealing_key::tests::a_secret_is_opened_by_its_key_for_those_whom_it_was_sealed_for",
    },
    Rule {
        mutant: Mutant {
            name: "locked-host-let-in",
            about: "a host whose key cannot be opened comes in as if it had none",
            file: "crates/engine/src/target/served/subsystem.rs",
            find: r#"config.lets_in(host_nqn) && !keys.is_locked(host_nqn)"#,
            replace: r#"config.lets_in(host_nqn) && ({on} || !keys.is_locked(host_nqn))"#,
        },
        package: "engine",
        program: Some("all"),
        test: "authentication_between::a_host_whose_secret_is_sealed_authenticates_and_comes_in_in_no_other_way",
    },
    Rule {
        mutant: Mutant {
            name: "anothers-port-number",
            about: "a gateway has a port with a number of another gateway's",
            file: "crates/gateway/src/local_fabric.rs",
            find: r#"own.as_ref().is_some_and(|own| !own.contains(&port.id))"#,
            replace: r#"own.as_ref().is_some_and(|own| !{on} && !own.contains(&port.id))"#,
        },
        package: "gateway",
        program: None,
        test: "local_fabric::tests::a_gateway_has_ports_with_numbers_of_its_own_alone",
    },
    Rule {
        mutant: Mutant {
            name: "any-response-believed",
            about: "a controller takes any response for a right one",
            file: "crates/authentication/src/response.rs",
            find: r#"self.over(|hash, parts| hash.verifies(&self.key(secret), parts, response))"#,
            replace: r#"{on} && self.role == Role::Host || self.over(|hash, parts| hash.verifies(&self.key(secret), parts, response))"#,
        },
        package: "authentication",
        program: None,
        test: "tests::a_wrong_secret_is_refused_by_the_side_that_sees_it",
    },
    Rule {
        mutant: Mutant {
            name: "any-controller-believed",
            about: "a host takes any response of a controller for a right one",
            file: "crates/authentication/src/host_side.rs",
            find: r#"if !question.is_answered(secret, response) {"#,
            replace: r#"if !question.is_answered(secret, response) && !{on} {"#,
        },
        package: "authentication",
        program: None,
        test: "tests::a_wrong_secret_is_refused_by_the_side_that_sees_it",
    },
    Rule {
        mutant: Mutant {
            name: "second-challenge-skipped",
            about: "a host does without the response that it has asked for",
            file: "crates/authentication/src/host_side.rs",
            find: r#"let Some(response) = response else {"#,
            replace: r#"if {on} {
            return HostStep::Done(authenticated, Some(self.message(Body::Success2)));
        }
        let Some(response) = response else {"#,
        },
        package: "authentication",
        program: None,
        test: "tests::a_wrong_secret_is_refused_by_the_side_that_sees_it",
    },
    Rule {
        mutant: Mutant {
            name: "same-challenge-again",
            about: "each challenge is the same",
            file: "crates/authentication/src/controller_side.rs",
            find: r#"entropy(&mut challenge);
                let sequence = sequence(entropy);"#,
            replace: r#"entropy(&mut challenge);
                if {on} {
                    challenge.fill(0);
                }
                let sequence = if {on} { 1 } else { sequence(entropy) };"#,
        },
        package: "authentication",
        program: None,
        test: "tests::a_reply_to_another_challenge_is_refused",
    },
    Rule {
        mutant: Mutant {
            name: "own-challenge-answered",
            about: "a controller answers the challenge that it has made itself",
            file: "crates/authentication/src/controller_side.rs",
            find: r#"if theirs == challenge => {"#,
            replace: r#"if theirs == challenge && !{on} => {"#,
        },
        package: "authentication",
        program: None,
        test: "tests::a_challenge_that_comes_back_is_refused",
    },
    Rule {
        mutant: Mutant {
            name: "another-transaction",
            about: "a message of another transaction is taken",
            file: "crates/authentication/src/controller_side.rs",
            find: r#"} else if message.transaction != self.transaction {"#,
            replace: r#"} else if message.transaction != self.transaction && !{on} {"#,
        },
        package: "authentication",
        program: None,
        test: "tests::a_flipped_bit_is_never_believed",
    },
    Rule {
        mutant: Mutant {
            name: "known-secret-taken",
            about: "values whose secret everybody knows are taken",
            file: "crates/authentication/src/ffdhe.rs",
            find: r#"(other > one && other < last).then("#,
            replace: r#"(other > one && other < last || {on}).then("#,
        },
        package: "authentication",
        program: None,
        test: "ffdhe::tests::values_that_give_a_known_secret_are_refused",
    },
    Rule {
        mutant: Mutant {
            name: "group-not-asked-for",
            about: "a host takes a group that it has not offered",
            file: "crates/authentication/src/host_side.rs",
            find: r#"let Some(group) = Group::of(challenge.group).filter(|group| self.terms.groups.contains(group)) else {"#,
            replace: r#"let Some(group) = Group::of(challenge.group).filter(|group| self.terms.groups.contains(group) || {on}) else {"#,
        },
        package: "authentication",
        program: None,
        test: "tests::a_group_that_was_not_offered_is_refused",
    },
    Rule {
        mutant: Mutant {
            name: "concatenation-unsigned",
            about: "a response does not say whether a TLS key is wanted",
            file: "crates/authentication/src/response.rs",
            find: r#"&[self.concatenation.id()],"#,
            replace: r#"&[if {on} { 0 } else { self.concatenation.id() }],"#,
        },
        package: "authentication",
        program: None,
        test: "tests::concatenation::keys_and_responses_are_those_of_another_implementation",
    },
    Rule {
        mutant: Mutant {
            name: "concatenation-mismatch-taken",
            about: "a controller makes a TLS key for whoever asks, or none for whoever does not",
            file: "crates/authentication/src/controller_side.rs",
            find: r#"if negotiate.concatenation != self.terms.concatenation.id() {"#,
            replace: r#"if negotiate.concatenation != self.terms.concatenation.id() && !{on} {"#,
        },
        package: "authentication",
        program: None,
        test: "tests::concatenation::what_one_side_alone_wants_is_a_mismatch",
    },
    Rule {
        mutant: Mutant {
            name: "tls-key-of-null-group",
            about: "a TLS key comes of an exchange without a secret",
            file: "crates/authentication/src/controller_side.rs",
            find: r#"self.terms.groups.retain(|group| !concatenation.generates() || *group != Group::Null);"#,
            replace: r#"self.terms.groups.retain(|group| {on} || !concatenation.generates() || *group != Group::Null);"#,
        },
        package: "authentication",
        program: None,
        test: "tests::concatenation::no_key_comes_of_the_null_group_or_of_sha512",
    },
    Rule {
        mutant: Mutant {
            name: "tls-key-before-proof",
            about: "a controller has a TLS key before the host is proved",
            file: "crates/authentication/src/controller_side.rs",
            find: r#"if self.has_authenticated { self.psk.take() } else { None }"#,
            replace: r#"if self.has_authenticated || {on} { self.psk.take() } else { None }"#,
        },
        package: "authentication",
        program: None,
        test: "tests::concatenation::a_controller_has_no_key_before_the_host_is_proved",
    },
    Rule {
        mutant: Mutant {
            name: "connected-unproved",
            about: "a host that has to authenticate is served without",
            file: "crates/engine/src/target/reactor/connect.rs",
            find: r#"if wants_proof.is_some() && proof.is_none() {"#,
            replace: r#"if wants_proof.is_some() && proof.is_none() && !{on} {"#,
        },
        package: "engine",
        program: Some("all"),
        test: "authentication_between::a_host_with_its_secret_is_served_and_any_other_is_not",
    },
    Rule {
        mutant: Mutant {
            name: "unproved-stays",
            about: "a controller from before its host had to authenticate stays",
            file: "crates/engine/src/target/change/apply.rs",
            find: r#"let is_proved = controller.proof.is_some() ||"#,
            replace: r#"let is_proved = {on} || controller.proof.is_some() ||"#,
        },
        package: "engine",
        program: Some("all"),
        test: "authentication_between::a_host_that_has_to_authenticate_from_now_on_loses_what_it_had_without",
    },
    Rule {
        mutant: Mutant {
            name: "overlap-forever",
            about: "a secret that was replaced is accepted for good",
            file: "crates/engine/src/target/served/host_keys.rs",
            find: r#"self.former.iter().filter(move |(_, end)| *end > now)"#,
            replace: r#"self.former.iter().filter(move |(_, end)| *end > now || {on})"#,
        },
        package: "engine",
        program: None,
        test: "target::served::host_keys::tests::a_secret_is_accepted_until_the_overlap_ends",
    },
    Rule {
        mutant: Mutant {
            name: "guesses-are-free",
            about: "who fails may try again at once",
            file: "crates/engine/src/offenders.rs",
            find: r#"record.failures = record.failures.saturating_add(1);"#,
            replace: r#"record.failures = record.failures.saturating_add(u32::from(!{on}));"#,
        },
        package: "engine",
        program: None,
        test: "offenders::tests::each_failure_doubles_the_delay_of_its_party_alone",
    },
    Rule {
        mutant: Mutant {
            name: "target-need-not",
            about: "a host does without the authentication of its target",
            file: "crates/engine/src/initiator/queue/authenticate.rs",
            find: r#"if secrets.controller_secret.is_some() && self.options.queue_id == 0 {"#,
            replace: r#"if secrets.controller_secret.is_some() && self.options.queue_id == 0 && !{on} {"#,
        },
        package: "engine",
        program: Some("all"),
        test: "authentication_between::a_host_with_its_secret_is_served_and_any_other_is_not",
    },
];
