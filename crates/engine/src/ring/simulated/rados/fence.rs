//! Blocklist of the cluster, by its maps: each change makes a new one, and an OSD acts by the one
//! that it has.

use super::{ClientId, MONITOR, OSDS, Rados, Step};
use crate::ring::Moment;
use crate::ring::simulated::scheduler::{What, World};

/// The time after which monitors look again whose time is over (`mon_tick_interval`).
const TICK_NS: u64 = 5_000_000_000;

/// Entry of the blocklist: the map that shuts a client out, its end, and the map that no longer
/// does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    since: u64,
    until: Moment,
    lifted: Option<u64>,
}

impl Rados {
    /// True if a client is shut out by this map.
    pub(super) fn is_blocked(&self, client: ClientId, epoch: u64) -> bool {
        let mut spans = self.spans.get(&client).into_iter().flatten();
        spans.any(|span| span.since <= epoch && span.lifted.is_none_or(|lifted| epoch < lifted))
    }

    /// True if a client is shut out by the newest map.
    pub(super) fn is_blocked_now(&self, client: ClientId) -> bool {
        self.is_blocked(client, self.epoch)
    }
}

impl World {
    /// Shuts a client out until then. Who is shut out stays so for as long as was said first: Ceph's maps keep the entry that they have.
    pub(super) fn block(&mut self, client: ClientId, until: Moment) {
        let epoch = self.rados.epoch + 1;
        let spans = self.rados.spans.entry(client).or_default();
        if spans.iter().all(|span| span.lifted.is_some()) {
            spans.push(Span { since: epoch, until, lifted: None });
            self.at(until, What::Rados(Step::Lift(client)));
        }
        self.publish();
    }

    /// The time may be over for which a client was shut out.
    pub(super) fn lift(&mut self, client: ClientId) {
        // It is the monitors that make maps.
        if self.rados.osds[MONITOR].is_silent {
            return self.rados_after(TICK_NS, Step::Lift(client));
        }
        let (now, epoch) = (self.now, self.rados.epoch + 1);
        let spans = self.rados.spans.entry(client).or_default();
        let Some(span) = spans.iter_mut().find(|span| span.lifted.is_none() && span.until <= now) else {
            return;
        };
        span.lifted = Some(epoch);
        self.publish();
    }

    /// There is another map, which each OSD gets in its own time.
    fn publish(&mut self) {
        self.rados.store.has_changed = true;
        self.rados.epoch += 1;
        self.rados.osds[MONITOR].epoch = self.rados.epoch;
        for osd in 0..OSDS {
            let time = self.rados.time(self.rados.mood.map_us);
            self.rados_after(time, Step::Map(osd));
        }
    }

    /// An OSD has the newest map now, unless it is silent; what waited for that goes on.
    pub(super) fn have_map(&mut self, osd: usize) {
        if self.rados.osds[osd].is_silent {
            return;
        }
        self.rados.osds[osd].epoch = self.rados.epoch;
        // In the order in which it came: what a connection has sent later must not overtake.
        for operation in std::mem::take(&mut self.rados.osds[osd].waiting) {
            self.arrive_at_osd(operation);
        }
    }
}
