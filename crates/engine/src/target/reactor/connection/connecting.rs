//! How a connection becomes a queue: its first command is Connect, and what comes of that is what it is for.

use std::time::Duration;

use nvme::command::admin_opcode;
use nvme::fabrics::{Connect, fabrics_type};
use nvme::{Status, SubmissionEntry};

use super::{Connection, Environment, proof};
use crate::target::admin::{Taken, check_capsule};
use crate::target::controller::Network;
use crate::target::io::Reply;
use crate::target::queue::Disconnect;
use crate::target::reactor::connect::{self, Caller, Connected, Proof, Refused, WantsProof};
use crate::target::reactor::host_authentication::HostAuthentication;
use crate::target::reactor::role::Role;

impl Connection {
    /// A command of a connection that is not a queue yet, which has to be Connect.
    pub(super) fn first_command(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        env: &mut Environment<'_>,
    ) -> Result<(), Disconnect> {
        check_capsule(data_length)?;
        let Role::New(intake) = self.state.role_mut() else { return Ok(()) };
        let command_id = entry.command_id.get();
        let is_connect =
            entry.opcode == admin_opcode::FABRICS && entry.fabrics_type() == fabrics_type::CONNECT;
        let refused = if !is_connect {
            Some(Status::COMMAND_SEQUENCE_ERROR.do_not_retry())
        } else if entry.fused() != 0 {
            Some(Status::INVALID_FIELD.do_not_retry())
        } else if intake.has(command_id) {
            Some(Status::COMMAND_ID_CONFLICT)
        } else {
            None
        };
        let taken = match refused {
            Some(status) => Err(status),
            None => intake.take(entry, data_length, 0, env.pool)?,
        };
        match taken {
            Err(status) => self.queue.reply(Reply::new(command_id, status, 0)),
            Ok(Taken::Awaits(next)) => self.queue.take(next),
            Ok(Taken::Ready) => return self.connect(entry, &[], env),
        }
        Ok(())
    }

    /// Connect, with its data.
    pub(super) fn connect(
        &mut self,
        entry: &SubmissionEntry,
        data: &[u8],
        env: &mut Environment<'_>,
    ) -> Result<(), Disconnect> {
        // No response if the port has been removed meanwhile: after an error the host would not
        // connect again.
        if env.fabric.directory().port(self.port).is_none() {
            return Err(Disconnect::Gone);
        }
        match self.try_connect(entry, data, None, env) {
            Ok(connected) => {
                let is_proved = !matches!(connected.role, Role::Unproved(_));
                let asked = if is_proved { 0 } else { proof::asked(&connected) };
                let answer = (entry.command_id.get(), u64::from(connected.controller_id) | asked);
                self.state.connected(connected.role);
                self.queue.connected(connected.entries, connected.has_flow_control, answer);
                let may_authenticate = connected.wants_proof.is_some();
                let within = proof::time_to_prove(&Connect::decode(entry), connected.controller_id, env);
                self.may_authenticate(connected.wants_proof, within, connected.entries);
                if may_authenticate && !is_proved {
                    self.queue.close_at(Some(env.now.after(within)));
                }
            }
            Err(refused) => {
                self.queue.reply(Reply::new(entry.command_id.get(), refused.status, refused.result));
            }
        }
        Ok(())
    }

    /// Prepares for the authentication of the host, if it has to authenticate or may repeat it.
    pub(super) fn may_authenticate(
        &mut self,
        wants_proof: Option<WantsProof>,
        within: Duration,
        entries: u16,
    ) {
        if let Some(wants_proof) = wants_proof {
            let network = Network::of(self.peer.ip());
            let held = HostAuthentication::new(wants_proof, (network, within), entries);
            self.authentication = Some(Box::new(held));
        }
    }

    #[cold]
    pub(super) fn try_connect(
        &mut self,
        entry: &SubmissionEntry,
        data: &[u8],
        proof: Option<Proof>,
        env: &Environment<'_>,
    ) -> Result<Connected, Refused> {
        let caller = Caller {
            address: self.address,
            port: self.port,
            peer: self.peer,
            socket: self.queue.socket(),
            has_data_digest: self.queue.digests().data,
            protection: self.protection.as_ref(),
            fabric: env.fabric,
            now: env.now,
            proof,
            former: None,
        };
        connect::connect(entry, data, &caller, &mut self.seen)
    }
}
