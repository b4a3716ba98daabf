//! An administrator outside the group puts the connection of a gateway on the cluster's blocklist.
//! No gateway takes over, and nothing is written by that connection any longer: the gateway goes on
//! by another one.

use serde_json::Value;

use super::group::Group;
use super::rounds::{RANGE_MIB, Rounds, ms};
use crate::ceph::testbed::soon;

/// Time for which hosts write.
const RUNTIME_S: u64 = 14;

impl Rounds {
    /// Puts the connection on the blocklist by which a gateway writes.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn shut_one_out(&mut self) -> Result<(), String> {
        let nsids = self.one_of_each();
        let mut hosts = self.start_hosts(nsids, RUNTIME_S, RANGE_MIB, false)?;
        let address = writer(&self.group, nsids[0])?;
        self.group.cluster.ceph(&["osd", "blocklist", "add", &address, "3600"])?;
        let ((), took) = soon("another connection that has the image", || {
            let now = writer(&self.group, nsids[0])?;
            if now == address { Err(format!("{address} has it, which is on the blocklist")) } else { Ok(()) }
        })?;
        self.group.await_rest()?;
        let mut deeds = hosts.finish()?;
        deeds.add(&hosts.check()?);
        self.has_states(nsids[0], 0)?;
        let log = self.group.log(0)?;
        if !log.contains("its connections were put on the blocklist from outside the group") {
            return Err(format!("the gateway does not log why it starts a new epoch: {log}"));
        }
        println!(
            "        goes on by another connection after {} ms; worst stall {} ms (of the other's host {} ms); {deeds}",
            ms(took),
            hosts.hit.worst_ms()?,
            hosts.beside.worst_ms()?,
        );
        Ok(())
    }
}

/// The address of the connection that has the lock of a namespace's image.
fn writer(group: &Group, nsid: u32) -> Result<String, String> {
    let text = group.cluster.rbd(&["lock", "ls", "--format", "json", &group.image(nsid)])?;
    let locks: Value =
        serde_json::from_str(&text).map_err(|error| format!("rbd lock ls: {error}: {text}"))?;
    let address = locks[0]["address"].as_str().map(str::to_owned);
    address.ok_or_else(|| format!("the image is not locked: {text}"))
}
