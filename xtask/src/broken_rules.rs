//! Ways to break rules that no scene of the simulation meets, since its hosts keep to what is asked of them or are asked for by
//! an administration that is not simulated: each with the test that has to fail then.

use crate::broken::Mutant;

/// A mutant that a test finds out.
pub(crate) struct Rule {
    pub(crate) mutant: Mutant,
    /// The package whose test it is.
    pub(crate) package: &'static str,
    /// The program of an integration test, `None` for a test within the package.
    pub(crate) program: Option<&'static str>,
    /// Its whole name.
    pub(crate) test: &'static str,
}

/// The tests of what data PDUs may do, over a connection.
const BAD_DATA: &str = "target_bad_input::faulty_data_is_answered_with_its_error";

/// The test that loses the power at each step of putting a file in another's place.
const POWER_LOST: &str = "private_folder::power::tests::whenever_the_power_is_lost_the_old_or_the_new_content_is_there_and_what_was_told_stays";
/// The same for reservations.
const RESERVATION_KEPT: &str = "target::reservation_worker::worker::tests::a_reservation_that_was_acknowledged_outlives_the_power_and_one_that_was_refused_never_counts";

pub(crate) const RULES: [Rule; 18] = [
    Rule {
        mutant: Mutant {
            name: "reservation-of-a-moment-ago",
            about: "what has waited is carried out though another host has reserved the namespace meanwhile",
            file: "crates/engine/src/target/io/progress.rs",
            find: r"        if namespace.flags() & flags::RESERVED != 0 && self.is_reserved_from(work, namespace) {",
            replace: r"        if !{on} && namespace.flags() & flags::RESERVED != 0 && self.is_reserved_from(work, namespace) {",
        },
        package: "engine",
        program: Some("all"),
        test: "target_reservation::what_waits_while_another_host_reserves_the_namespace_is_refused",
    },
    Rule {
        mutant: Mutant {
            name: "r2t-more-than-asked",
            about: "a host may send more than an R2T asks for",
            file: "crates/nvme/src/tcp/transfer.rs",
            find: r"        if offset != self.next || length == 0 || length > self.remaining() {
            return Err(TransferError::OutOfRange);
        }
        let next = offset + length;",
            replace: r"        if offset != self.next || length == 0 || (length > self.remaining() && !{on}) {
            return Err(TransferError::OutOfRange);
        }
        let next = (offset + length).min(self.end);",
        },
        package: "engine",
        program: Some("all"),
        test: BAD_DATA,
    },
    Rule {
        mutant: Mutant {
            name: "r2t-of-another",
            about: "data may come for a command that did not ask for it",
            file: "crates/engine/src/target/queue/receive.rs",
            find: r"        if requested.command_id != pdu.command_id.get() {",
            replace: r"        if requested.command_id != pdu.command_id.get() && !{on} {",
        },
        package: "engine",
        program: Some("all"),
        test: BAD_DATA,
    },
    Rule {
        mutant: Mutant {
            name: "r2t-beyond-the-command",
            about: "a target may ask a host for more than its command has",
            file: "crates/engine/src/initiator/queue/receive.rs",
            find: r"        if offset != slot.moved || length > slot.length - slot.moved {",
            replace: r"        if (offset != slot.moved || length > slot.length - slot.moved) && !{on} {",
        },
        package: "engine",
        program: Some("all"),
        test: "initiator_queue::lies_about_requests_for_data",
    },
    Rule {
        mutant: Mutant {
            name: "owner-not-asked",
            about: "a host attaches, detaches and deletes what is another's",
            file: "crates/engine/src/target/config/rights.rs",
            find: r"        let namespace = self.known_to(host, nsid)?;
        if host.owns(namespace) {",
            replace: r"        let namespace = self.known_to(host, nsid)?;
        if host.owns(namespace) || {on} {",
        },
        package: "engine",
        program: None,
        test: "target::config::rights::tests::an_owner_alone_attaches_and_detaches",
    },
    Rule {
        mutant: Mutant {
            name: "owner-by-name-alone",
            about: "who has a host's name has its namespaces",
            file: "crates/engine/src/target/config/rights.rs",
            find: r"        !self.host_id.is_nil() && namespace.owner.as_ref() == Some(self)",
            replace: r"        !self.host_id.is_nil()
            && namespace.owner.as_ref().is_some_and(|owner| *owner == *self || ({on} && owner.nqn == self.nqn))",
        },
        package: "engine",
        program: None,
        test: "target::config::rights::tests::an_owner_is_its_name_and_its_identifier",
    },
    Rule {
        mutant: Mutant {
            name: "quota-forgotten",
            about: "a host creates as many bytes as there are",
            file: "crates/engine/src/target/config/rights.rs",
            find: r"        if used.checked_add(bytes).is_none_or(|sum| sum > max) {",
            replace: r"        if used.checked_add(bytes).is_none_or(|sum| sum > max && !{on}) {",
        },
        package: "engine",
        program: None,
        test: "target::config::rights::tests::a_host_creates_as_much_and_as_many_as_it_may",
    },
    Rule {
        mutant: Mutant {
            name: "file-not-synced",
            about: "a file takes another's place before it is on the medium",
            file: "crates/private_folder/src/private_folder.rs",
            find: r"        sync_file(&file, OsStr::new(&new)).map_err(failed)?;",
            replace: r"        if !{on} {
            sync_file(&file, OsStr::new(&new)).map_err(failed)?;
        }",
        },
        package: "private_folder",
        program: None,
        test: POWER_LOST,
    },
    Rule {
        mutant: Mutant {
            name: "folder-not-synced",
            about: "that a file has taken another's place is said before its name is on the medium",
            file: "crates/private_folder/src/private_folder.rs",
            find: r"folder, name)).map_err(is_folder)?;
        self.folder.sync()",
            replace: r"folder, name)).map_err(is_folder)?;
        if {on} {
            return Ok(());
        }
        self.folder.sync()",
        },
        package: "private_folder",
        program: None,
        test: POWER_LOST,
    },
    Rule {
        mutant: Mutant {
            name: "removed-name-not-synced",
            about: "a file that is gone already is not made sure to be gone",
            file: "crates/private_folder/src/private_folder.rs",
            find: r"            Ok(()) | Err(Errno::NOENT) => self.sync(),",
            replace: r"            Err(Errno::NOENT) if {on} => Ok(()),
            Ok(()) | Err(Errno::NOENT) => self.sync(),",
        },
        package: "private_folder",
        program: None,
        test: POWER_LOST,
    },
    Rule {
        mutant: Mutant {
            name: "reservation-not-kept",
            about: "a reservation that is to persist is acknowledged and not written",
            file: "crates/engine/src/target/reservation_worker/worker.rs",
            find: r"    if was_kept || state.persists() {",
            replace: r"    if (was_kept || state.persists()) && !{on} {",
        },
        package: "engine",
        program: None,
        test: RESERVATION_KEPT,
    },
    Rule {
        mutant: Mutant {
            name: "reservation-counts-first",
            about: "a reservation counts before it is kept",
            file: "crates/engine/src/target/reservation_worker/worker.rs",
            find: r"        let archive = archive.ok_or(Status::INTERNAL_ERROR)?;
        archive.save(",
            replace: r"        let archive = archive.ok_or(Status::INTERNAL_ERROR)?;
        if {on} {
            namespace.publish_reservation(state.view());
            *lock(&namespace.reservations) = state.clone();
        }
        archive.save(",
        },
        package: "engine",
        program: None,
        test: RESERVATION_KEPT,
    },
    Rule {
        mutant: Mutant {
            name: "refused-reservation-stays",
            about: "a reservation that was refused stays in its file",
            file: "crates/engine/src/target/reservation_worker/worker.rs",
            find: r"            if let Err(error) = archive.save(Uuid::from_bytes(namespace.uuid), &lock(&namespace.reservations))
",
            replace: r"            if !{on}
                && let Err(error) =
                    archive.save(Uuid::from_bytes(namespace.uuid), &lock(&namespace.reservations))
",
        },
        package: "engine",
        program: None,
        test: RESERVATION_KEPT,
    },
    Rule {
        mutant: Mutant {
            name: "change-before-its-journal",
            about: "a setting is changed before the journal has what was",
            file: "crates/topology/src/apply/mod.rs",
            find: r"    journal.record(Record { change: step.change.clone(), before }).map_err(Failure::Journal)?;",
            replace: r"    if !{on} {
        journal.record(Record { change: step.change.clone(), before }).map_err(Failure::Journal)?;
    }",
        },
        package: "topology",
        program: None,
        test: "apply::tests::an_end_at_any_write_can_be_undone_also_if_undoing_ends_too",
    },
    Rule {
        mutant: Mutant {
            name: "empty-journal-stays",
            about: "a journal that finds no room for its first line stays",
            file: "crates/topology/src/apply/journal.rs",
            find: r"            let _ = journal.remove();
            return Err(error);",
            replace: r"            if !{on} {
                let _ = journal.remove();
            }
            return Err(error);",
        },
        package: "topology",
        program: None,
        test: "apply::tests::a_disk_that_is_full_anywhere_in_the_journal_leaves_everything_as_it_was",
    },
    Rule {
        mutant: Mutant {
            name: "remains-claim-nothing",
            about: "what a closed connection still writes keeps nobody off its blocks",
            file: "crates/engine/src/target/reactor/orphaned_slots.rs",
            find: r"                && !request.has_claim()",
            replace: r"                && !request.has_claim()
                && !{on}",
        },
        package: "engine",
        program: Some("all"),
        test: "target_quiesce::who_comes_back_on_another_connection_writes_after_what_the_lost_one_wrote",
    },
    Rule {
        mutant: Mutant {
            name: "held-writes-begin",
            about: "writes to a namespace without limits are not held for a snapshot of several images",
            file: "crates/engine/src/target/served/namespace.rs",
            find: r"        // Commands look at the shaper where this says so.
        self.set_flag(flags::SHAPED, self.shaper.is_needed());",
            replace: r"        // Commands look at the shaper where this says so.
        self.set_flag(flags::SHAPED, self.shaper.is_needed() && !{on});",
        },
        package: "engine",
        program: None,
        test: "target::io::tests::limits::writes_that_are_held_begin_when_they_are_let_go_or_the_time_is_over",
    },
    Rule {
        mutant: Mutant {
            name: "held-writes-let-go-by-an-upgrade",
            about: "writes that are held begin when their queue comes to rest",
            file: "crates/engine/src/target/qos/shaper.rs",
            find: r"        if self.waiting.is_empty() || self.is_held(view, now_ns) {",
            replace: r"        if self.waiting.is_empty() || !{on} && self.is_held(view, now_ns) {",
        },
        package: "engine",
        program: None,
        test: "target::qos::shaper::tests::writes_are_held_until_a_moment_and_reads_are_not",
    },
];
