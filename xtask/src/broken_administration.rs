//! Ways to break how a target is administered: roles, what may be named, the audit log, and what the process gives up. Each takes
//! a check away or forgets something, and the test that has to fail then is named beside it.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

const ACCESS: &str = "crates/selvedge/src/control/access/access.rs";
const ALLOWED: &str = "crates/selvedge/src/control/access/allowed_storage.rs";
const AUDIT_LOG: &str = "crates/selvedge/src/control/audit/audit_log.rs";
const LANDLOCK: &str = "crates/selvedge/src/confinement/landlock.rs";
const RECORD: &str = "crates/selvedge/src/control/audit/record.rs";
const RIGHTS: &str = "crates/selvedge/src/control/access/rights.rs";
const ROUTES: &str = "crates/selvedge/src/control/routes.rs";

/// The test of tokens whose entries change.
const TOKENS: &str = "control::access_tests::tokens_come_expire_and_go_while_the_target_runs";
/// The test of what an operator may name.
const NAMED: &str = "control::access_tests::an_operator_names_what_its_list_has";
/// The test of what is in the log behind changes, refusals and strangers.
const RECORDED: &str = "control::access_tests::who_changed_what_is_recorded_and_who_did_not_come_in";
/// The test of lists of storage, without a target.
const LISTED: &str = "control::access::allowed_storage::tests::a_file_is_where_its_links_lead";
/// The test of files that a thread may open under a list.
const OPENED: &str = "confinement::landlock::tests::a_thread_opens_what_is_listed_and_nothing_else";

pub(crate) const RULES: [Rule; 30] = [
    rule(
        Mutant {
            name: "role-unchecked",
            about: "each request is done, whatever role its sender has",
            file: ROUTES,
            find: r"    if let Err(refusal) = caller.check(route.needs, subsystem) {",
            replace: r"    if let Err(refusal) = caller.check(route.needs, subsystem)
        && !{on}
    {",
        },
        RECORDED,
    ),
    rule(
        Mutant {
            name: "any-role-enough",
            about: "whoever has a role has all of them",
            file: RIGHTS,
            find: r"        if self.role < needed {",
            replace: r"        if self.role < needed && !{on} {",
        },
        "control::access::rights::tests::a_role_may_do_what_lesser_ones_may",
    ),
    rule(
        Mutant {
            name: "operator-everywhere",
            about: "an operator of one subsystem changes all of them",
            file: RIGHTS,
            find: r"|known| known == EVERY ||",
            replace: r"|known| {on} || known == EVERY ||",
        },
        "control::access::rights::tests::an_operator_has_its_subsystems_and_no_other",
    ),
    rule(
        Mutant {
            name: "expired-token-taken",
            about: "a token is good for longer than it says",
            file: ACCESS,
            find: r"            Some(expires) if expires <= Timestamp::now() => {",
            replace: r"            Some(expires) if expires <= Timestamp::now() && !{on} => {",
        },
        TOKENS,
    ),
    rule(
        Mutant {
            name: "revoked-token-taken",
            about: "a token that is taken out of the file is good until the target ends",
            file: ACCESS,
            find: r"        if now != watched.stamp {",
            replace: r"        if now != watched.stamp && !{on} {",
        },
        TOKENS,
    ),
    rule(
        Mutant {
            name: "access-file-gone",
            about: "who was in an access file that is gone is still let in",
            file: ACCESS,
            find: r"                Err(error) if now.is_none() => {",
            replace: r"                Err(error) if now.is_none() && !{on} => {",
        },
        TOKENS,
    ),
    rule(
        Mutant {
            name: "tokens-guessed",
            about: "whoever shows wrong tokens may show more at once",
            file: ACCESS,
            find: r"        if left.is_zero() {",
            replace: r"        if left.is_zero() || {on} {",
        },
        "control::access_tests::whoever_guesses_waits_even_with_the_right_token",
    ),
    rule(
        Mutant {
            name: "operator-names-all",
            about: "an operator without a list may name any file of the target's user",
            file: ACCESS,
            find: r"    if lists.is_empty() && rights.role < Role::Admin {",
            replace: r"    if lists.is_empty() && rights.role < Role::Admin && !{on} {",
        },
        NAMED,
    ),
    rule(
        Mutant {
            name: "names-unchecked",
            about: "what a request names is not looked up in the lists",
            file: "crates/selvedge/src/control/ask.rs",
            find: r"        self.caller.check_names(&before, fabric)?;",
            replace: r"        if !{on} {
            self.caller.check_names(&before, fabric)?;
        }",
        },
        NAMED,
    ),
    rule(
        Mutant {
            name: "list-ignored",
            about: "a list of what may be named has everything",
            file: ALLOWED,
            find: r"                if !known.contains(&place) && !self.has(&place, before) {",
            replace: r"                if !known.contains(&place) && !self.has(&place, before) && !{on} {",
        },
        LISTED,
    ),
    rule(
        Mutant {
            name: "links-not-followed",
            about: "a link in a listed folder opens what is elsewhere",
            file: ALLOWED,
            find: r"    let real = path.canonicalize().or_else(|_| {",
            replace: r"    let real = (if {on} { std::path::absolute(path) } else { path.canonicalize() }).or_else(|_| {",
        },
        LISTED,
    ),
    rule(
        Mutant {
            name: "served-elsewhere",
            about: "an operator may have served what another subsystem serves",
            file: ALLOWED,
            find: r"            let known = before.subsystem(&subsystem.nqn);",
            replace: r"            let known = if {on} { before.subsystems.first() } else { before.subsystem(&subsystem.nqn) };",
        },
        LISTED,
    ),
    rule(
        Mutant {
            name: "metrics-open",
            about: "the metrics are open to everybody off loopback",
            file: "crates/selvedge/src/control/doors.rs",
            find: r"        let access = self.are_metrics_guarded().then(|| self.access.clone());",
            replace: r"        let access = (self.are_metrics_guarded() && !{on}).then(|| self.access.clone());",
        },
        "control::access_tests::metrics_off_loopback_are_for_those_who_may_read_them",
    ),
    rule(
        Mutant {
            name: "token-shown",
            about: "a token is in what is printed for debugging",
            file: "crates/selvedge/src/control/token.rs",
            find: r#"        f.write_str("Token")"#,
            replace: r#"        f.write_str(if {on} { &self.0 } else { "Token" })"#,
        },
        "control::token::tests::a_header_shows_a_token",
    ),
    rule(
        Mutant {
            name: "record-not-chained",
            about: "a record has nothing of the one before it",
            file: RECORD,
            find: r"event, prev: self.hash };",
            replace: r"event, prev: if {on} { Fingerprint::default() } else { self.hash } };",
        },
        "control::audit::record::tests::lines_that_follow_each_other_do",
    ),
    rule(
        Mutant {
            name: "forged-record-taken",
            about: "a record may follow another one than it says",
            file: RECORD,
            find: r"        if read.prev != self.hash {",
            replace: r"        if read.prev != self.hash && !{on} {",
        },
        "control::audit::record::tests::what_was_cut_or_moved_is_seen",
    ),
    rule(
        Mutant {
            name: "changed-record-taken",
            about: "a record is taken whatever its hash is",
            file: RECORD,
            find: r"        if Fingerprint::of(hashed.as_bytes()) != read.hash || end",
            replace: r"        if Fingerprint::of(hashed.as_bytes()) != read.hash && !{on} || end",
        },
        "control::audit::record::tests::what_was_changed_is_seen",
    ),
    rule(
        Mutant {
            name: "cut-log-taken",
            about: "a log whose end was cut off is whole",
            file: "crates/selvedge/src/control/audit/verification.rs",
            find: r"        && head.seq < end.seq",
            replace: r"        && head.seq < end.seq
        && !{on}",
        },
        "control::audit::audit_log::tests::an_end_that_was_cut_off_is_seen_and_said_at_the_next_start",
    ),
    rule(
        Mutant {
            name: "refused-change-unrecorded",
            about: "a change that is refused is not recorded",
            file: ROUTES,
            find: r"        audit.write(recorded(record, &ask, &outcome));",
            replace: r"        if outcome.is_ok() || !{on} {
            audit.write(recorded(record, &ask, &outcome));
        }",
        },
        RECORDED,
    ),
    rule(
        Mutant {
            name: "wrong-role-unrecorded",
            about: "who asks for more than its role has is not recorded",
            file: ROUTES,
            find: r"spawn_blocking(move || service.administration.audit().write(told));",
            replace: r"spawn_blocking(move || {
            if !{on} {
                service.administration.audit().write(told)
            }
        });",
        },
        RECORDED,
    ),
    rule(
        Mutant {
            name: "stranger-unrecorded",
            about: "who shows a wrong token is not recorded",
            file: ROUTES,
            find: r"            if let Err(refusal) = &known
                && refusal.status != 429
            {",
            replace: r"            if let Err(refusal) = &known
                && refusal.status != 429
                && !{on}
            {",
        },
        RECORDED,
    ),
    rule(
        Mutant {
            name: "changed-without-record",
            about: "changes are made that cannot be recorded",
            file: ROUTES,
            find: r"        audit.check()?;",
            replace: r"        if !{on} {
            audit.check()?;
        }",
        },
        "control::access_tests::what_cannot_be_recorded_is_refused",
    ),
    rule(
        Mutant {
            name: "refusals-fill-the-disk",
            about: "each that is refused has a line of the audit log",
            file: AUDIT_LOG,
            find: r"        if self.count > REFUSED_PER_MINUTE_MAX {",
            replace: r"        if self.count > REFUSED_PER_MINUTE_MAX && !{on} {",
        },
        "control::audit::audit_log::tests::a_crowd_has_as_many_lines_a_minute_as_it_may_and_says_how_many_it_had_not",
    ),
    rule(
        Mutant {
            name: "path-not-restricted",
            about: "Landlock lets all files be read",
            file: LANDLOCK,
            find: r"        let mut read = [needs.read.clone(), strings(&READ)].concat();",
            replace: r#"        let mut read = [needs.read.clone(), strings(&READ)].concat();
        if {on} {
            read.push("/".into());
        }"#,
        },
        OPENED,
    ),
    rule(
        Mutant {
            name: "read-path-written",
            about: "what is only read may be written too",
            file: LANDLOCK,
            find: r"            .add_rules(path_beneath_rules(read, reading(needs)))?;",
            replace: r"            .add_rules(path_beneath_rules(read, if {on} { writing() } else { reading(needs) }))?;",
        },
        OPENED,
    ),
    rule(
        Mutant {
            name: "capability-kept",
            about: "each target may change settings of the network",
            file: "crates/selvedge/src/confinement/capabilities.rs",
            find: r"    wanted.set(CapabilitySet::NET_ADMIN, needs.network_settings);",
            replace: r"    wanted.set(CapabilitySet::NET_ADMIN, needs.network_settings || {on});",
        },
        "confinement::capabilities::tests::only_root_keeps_what_opens_files_of_others",
    ),
    rule(
        Mutant {
            name: "processes-allowed",
            about: "the filter of system calls lets programs be run",
            file: "crates/selvedge/src/confinement/seccomp.rs",
            find: r"    if needs.programs {
        allow(PROGRAMS);",
            replace: r"    if needs.programs || {on} {
        allow(PROGRAMS);",
        },
        "confinement::seccomp::tests::a_thread_with_the_filter_starts_no_process",
    ),
    Rule {
        mutant: Mutant {
            name: "landlock-left-out",
            about: "a target says that it cannot open other files, and it can",
            file: "crates/selvedge/src/confinement/mod.rs",
            find: r#"    let landlock = take(landlock, "landlock", || landlock::restrict(needs))?;"#,
            replace: r#"    let restrict = || if {on} { Ok(Measure::on("nothing")) } else { landlock::restrict(needs) };
    let landlock = take(landlock, "landlock", restrict)?;"#,
        },
        package: "selvedge",
        program: Some("all"),
        test: "confinement::files_outside_are_refused_by_the_kernel",
    },
    Rule {
        mutant: Mutant {
            name: "host-change-unrecorded",
            about: "what hosts change or are refused is not recorded",
            file: "crates/selvedge/src/control/host_requests.rs",
            find: r"    let KnownHost { nqn, host_id } = host.known.clone();",
            replace: r"    if {on} {
        return outcome;
    }
    let KnownHost { nqn, host_id } = host.known.clone();",
        },
        package: "selvedge",
        program: Some("all"),
        test: "host_rights::what_hosts_change_and_who_does_not_prove_itself_is_recorded",
    },
    Rule {
        mutant: Mutant {
            name: "refused-connect-untold",
            about: "a host whose Connect is refused is not reported to whoever records it",
            file: "crates/engine/src/target/reactor/connect.rs",
            find: r"            tell_refusal(&refusal, data, caller);",
            replace: r"            if !{on} {
                tell_refusal(&refusal, data, caller);
            }",
        },
        package: "engine",
        program: Some("all"),
        test: "target_admission::whose_connect_is_refused_is_reported_with_the_reason",
    },
];

const fn rule(mutant: Mutant, test: &'static str) -> Rule {
    Rule { mutant, package: "selvedge", program: None, test }
}
