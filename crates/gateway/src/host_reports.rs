//! Reports of gateways to each other on their hosts: when they are written and read, and the last
//! ones. The conclusions are those of `presence`.

use std::collections::{BTreeMap, BTreeSet};

use engine::limits::GATEWAY_PRESENCE_MS;

use super::membership::Membership;
use super::presence::{Presence, PresenceWatch, UnreachedHost, stranded, unreached};
use super::store::StoreError;

/// Last reports, of this gateway and of the others.
#[derive(Debug, Default)]
pub(super) struct HostReports {
    next_ms: u64,
    said: Option<Presence>,
    heard: BTreeMap<String, Presence>,
    watch: PresenceWatch,
}

impl Membership {
    /// Says which hosts are here, and hears which are elsewhere, if it is time. On a thread that nothing waits for.
    pub(super) fn exchange_hosts(&self) {
        let now_ms = self.now_ms();
        let mut reports = self.host_reports();
        if !self.duty.acts() || now_ms < reports.next_ms {
            return;
        }
        reports.next_ms = now_ms + GATEWAY_PRESENCE_MS;
        let (said, watch) = (reports.said.clone(), reports.watch.clone());
        // Who asks for the group's status does not wait for the cluster.
        drop(reports);
        match self.exchange(said.as_ref(), watch, now_ms) {
            Ok((said, heard, watch)) => {
                let mut reports = self.host_reports();
                (reports.said, reports.heard, reports.watch) = (Some(said), heard, watch);
            }
            Err(error) => tracing::debug!(%error, "gateways do not hear which hosts are here"),
        }
    }

    fn exchange(
        &self,
        said: Option<&Presence>,
        mut watch: PresenceWatch,
        now_ms: u64,
    ) -> Result<(Presence, BTreeMap<String, Presence>, PresenceWatch), StoreError> {
        let guests = self.target.get().map(|target| target.guests()).unwrap_or_default();
        let heard = self.store().presences()?;
        let (state, me) = {
            let seen = self.seen();
            (seen.state.clone(), seen.me.clone())
        };
        watch.note(unreached(&state, &me, &guests, &heard), now_ms);
        let says = Presence::new(me.epoch, &guests, watch.reported());
        if said != Some(&says) {
            self.store().say_presence(&me.gateway, &says)?;
        }
        // A gateway of another name may never come back.
        let gone: Vec<String> =
            heard.keys().filter(|name| !state.gateways.contains_key(*name)).cloned().collect();
        if !gone.is_empty() {
            self.store().forget_presences(gone)?;
        }
        Ok((says, heard, watch))
    }

    /// The hosts of this gateway that have no path to another one which serves what they may use.
    pub fn own_unreached(&self) -> Vec<UnreachedHost> {
        self.host_reports().watch.reported().iter().cloned().collect()
    }

    /// The guests of a gateway, by their numbers, that have no path to another one which may serve.
    pub(super) fn stranded_at(&self, name: &str) -> BTreeSet<u64> {
        let guests = self.target.get().map(|target| target.guests()).unwrap_or_default();
        let (state, me) = {
            let seen = self.seen();
            (seen.state.clone(), seen.me.clone())
        };
        let mut reports = self.host_reports().heard.clone();
        // Of its own hosts it knows who has come since it said who is there.
        reports.insert(me.gateway, Presence::new(me.epoch, &guests, &BTreeSet::new()));
        stranded(&state, name, &reports)
    }

    /// The same of all gateways that may serve, as far as they have said so.
    pub(super) fn all_unreached(&self) -> Vec<UnreachedHost> {
        let seen = self.seen();
        let reports = self.host_reports();
        let others = seen.state.alive().filter(|(name, _)| **name != seen.me.gateway);
        let theirs =
            others.filter_map(|(name, gateway)| Some(reports.heard.get(name)?.unreached_at(gateway.epoch)));
        reports.watch.reported().iter().chain(theirs.flatten()).cloned().collect()
    }
}
