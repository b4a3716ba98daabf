//! What a gateway knows of pauses in which writes are held: the last one, what it holds for it itself, and what others say.

use std::collections::BTreeMap;

use engine::limits::SNAPSHOT_HOLD_MS;
use engine::ring::Moment;

use super::beat::Beat;
use super::local_fabric::NamespaceKey;
use super::state::{GroupState, Owner};
use super::write_pause::{PauseReply, WritePause};

/// Write pauses as a gateway knows them.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The last one that it has heard of, and when that was, in milliseconds.
    pub(super) known: Option<(u64, u64)>,
    pub(super) held: Option<Held>,
    /// Replies of the others, by their names.
    others: BTreeMap<String, (u64, PauseReply)>,
}

/// Writes that this gateway holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) reply: PauseReply,
    pub(super) namespaces: Vec<NamespaceKey>,
    pub(super) until: Moment,
}

impl Pauses {
    /// Of a gateway that begins: what was asked for before it did it has not heard in time.
    pub(super) fn new(state: &GroupState) -> Self {
        Self { known: state.pause.as_ref().map(|pause| (pause.id, 0)), ..Self::default() }
    }

    /// Reply of this gateway.
    pub(super) fn reply(&self) -> Option<PauseReply> {
        self.held.as_ref().map(|held| held.reply)
    }

    /// Records what others say.
    pub(super) fn hear(&mut self, beats: &BTreeMap<String, Beat>) {
        let replies = beats.iter().filter_map(|(name, beat)| Some((name.clone(), (beat.epoch, beat.pause?))));
        self.others = replies.collect();
    }

    /// True if this gateway, in this epoch, has given this reply.
    pub(super) fn has_replied(&self, owner: &Owner, me: &Owner, wanted: PauseReply) -> bool {
        if owner == me {
            return self.reply() == Some(wanted);
        }
        self.others.get(&owner.gateway) == Some(&(owner.epoch, wanted))
    }

    /// True if another pause may be requested: the gateway that requested this one has ended if it
    /// is older than writes are held.
    pub(super) fn is_free(&self, pause: Option<&WritePause>, now_ms: u64) -> bool {
        pause.is_none_or(|pause| {
            self.known.is_some_and(|(id, since_ms)| id == pause.id && now_ms >= since_ms + SNAPSHOT_HOLD_MS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, epoch: u64) -> Owner {
        Owner { gateway: name.to_owned(), epoch }
    }

    #[test]
    fn who_says_so_in_another_epoch_or_of_another_pause_says_nothing() {
        let (me, other) = (owner("a", 1), owner("b", 7));
        let reply = |id, is_done| PauseReply { id, is_done };
        let mut pauses = Pauses::default();
        assert!(
            !pauses.has_replied(&other, &me, reply(3, false))
                && !pauses.has_replied(&me, &me, reply(3, false))
        );
        let beat = |epoch, pause| Beat { epoch, count: 1, pause, ..Beat::default() };
        for (epoch, pause, expected) in [
            (7, Some(reply(3, false)), true),
            (8, Some(reply(3, false)), false),
            (7, Some(reply(4, false)), false),
            (7, Some(reply(3, true)), false),
            (7, None, false),
        ] {
            pauses.hear(&BTreeMap::from([("b".to_owned(), beat(epoch, pause))]));
            assert_eq!(pauses.has_replied(&other, &me, reply(3, false)), expected, "{epoch} {pause:?}");
        }
    }

    #[test]
    fn a_pause_whose_gateway_has_ended_blocks_others_for_a_bounded_time() {
        let pause = WritePause { id: 9, is_done: false, namespaces: Vec::new() };
        let mut pauses = Pauses::default();
        assert!(
            pauses.is_free(None, 0) && !pauses.is_free(Some(&pause), u64::MAX),
            "it was not heard of yet"
        );
        pauses.known = Some((9, 1_000));
        assert!(!pauses.is_free(Some(&pause), 1_000 + SNAPSHOT_HOLD_MS - 1));
        assert!(pauses.is_free(Some(&pause), 1_000 + SNAPSHOT_HOLD_MS));
        pauses.known = Some((8, 1_000));
        assert!(!pauses.is_free(Some(&pause), u64::MAX));
        let state = GroupState { pause: Some(pause), ..GroupState::default() };
        assert_eq!(Pauses::new(&state).reply(), None, "a gateway that begins holds nothing");
    }
}
