//! What befalls the links between hosts and targets.

use std::time::Duration;

use engine::simulation::{self, Direction, sleep};

use crate::fault::Fault;
use crate::scene::{Scene, address};

impl Scene {
    pub(crate) fn befall_link(&self, fault: Fault, (host, path): (usize, usize), time: Duration) {
        let disk = self.disk.as_ref().map(|disk| disk.machine);
        let Some(machine) = self.hosts.get(host).map(|node| node.machine).or(disk) else { return };
        let to = address(path / self.plan.ports, path % self.plan.ports).ip();
        match fault {
            Fault::CutLink { there, back, .. } => {
                let set = |is_cut| {
                    if there {
                        simulation::cut(machine, to, Direction::There, is_cut);
                    }
                    if back {
                        simulation::cut(machine, to, Direction::Back, is_cut);
                    }
                };
                set(true);
                sleep(time);
                set(false);
            }
            Fault::SlowLink { bytes_per_second, .. } => {
                simulation::set_link(machine, to, (5_000, 60_000), bytes_per_second);
                sleep(time);
                simulation::set_link(machine, to, (20, 120), 1_000_000_000);
            }
            _ => simulation::reset(machine, to),
        }
    }
}
