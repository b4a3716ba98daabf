//! A target that serves namespaces together with others offers no reservations, and refuses their commands.

use crate::raw_host::{NQN, assert_status, configure, subsystem};
use crate::reservation_party::Party;
use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{NamespaceConfig, Target, TargetConfig};
use nvme::Status;
use nvme::command::io_opcode;
use nvme::identify::bits::optional_nvm_commands;
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
