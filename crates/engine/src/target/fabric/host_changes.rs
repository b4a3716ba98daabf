//! Changes that hosts ask for, each at the rate of its host: of namespaces, which the administration makes, and of reservations.

use nvme::Status;

use super::fabric::Fabric;
use crate::limits::{HOST_CHANGES_AT_ONCE, HOST_NAMESPACES, HOST_RESERVATIONS_AT_ONCE, NAMESPACES_MAX};
use crate::ring;
use crate::target::config::StorageConfig;
use crate::target::controller::Controller;
use crate::target::messaging::ChangeRate;

/// Changes that a host may ask for at once for each namespace that it may have.
const CHANGES_PER_NAMESPACE: u32 = HOST_CHANGES_AT_ONCE / HOST_NAMESPACES;

impl Fabric {
    /// Has a change begun that a host asks the administration for. A host that may have more namespaces than usual may change
    /// as many more at once.
    ///
    /// # Errors
    /// Command Interrupted if the host makes too many changes, or that of `begin`.
    pub(crate) fn change_namespace(
        &self,
        controller: &Controller,
        begin: impl FnOnce() -> Result<(), Status>,
    ) -> Result<(), Status> {
        let own = {
            let state = controller.subsystem.state();
            state.config.storage.as_ref().map_or(HOST_NAMESPACES, StorageConfig::host_namespaces_max)
        };
        let at_once = CHANGES_PER_NAMESPACE * own.clamp(HOST_NAMESPACES, NAMESPACES_MAX);
        self.change(&self.change_rates.requests, (1, at_once), controller, begin)
    }

    /// The same of changes of reservations.
    ///
    /// # Errors
    /// As for [`Self::change_namespace`].
    pub(crate) fn change_reservations(
        &self,
        changes: usize,
        controller: &Controller,
        begin: impl FnOnce() -> Result<(), Status>,
    ) -> Result<(), Status> {
        let changes = (changes, HOST_RESERVATIONS_AT_ONCE);
        self.change(&self.change_rates.reservations, changes, controller, begin)
    }

    /// Counts a change that begins, and no other: hosts may have taken the last places, and this one comes again.
    fn change(
        &self,
        rate: &ChangeRate,
        (changes, at_once): (usize, u32),
        controller: &Controller,
        begin: impl FnOnce() -> Result<(), Status>,
    ) -> Result<(), Status> {
        let guest = &controller.guest;
        rate.count(guest, (changes, at_once), ring::now()).inspect_err(|_| {
            if let Some(times) = self.refusals.count_change() {
                let (host, controller) = (&controller.host.nqn, controller.id);
                tracing::warn!(
                    host,
                    controller,
                    times,
                    "Refused a change: the host, or its network, makes too many; it may repeat the command"
                );
            }
        })?;
        begin().inspect_err(|_| rate.uncount(guest, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nvme::cross_reset::ControllerInstance;

    use super::*;
    use crate::backend::Clusters;
    use crate::ring::Moment;
    use crate::target::config::SubsystemConfig;
    use crate::target::controller::{Guest, Network};
    use crate::target::fabric::TargetConfig;
    use crate::target::served::{Host, HostKeys, Opened, Subsystem};

    fn fabric() -> Fabric {
        Fabric::new(None, &TargetConfig::default(), Clusters::default())
    }

    /// Controller in a subsystem of which each host may have this number of namespaces.
    fn controller(namespaces_max_per_host: Option<u32>) -> Controller {
        let storage = StorageConfig { namespaces_max_per_host, ..StorageConfig::new("/srv".into(), 1 << 30) };
        let config = SubsystemConfig {
            storage: Some(storage),
            ..SubsystemConfig::new("nqn.2026-01.io.selvedge:a", "A", "Selvedge")
        };
        let subsystem = Arc::new(Subsystem::new(&config, Opened::new(), HostKeys::default()));
        let host = Host::new("nqn.2026-01.io.selvedge:host".to_owned(), [1; 16]);
        let network = Network::of([10, 0, 0, 1].into());
        let guest = Guest { nqn: host.nqn.clone(), network, is_named: true, is_proved: true };
        let instance = ControllerInstance { controller_id: 1, uniquifier: 1, random_number: 1 };
        Controller::new(instance, subsystem, host, (1, guest), (None, true), 0, Moment(1))
    }

    #[test]
    fn a_host_that_may_have_more_namespaces_may_change_as_many_more_at_once() {
        for (own, expected) in [
            (None, HOST_CHANGES_AT_ONCE),
            (Some(1), HOST_CHANGES_AT_ONCE),
            (Some(4 * HOST_NAMESPACES), 4 * HOST_CHANGES_AT_ONCE),
            (Some(u32::MAX), CHANGES_PER_NAMESPACE * NAMESPACES_MAX),
        ] {
            let (fabric, controller) = (fabric(), controller(own));
            let asked =
                (0..2 * expected).take_while(|_| fabric.change_namespace(&controller, || Ok(())).is_ok());
            // With time it may ask for some more.
            assert!((expected..2 * expected).contains(&(asked.count() as u32)), "{own:?}");
        }
    }

    #[test]
    fn a_host_whose_changes_find_no_place_may_repeat_them_without_end() {
        let (fabric, controller) = (fabric(), controller(None));
        let full = || Err(Status::COMMAND_INTERRUPTED);
        for _ in 0..2 * HOST_CHANGES_AT_ONCE {
            assert!(fabric.change_namespace(&controller, full).is_err());
            assert!(fabric.change_reservations(NAMESPACES_MAX as usize, &controller, full).is_err());
        }
        assert_eq!(fabric.refusals.changes(), 0);
        assert_eq!(fabric.change_namespace(&controller, || Ok(())), Ok(()));
        assert_eq!(fabric.change_reservations(1, &controller, || Ok(())), Ok(()));
    }
}
