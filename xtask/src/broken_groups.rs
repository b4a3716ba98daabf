//! Ways to break a group of gateways that share images: the rules by which none writes beside another, one left out at a time. The
//! simulation has to find each of them.

use crate::broken::Mutant;

pub(crate) const MUTANTS: [Mutant; 22] = [
    Mutant {
        name: "images-before-the-fence",
        about: "a dead gateway's images are opened before its connections are on the blocklist",
        file: "crates/gateway/src/decision.rs",
        find: r"        if missing.is_empty() {",
        replace: r"        if missing.is_empty() || {on} {",
    },
    Mutant {
        name: "no-fence",
        about: "a dead gateway's connections are not put on the blocklist",
        file: "crates/gateway/src/store.rs",
        find: r"        connection.cluster.blocklist_all(&addresses, seconds)?;",
        replace: r"        if !{on} {
            connection.cluster.blocklist_all(&addresses, seconds)?;
        }",
    },
    Mutant {
        name: "images-kept-at-handover",
        about: "a group is handed over, and its images are not released",
        file: "crates/engine/src/target/change/standby.rs",
        find: r"    release(handovers, true);",
        replace: r"    if !{on} {
        release(handovers, true);
    }",
    },
    Mutant {
        name: "answer-before-the-fence",
        about: "a host is told that a lost gateway's controller rests before that gateway is fenced",
        file: "crates/gateway/src/peer_reset.rs",
        find: r"unfenced.any(|address| !fenced.contains(address))",
        replace: r"unfenced.any(|address| !fenced.contains(address) && !{on})",
    },
    Mutant {
        name: "connection-not-written-down",
        about: "images are opened on a connection that the others do not know of",
        file: "crates/gateway/src/membership.rs",
        find: r"        let me = self.seen().me.clone();
        let updated",
        replace: r"        if {on} {
            return Ok(());
        }
        let me = self.seen().me.clone();
        let updated",
    },
    Mutant {
        name: "connections-used-again",
        about: "a gateway that begins anew opens its images on connections that others have fenced",
        file: "crates/gateway/src/epoch.rs",
        find: r"        target.forget_cluster_connections();
        let mut tried",
        replace: r"        if !{on} {
            target.forget_cluster_connections();
        }
        let mut tried",
    },
    Mutant {
        name: "reservation-answered-before-kept",
        about: "a gateway answers a reservation command before the cluster has what it changed",
        file: "crates/engine/src/target/reservation_worker/shared_keeper.rs",
        find: r"        match hold.save(&state) {",
        replace: r"        match if {on} { Ok(()) } else { hold.save(&state) } {",
    },
    Mutant {
        name: "reservations-not-read",
        about: "a gateway that takes an image over serves it without the reservations that are kept beside it",
        file: "crates/engine/src/target/served/namespace.rs",
        find: r"        let reservations = hold.take(image)?;
        self.go_by(reservations);",
        replace: r"        let reservations = hold.take(image)?;
        self.go_by(if {on} { Reservations::default() } else { reservations });",
    },
    Mutant {
        name: "image-under-way-handed-over",
        about: "an image is handed over that was not given back in time, with what is under way on it",
        file: "crates/engine/src/target/change/standby.rs",
        find: r"            if is_standby {
                note_late_operation();",
        replace: r"            if is_standby && !{on} {
                note_late_operation();",
    },
    Mutant {
        name: "late-handed-over",
        about: "a group is handed over while commands on its images may be carried out late",
        file: "crates/gateway/src/decision.rs",
        find: r"            if view.has_lease && view.has_late {",
        replace: r"            if view.has_lease && view.has_late && !{on} {",
    },
    Mutant {
        name: "state-of-any-version",
        about: "the group's state is changed whatever it has become",
        file: "crates/gateway/src/state.rs",
        find: r"        if !is_new {
            relies_on.insert",
        replace: r"        if !is_new && !{on} {
            relies_on.insert",
    },
    Mutant {
        name: "removed-before-the-fence",
        about: "a gateway is removed with its group before its connections are on the blocklist",
        file: "crates/gateway/src/removal.rs",
        find: r"    group.state == Phase::Serving && group.fence.is_empty()",
        replace: r"    group.state == Phase::Serving && group.fence.is_empty() || {on}",
    },
    Mutant {
        name: "locked-at-go",
        about: "the former process of a gateway keeps the locks of its images for itself",
        file: "crates/engine/src/target/hand_over/images.rs",
        find: r"        let failures = change::set_standby(&images, true);",
        replace: r"        let failures = if {on} { Vec::new() } else { change::set_standby(&images, true) };",
    },
    Mutant {
        name: "successor-not-written-down",
        about: "the next process of a gateway opens images on connections that the others do not know of",
        file: "crates/gateway/src/membership.rs",
        find: r"        let updated = update(&self.store, |state| {",
        replace: r"        if {on} && !self.duty.acts() {
            return Ok(());
        }
        let updated = update(&self.store, |state| {",
    },
    Mutant {
        name: "connection-of-a-dead-gateway",
        about: "a gateway that was given up makes new connections all the same",
        file: "crates/gateway/src/membership.rs",
        find: r"        if is_noted { Ok(()) }",
        replace: r"        if is_noted || {on} { Ok(()) }",
    },
    Mutant {
        name: "answer-by-an-old-state",
        about: "a host is told that a lost gateway's controller rests by a state that is older than its question",
        file: "crates/gateway/src/peer_reset.rs",
        find: r"looked_ms.is_some_and(|looked_ms| looked_ms > asked_ms)",
        replace: r"looked_ms.is_some_and(|looked_ms| looked_ms > asked_ms || {on})",
    },
    Mutant {
        name: "dissolved-under-its-owner",
        about: "a removed gateway's group is dissolved by whoever removes it, and not by its owner",
        file: "crates/gateway/src/removal.rs",
        find: r"        self.drained.remove(name);
        Ok(())",
        replace: r"        self.drained.remove(name);
        if {on} {
            let numbers: Vec<u32> = self.groups.keys().copied().collect();
            numbers.into_iter().for_each(|number| self.dissolve(number));
        }
        Ok(())",
    },
    Mutant {
        name: "group-stays-away",
        about: "a group is not given back to the gateway that it is meant for",
        file: "crates/gateway/src/decision.rs",
        find: r"    if let Some(home) = home.filter(|name| !state.is_drained(name) && is_found(state, view, name)) {",
        replace: r"    if let Some(home) =
        home.filter(|name| !state.is_drained(name) && is_found(state, view, name) && !{on})
    {",
    },
    Mutant {
        name: "held-for-longer-than-it-holds",
        about: "a gateway says that it has held writes which have gone on by themselves",
        file: "crates/gateway/src/held_writes.rs",
        find: r"            && target.holds_writes(&held.namespaces, held.until)",
        replace: r"            && (target.holds_writes(&held.namespaces, held.until) || {on})",
    },
    Mutant {
        name: "taken-over-while-held",
        about: "nobody looks whether namespaces whose writes are held have got another owner meanwhile",
        file: "crates/gateway/src/held_writes.rs",
        find: r"        if known.namespaces.iter().any(
%%
        if owned.as_ref() != Some(&self.owners) {",
        replace: r"        if !{on} && known.namespaces.iter().any(
%%
        if owned.as_ref() != Some(&self.owners) && !{on} {",
    },
    Mutant {
        name: "drained-keeps-its-groups",
        about: "a drained gateway gives nothing away",
        file: "crates/gateway/src/decision.rs",
        find: r"    let may_have = |heir: &Owner| !state.is_drained(me) ||",
        replace: r"    let may_have = |heir: &Owner| !state.is_drained(me) || !{on} &&",
    },
    Mutant {
        name: "moved-by-who-was-given-up",
        about: "a gateway that others have given up meanwhile writes down that it has let go of an image for another group",
        file: "crates/gateway/src/change.rs",
        find: r"            if let Some(moved) = moved_from_another(&current, &shared.0, &owned) {",
        replace: r"            if let Some(moved) = moved_from_another(&current, &shared.0, &owned).filter(|_| !{on}) {",
    },
];
