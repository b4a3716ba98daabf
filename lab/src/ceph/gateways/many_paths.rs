//! A host with a controller of each of several subsystems at one gateway: how it finds namespaces, and is notified of changes. It
//! keeps out what is changed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use engine::initiator::{ConnectOptions, Controller};
use nvme::features::AsyncEvent;
use nvme::log_page::LogPageId;

use crate::ceph::target::said;

/// Interval of looks for events: it is part of what is measured.
const LOOK: Duration = Duration::from_millis(1);
/// Time for an event of a change, which may have been refused.
const EVENT_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of the list of changed namespaces, and of an ANA log without its descriptors.
const CHANGED_BYTES: usize = 4096;
const ANA_BYTES: usize = 16;
/// Load-balancing groups, each with a descriptor of this length and the identifiers of its namespaces.
const GROUPS: usize = 2;
const GROUP_BYTES: usize = 32;

/// The controllers of a host at one gateway, in the order of subsystems.
pub(super) struct PathSet(Vec<Controller>);

/// Times of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Until it was answered.
    pub(super) answered: Duration,
    /// Until hosts of either gateway had an event.
    pub(super) events: [Duration; 2],
}

impl PathSet {
    /// Connects to all subsystems.
    ///
    /// # Errors
    /// A subsystem is not there.
    pub(super) fn connect(address: SocketAddr, names: &[String]) -> Result<PathSet, String> {
        let connect = |name: &String| Controller::connect(ConnectOptions::new(address, name)).map_err(said);
        names.iter().map(connect).collect::<Result<_, _>>().map(PathSet)
    }

    /// The same, with that number of namespaces.
    ///
    /// # Errors
    /// They are not all there.
    pub(super) fn whole(address: SocketAddr, names: &[String], count: u32) -> Result<PathSet, String> {
        let set = PathSet::connect(address, names)?;
        let ids =
            set.0.iter().map(|controller| Ok::<_, String>(controller.namespace_ids().map_err(said)?.len()));
        let found = ids.sum::<Result<usize, String>>()?;
        if found == count as usize {
            Ok(set)
        } else {
            Err(format!("{found} of {count} namespaces are there"))
        }
    }

    /// Identifies all namespaces, and reads their ANA states.
    ///
    /// # Errors
    /// The gateway refuses.
    pub(super) fn look(&self) -> Result<(), String> {
        for controller in &self.0 {
            let found = controller.namespaces().map_err(said)?.len();
            let length = ANA_BYTES + GROUPS * GROUP_BYTES + 4 * found;
            controller.log_page(LogPageId::ANA, 0, 0, length).map_err(said)?;
        }
        Ok(())
    }

    /// Reads the discovery log of the gateway at an address.
    ///
    /// # Errors
    /// The gateway refuses.
    pub(super) fn discover(address: SocketAddr) -> Result<(), String> {
        let controller = Controller::connect(ConnectOptions::discovery(address)).map_err(said)?;
        controller.discovery_log().map(drop).map_err(said)
    }

    /// Makes a change of the first subsystem, and waits until hosts of both gateways have its event.
    ///
    /// # Errors
    /// The change is refused, or an event does not come.
    pub(super) fn notified(
        hosts: [&PathSet; 2],
        change: impl FnOnce() -> Result<(), String>,
        until: Instant,
    ) -> Result<Change, String> {
        let until = until.min(Instant::now() + EVENT_LIMIT);
        hosts.iter().try_for_each(|host| host.settle())?;
        std::thread::scope(|scope| {
            let began = Instant::now();
            let event = AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED;
            let watches = hosts.map(|host| scope.spawn(move || host.await_event(0, event, began, until)));
            change()?;
            let answered = began.elapsed();
            let mut events = [Duration::ZERO; 2];
            for (time, watch) in events.iter_mut().zip(watches) {
                *time = watch.join().map_err(|_| "a host ended".to_owned())??;
            }
            Ok(Change { answered, events })
        })
    }

    /// Time since `began` until the controllers of all subsystems had an event of other ANA states.
    ///
    /// # Errors
    /// It does not come.
    pub(super) fn await_access_change(&self, began: Instant, until: Instant) -> Result<Duration, String> {
        let mut last = Duration::ZERO;
        for number in 0..self.0.len() {
            last = last.max(self.await_event(number, AsyncEvent::ANA_CHANGE, began, until)?);
        }
        Ok(last)
    }

    fn await_event(
        &self,
        number: usize,
        event: AsyncEvent,
        began: Instant,
        until: Instant,
    ) -> Result<Duration, String> {
        while Instant::now() < until {
            if self.0[number].events().contains(&event) {
                return Ok(began.elapsed());
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("no event {event:?}"))
    }

    /// Reads what events lead to, so that they come again, and forgets those that came.
    ///
    /// # Errors
    /// The gateway refuses.
    pub(super) fn settle(&self) -> Result<(), String> {
        for controller in &self.0 {
            controller.log_page(LogPageId::CHANGED_NAMESPACES, 0, 0, CHANGED_BYTES).map_err(said)?;
            controller.log_page(LogPageId::ANA, 0, 0, ANA_BYTES + GROUPS * GROUP_BYTES).map_err(said)?;
            let _ = controller.events();
        }
        Ok(())
    }
}
