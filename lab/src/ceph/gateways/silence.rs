//! A gateway that is cut off from its cluster while it has the order to give an image to another
//! one: the caller of that order waits, and no other user does. It keeps out how gateways and hosts
//! are run.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::group::NQN;
use super::rounds::{RANGE_MIB, Rounds, is_address, ms};
use crate::answer::Answer;
use crate::ceph::testbed::soon;

/// Time for which hosts write: longer than the image is waited for, and until the gateway has its
/// load-balancing group again.
const RUNTIME_S: u64 = 22;
/// An operation on an image takes 30 s where the cluster is silent. Who waits for longer than this has waited for one.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Time until the move of the namespace is refused.
const REFUSAL_LIMIT: Duration = Duration::from_secs(60);

impl Rounds {
    /// Cuts a gateway off from its cluster in the middle of a change.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn change_in_silence(&mut self) -> Result<(), String> {
        let [victim, other] = self.two_gateways();
        let nsids = self.nsids([victim, other]);
        let mut hosts = self.start_hosts(nsids, RUNTIME_S, RANGE_MIB, false)?;
        // Not the one that the host writes to.
        let moved = self.group.neighbour(nsids[0]).to_string();
        let number = self.group.gateways[other].group.to_string();
        let words = ["namespace", "set", NQN, &moved, "--load-balancing-group", &number];
        let link = self.group.gateways[victim].links.cluster;
        self.group.network.cut(link)?;
        let began = Instant::now();
        let change = self.group.begin(victim, &words)?;
        let answered = self.others_are_answered(victim, nsids[0], began);
        let refused = Answer::of_program_within(change, &words, REFUSAL_LIMIT)?
            .fails(1, &["have taken too long", "starts a new epoch"]);
        let waited = began.elapsed();
        self.group.network.restore(link)?;
        let (takeover, longest) = answered?;
        refused?;
        self.group.await_rest()?;
        hosts.finish()?;
        hosts.check()?;
        // The refusal asks its reader to try again in a moment: other commands of that silence may end late as well.
        soon("the change", || self.group.administer(victim, &words))?;
        let home = self.group.gateways[victim].group.to_string();
        let words = ["namespace", "set", NQN, &moved, "--load-balancing-group", &home];
        soon("the way back", || self.group.administer(other, &words))?;
        println!(
            "        taken over after {} ms; the change was refused after {} ms, and others were answered in {} ms at most \
             meanwhile; worst stall {} ms (of another gateway's host {} ms)",
            ms(takeover),
            ms(waited),
            ms(longest),
            hosts.hit.worst_ms()?,
            hosts.beside.worst_ms()?,
        );
        Ok(())
    }

    /// Checks that the gateway reports the loss of service to its hosts, lets a new one in, and
    /// answers readers. Returns the time of the takeover, and the longest answer.
    fn others_are_answered(
        &self,
        victim: usize,
        nsid: u32,
        began: Instant,
    ) -> Result<(Duration, Duration), String> {
        let takeover = self.group.await_takeover(victim, began)?;
        let mut longest = Duration::ZERO;
        let mut look = |words: &[&str]| {
            let asked = Instant::now();
            self.group.administer(victim, words)?;
            longest = longest.max(asked.elapsed());
            Ok::<_, String>(())
        };
        look(&["gateways"])?;
        look(&["namespace", "list", NQN])?;
        look(&["connection", "list"])?;
        let address = &self.group.gateways[victim].address;
        soon("a path that is inaccessible", || is_inaccessible(&self.group.paths(nsid)?, address))?;
        match began.elapsed() {
            took if took < ANSWER_LIMIT => Ok((takeover, longest)),
            took => Err(format!("others were answered only after {} ms", ms(took))),
        }
    }
}

/// Of the paths to a namespace, the one to `address` has to be inaccessible.
fn is_inaccessible(paths: &[Value], address: &str) -> Result<(), String> {
    let is_it = |path: &&Value| is_address(path["address"].as_str().unwrap_or_default(), address);
    match paths.iter().find(is_it) {
        Some(path) if path["ana"] == "inaccessible" => Ok(()),
        path => Err(format!("the path to {address} is {path:?}")),
    }
}
