//! Ways to break secure channels: each takes a check away or does one thing wrong, and the test that has to fail then is named
//! beside it.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

pub(crate) const RULES: [Rule; 17] = [
    rule(
        Mutant {
            name: "nonce-again",
            about: "each record of a key has the same nonce",
            file: "crates/secure_channel/src/nonces.rs",
            find: r"self.next = number.checked_add(1)?;",
            replace: r"self.next = if {on} { number } else { number.checked_add(1)? };",
        },
        "tests::records::no_record_is_like_another",
    ),
    rule(
        Mutant {
            name: "tag-ignored",
            about: "a record is opened whatever its tag is",
            file: "crates/secure_channel/src/opener.rs",
            find: r"if !self.protection.open(header, inner, tag).ok_or(RecordError::UsedUp)? {",
            replace: r"if !self.protection.open(header, inner, tag).ok_or(RecordError::UsedUp)? && !{on} {",
        },
        "tests::records::a_record_that_is_repeated_left_out_or_moved_is_refused",
    ),
    rule(
        Mutant {
            name: "peer-update-lost",
            about: "the peer's new key is not used",
            file: "crates/secure_channel/src/opener.rs",
            find: r"self.protection = self.secret.protection();",
            replace: r"if !{on} {
            self.protection = self.secret.protection();
        }",
        },
        "tests::records::keys_change_in_both_directions",
    ),
    rule(
        Mutant {
            name: "own-update-lost",
            about: "a KeyUpdate is sent, and the key stays",
            file: "crates/secure_channel/src/sealer.rs",
            find: r"self.protection = self.secret.protection();",
            replace: r"if !{on} {
            self.protection = self.secret.protection();
        }",
        },
        "tests::records::keys_change_in_both_directions",
    ),
    rule(
        Mutant {
            name: "key-worn-out",
            about: "a key is used for more records than are safe",
            file: "crates/secure_channel/src/sealer.rs",
            find: r"} else if records >= RECORDS_MAX - kept {",
            replace: r"} else if records >= RECORDS_MAX - kept && !{on} {",
        },
        "tests::records::a_key_is_used_no_more_than_the_suite_allows",
    ),
    rule(
        Mutant {
            name: "talks-after-the-end",
            about: "records are sealed behind an alert",
            file: "crates/secure_channel/src/sealer.rs",
            find: r"if self.is_closed {",
            replace: r"if self.is_closed && !{on} {",
        },
        "tests::records::a_key_is_used_no_more_than_the_suite_allows",
    ),
    rule(
        Mutant {
            name: "channel-end-forgotten",
            about: "after the end more is opened",
            file: "crates/secure_channel/src/opener.rs",
            find: r"if let Some(end) = &self.end {",
            replace: r"if let Some(end) = self.end.as_ref().filter(|_| !{on}) {",
        },
        "tests::records::alerts_end_a_channel_whatever_their_level",
    ),
    rule(
        Mutant {
            name: "record-in-clear-taken",
            about: "a record in clear is taken for a sealed one",
            file: "crates/secure_channel/src/opener.rs",
            find: r"if kind != ContentType::Data as u8 {",
            replace: r"if kind != ContentType::Data as u8 && !{on} {",
        },
        "tests::records::what_is_not_a_sealed_record_is_refused",
    ),
    rule(
        Mutant {
            name: "message-torn",
            about: "other content may come in the middle of a message",
            file: "crates/secure_channel/src/opener.rs",
            find: r"if content_type != Some(ContentType::Handshake) && !self.messages.is_between() {",
            replace: r"if content_type != Some(ContentType::Handshake) && !self.messages.is_between() && !{on} {",
        },
        "tests::records::messages_may_be_split_but_nothing_comes_between",
    ),
    rule(
        Mutant {
            name: "endless-updates",
            about: "a peer may change its key and do nothing else",
            file: "crates/secure_channel/src/opener.rs",
            find: r"if self.idle_records > IDLE_RECORDS_MAX {",
            replace: r"if self.idle_records > IDLE_RECORDS_MAX && !{on} {",
        },
        "tests::records::a_peer_that_sends_nothing_but_keys_or_padding_is_refused",
    ),
    rule(
        Mutant {
            name: "content-behind-update",
            about: "content of the old key may follow a KeyUpdate",
            file: "crates/secure_channel/src/post_handshake.rs",
            find: r"_ if !rest.is_empty() => Err(RecordError::Torn),",
            replace: r"_ if !rest.is_empty() && !{on} => Err(RecordError::Torn),",
        },
        "tests::records::content_that_is_not_allowed_is_refused_with_the_right_alert",
    ),
    rule(
        Mutant {
            name: "any-binder-believed",
            about: "a host needs no key, only an identity",
            file: "crates/secure_channel/src/psk_choice.rs",
            find: r"hash.verifies(&finished_key, &[transcript], binder)",
            replace: r"{on} || hash.verifies(&finished_key, &[transcript], binder)",
        },
        "tests::hellos::of_all_keys_the_one_that_a_library_used_is_found",
    ),
    rule(
        Mutant {
            name: "another-identity",
            about: "a host may use a key of another identity",
            file: "crates/secure_channel/src/psk_choice.rs",
            find: r"if key.identity_bytes() != identity {",
            replace: r"if key.identity_bytes() != identity && !{on} {",
        },
        "tests::hellos::of_all_keys_the_one_that_a_library_used_is_found",
    ),
    rule(
        Mutant {
            name: "older-version-taken",
            about: "a host may use an older version of TLS",
            file: "crates/secure_channel/src/client_hello.rs",
            find: r"Ok(versions.any(",
            replace: r"Ok({on} || versions.any(",
        },
        "tests::hellos::a_host_that_asks_for_what_nvme_lacks_gets_the_right_alert",
    ),
    rule(
        Mutant {
            name: "no-key-exchange",
            about: "a host may do without a key exchange",
            file: "crates/secure_channel/src/client_hello.rs",
            find: r"Ok(modes.bytes().contains(&PSK_DHE_KE))",
            replace: r"Ok({on} || modes.bytes().contains(&PSK_DHE_KE))",
        },
        "tests::hellos::a_host_that_asks_for_what_nvme_lacks_gets_the_right_alert",
    ),
    rule(
        Mutant {
            name: "older-keys-wrong",
            about: "keys of older hosts are derived with the wrong length",
            file: "crates/secure_channel/src/input_psk.rs",
            find: r"let length_field = (length as u16).to_le_bytes();",
            replace: r"let length_field =
                    if {on} { (length as u16).to_be_bytes() } else { (length as u16).to_le_bytes() };",
        },
        "input_psk::tests::keys_are_derived_as_libnvme_derives_them",
    ),
    rule(
        Mutant {
            name: "key-checksum-ignored",
            about: "a configured PSK with a wrong character is taken",
            file: "crates/secure_channel/src/configured_psk.rs",
            find: r"if found != computed {",
            replace: r"if found != computed && !{on} {",
        },
        "configured_psk::tests::what_is_wrong_with_a_key_is_said",
    ),
];

const fn rule(mutant: Mutant, test: &'static str) -> Rule {
    Rule { mutant, package: "secure_channel", program: None, test }
}
