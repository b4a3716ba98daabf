//! A target that serves namespaces together with others offers no reservations, and refuses their commands.

use crate::raw_host::{Give, NQN, assert_status, configure, subsystem};
use crate::reservation_party::Party;
use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{NamespaceConfig, Target, TargetConfig};
use nvme::Status;
use nvme::command::io_opcode;
use nvme::identify::bits::optional_nvm_commands;
use nvme::io::{Fused, IoCommand};
use nvme::log_page::{CommandsSupported, LogPageId};
use nvme::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReservationType};
use zerocopy::FromBytes;

#[test]
fn a_target_that_offers_none_refuses_all() {
    let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 512);
    let served = vec![subsystem(NQN, vec![namespace])];
    let config = TargetConfig { reservations: false, ..configure(Engine::Automatic, served) };
    let target = Target::start(&config).unwrap();
    let mut party = Party::connect(target.ports()[0], 1);
    let none = PersistenceChange::NoChange;
    let status = party.register_with(1, RegisterAction::Register, (0, party.key), none);
    assert_status(status, Status::INVALID_OPCODE, "register");
    let status =
        party.acquire_with(1, AcquireAction::Acquire, ReservationType::WriteExclusive, (party.key, 0));
    assert_status(status, Status::INVALID_OPCODE, "acquire");
    let announced = party.host.admin.identified_controller().optional_nvm_commands.get();
    assert_eq!(announced & optional_nvm_commands::RESERVATIONS, 0);
    let log = party.host.admin.logged(LogPageId::COMMANDS_SUPPORTED, 0, 4096);
    let log = CommandsSupported::read_from_bytes(&log).unwrap();
    for opcode in [
        io_opcode::RESERVATION_REGISTER,
        io_opcode::RESERVATION_REPORT,
        io_opcode::RESERVATION_ACQUIRE,
        io_opcode::RESERVATION_RELEASE,
    ] {
        assert_eq!(log.io[usize::from(opcode)].get(), 0, "{opcode:#x} is not supported");
    }
}

#[test]
fn blocks_that_another_target_may_write_are_not_reserved_nor_compared_and_written_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let namespace = |nsid: u32, shared_storage| {
        let path = folder.path().join(nsid.to_string());
        let backend = BackendConfig::File { path, size: Some(1 << 20) };
        NamespaceConfig { shared_storage, ..NamespaceConfig::new(nsid, backend, 512) }
    };
    let served = vec![subsystem(NQN, vec![namespace(1, false), namespace(2, true)])];
    let target = Target::start(&configure(Engine::Automatic, served)).unwrap();
    let mut party = Party::connect(target.ports()[0], 1);
    assert_eq!(party.host.admin.identified_controller().fused_operations.get(), 0);
    let block = [0; 512];
    for (nsid, reserved, fused) in
        [(1, Status::SUCCESS, Status::SUCCESS), (2, Status::INVALID_OPCODE, Status::INVALID_FIELD)]
    {
        let capabilities = party.host.admin.identified_namespace(nsid).reservation_capabilities;
        assert_eq!(capabilities != 0, reserved.is_success(), "namespace {nsid}: {capabilities:#x}");
        let (keys, none) = ((0, party.key), PersistenceChange::NoChange);
        let status = party.register_with(nsid, RegisterAction::Register, keys, none);
        assert_status(status, reserved, "register");
        let queue = &mut party.queues[0];
        let compare = IoCommand::Compare { start: 0, blocks: 1 };
        let write = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false };
        for (command, half) in [(compare, Fused::First), (write, Fused::Second)] {
            queue.submit(command.encode_fused(nsid, half), Give::Capsule(&block));
        }
        for reply in [queue.wait(), queue.wait()] {
            assert_status(reply.status, fused, &format!("a half of a pair on namespace {nsid}"));
        }
    }
}
