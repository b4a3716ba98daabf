//! What can happen to a gateway while hosts write, and how it ends. It keeps out when that is, and what has to be so then.

use std::time::Duration;

use crate::emulator::link::Dice;
use crate::network::Network;

use super::group::Gateway;

/// Time for which writes gather in a gateway before it is away altogether: enough for a host's
/// whole depth, and far from a lease.
const CLOG: Duration = Duration::from_millis(700);

/// A way for a gateway to be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Outage {
    /// SIGKILL. What it had sent to the cluster may still land, and nothing else.
    Killed,
    /// SIGSTOP. It goes on later with what it had begun, as if no time had passed.
    Stopped,
    /// The gateway reaches neither hosts nor the cluster. Its commands are sent again when the link
    /// is back.
    CutOff,
    /// Hosts reach it, but it does not reach the cluster.
    CutFromCluster,
    /// The gateway reaches the cluster, but hosts do not reach it.
    CutFromHosts,
}

impl Outage {
    pub(super) const ALL: [Outage; 5] =
        [Outage::Killed, Outage::Stopped, Outage::CutOff, Outage::CutFromCluster, Outage::CutFromHosts];

    /// Name of the outage, for people.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Outage::Killed => "killed",
            Outage::Stopped => "stopped",
            Outage::CutOff => "cut off",
            Outage::CutFromCluster => "cut off from its cluster",
            Outage::CutFromHosts => "cut off from hosts",
        }
    }

    /// True if the gateway may have commands left afterwards, which must not be carried out then. A
    /// gateway that only its hosts have lost carries them out during the outage.
    pub(super) const fn may_write_late(self) -> bool {
        !matches!(self, Outage::Killed | Outage::CutFromHosts)
    }

    /// Least length, in milliseconds: a random time.
    pub(super) fn lasts_ms(self, dice: &mut Dice) -> u64 {
        let (least, most) = match self {
            Outage::Killed => (2_000, 6_000),
            Outage::Stopped => (8_000, 12_000),
            Outage::CutOff | Outage::CutFromCluster | Outage::CutFromHosts => (5_000, 12_000),
        };
        least + u64::from(dice.next()) % (most - least)
    }

    /// Begins the outage. A gateway loses the cluster a moment before all else, so that hosts'
    /// writes are stuck in it: those are what must not land later, and an idle cluster would have
    /// none of them.
    ///
    /// # Errors
    /// The emulator of links is gone.
    pub(super) fn begin(self, network: &mut Network, gateway: &mut Gateway) -> Result<(), String> {
        if self.may_write_late() {
            network.cut(gateway.links.cluster)?;
            std::thread::sleep(CLOG);
        }
        match self {
            Outage::Killed => gateway.daemon.kill(),
            Outage::Stopped => {
                gateway.daemon.stop();
                network.restore(gateway.links.cluster)?;
            }
            Outage::CutFromCluster => {}
            Outage::CutOff | Outage::CutFromHosts => network.cut(gateway.links.hosts)?,
        }
        Ok(())
    }

    /// Ends the outage: the same program goes on, or another one starts.
    ///
    /// # Errors
    /// The emulator of links is gone, or the program does not start.
    pub(super) fn end(self, network: &mut Network, gateway: &mut Gateway) -> Result<(), String> {
        match self {
            Outage::Killed => gateway.daemon.start(),
            Outage::Stopped => {
                gateway.daemon.resume();
                Ok(())
            }
            Outage::CutOff | Outage::CutFromCluster | Outage::CutFromHosts => {
                network.restore(gateway.links.hosts)?;
                network.restore(gateway.links.cluster)
            }
        }
    }
}
