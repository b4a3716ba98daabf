//! Reservation commands of an I/O queue: their data is taken here, and the clerk does them.
//! What they mean is in `reservation`.

use nvme::Status;

use super::clerk::{Job, Task};
use super::connection::{Connection, Environment, Session};
use super::slot::{Stage, Work};

impl Connection {
    /// A reservation command has its data, or needs none.
    pub(super) fn reservation_data_came(&mut self, index: u16, env: &mut Environment<'_>) {
        let handed = self.hand_to_clerk(index, env);
        // The clerk has a copy of its data, and a report gets a buffer when there is something to put into it.
        self.slots.drop_data(index, env.pool);
        match handed {
            Ok(()) => {
                // What the clerk does may come to pass when the connection is gone, as with the storage.
                self.slots.keep();
                self.slots.at(index).stage = Stage::Clerk;
            }
            Err(status) => self.finish(index, status, env),
        }
    }

    fn hand_to_clerk(&mut self, index: u16, env: &Environment<'_>) -> Result<(), Status> {
        let Session::Io { controller, .. } = &self.session else { return Err(Status::INTERNAL_ERROR) };
        if !env.fabric.offers_reservations() {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        let controller = controller.clone();
        let slot = self.slots.at(index);
        let Work::Reservation { command } = slot.work else { return Err(Status::INTERNAL_ERROR) };
        let namespace = slot.attachment().ok_or(Status::INVALID_NAMESPACE)?.namespace.clone();
        let command_id = slot.command_id;
        // Without an identifier a host is nobody who could be registered (RHII, Base 8.1.22).
        if controller.host.is_nameless() {
            return Err(Status::HOST_ID_NOT_INITIALIZED.do_not_retry());
        }
        let data = self.slots.data(index).to_vec();
        let asker = self.asker(command_id, env);
        let task = Task::Command { namespace, command, data, slot: index };
        env.fabric.hand_to_clerk(Job { controller, asker, task })
    }
}
