//! A target that demands the slowest group, and what a driver's other queues do meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use authentication::{Group, Hash, Secret};
use nvme::io::IoCommand;
use prerequisite::{Wait, wait_until};

use super::*;
use crate::backend::BackendConfig;
use crate::initiator::driver::{Driver, QueueSet};
use crate::initiator::queue::{Data, Queue};
use crate::initiator::{ConnectOptions, Controller, HostIdentity, HostSecrets};
use crate::limits::RECEIVE_LENGTH;
use crate::ring::{Buffer, Ring, RingOptions};
use crate::target::{
    FabricConfig, HostKeyConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig,
};

const NQN: &str = "nqn.2014-08.org.example:slow";
const HOST: &str = "nqn.2014-08.org.example:host";

fn secret() -> Secret {
    Secret::new(&[7; 32], Some(Hash::Sha256)).expect("32 bytes are a key")
}

/// Two queues on one driver, of which the first authenticates again and again.
struct Fixture {
    driver: Driver<QueueSet, ()>,
    worker: AuthenticationWorker,
    _controller: Controller,
    _target: Target,
}

impl Fixture {
    fn live() -> Self {
        let target = target();
        let secrets = |reauth_interval| {
            Some(Arc::new(HostSecrets { secret: secret(), controller_secret: None, reauth_interval }))
        };
        let controller = Controller::connect(ConnectOptions {
            host: HostIdentity::from_nqn(HOST),
            secrets: secrets(None),
            io_queues: 2,
            ..ConnectOptions::new(target.ports()[0], NQN)
        })
        .expect("a controller");
        let mut ring = Ring::new(RingOptions::default()).expect("a ring");
        let worker = AuthenticationWorker::new(ring.waker());
        let mut queues = QueueSet::new(0, worker.clone());
        let mut restless = controller.queue_options(1);
        restless.secrets = secrets(Some(Duration::from_millis(1)));
        queues.open(&mut ring, &[restless, controller.queue_options(2)]).expect("queues");
        let driver = Driver::new(ring, queues, RECEIVE_LENGTH);
        let mut fixture = Self { driver, worker, _controller: controller, _target: target };
        fixture.until(|fixture| fixture.driver.queues().is_live());
        fixture
    }

    fn queue(&self) -> &Queue {
        &self.driver.queues().queues()[0]
    }

    fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let wait = Wait::begin("the queues get there");
        while !holds(self) {
            wait.check();
            self.driver.flush();
            self.driver.turn(Some(Duration::from_millis(10))).expect("a ring");
            while let Some((_, ended)) = self.driver.pop() {
                assert!(ended.answer().is_ok_and(|completion| completion.status.is_success()));
            }
        }
    }
}

fn target() -> Target {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("host");
    fs::write(&file, secret().reveal().as_bytes()).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
    let mut key = HostKeyConfig::new(HOST, file);
    key.dhchap_dhgroup = vec![Group::Ffdhe8192];
    subsystem.host_keys = vec![key];
    let ports = vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())];
    let fabric = FabricConfig { ports, subsystems: vec![subsystem], ..FabricConfig::default() };
    Target::start(&TargetConfig { fabric, ..TargetConfig::default() }).expect("a target")
}

#[test]
fn reads_go_on_while_a_queue_of_the_same_driver_authenticates() {
    let mut fixture = Fixture::live();
    let read = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false }.encode(1);
    let (wait, mut meanwhile, mut exchanges) = (Wait::begin("100 reads and 3 exchanges"), 0, 0);
    while meanwhile < 100 || exchanges < 3 {
        wait.check();
        fixture.driver.submit(read, Data::Receive(Buffer::zeroed(4096)), ());
        fixture.driver.flush();
        let was_computing = fixture.queue().is_computing();
        fixture.driver.turn(Some(Duration::from_millis(10))).expect("a ring");
        let is_computing = fixture.queue().is_computing();
        exchanges += u32::from(was_computing && !is_computing);
        while let Some((_, ended)) = fixture.driver.pop() {
            assert!(ended.answer().is_ok_and(|completion| completion.status.is_success()));
            meanwhile += u32::from(was_computing && is_computing);
        }
    }
    fixture.driver.close();
}

#[test]
fn a_queue_closes_while_its_step_is_computed_and_the_thread_ends() {
    let mut fixture = Fixture::live();
    fixture.until(|fixture| fixture.queue().is_computing());
    fixture.driver.close();
    assert!(!fixture.queue().is_computing());
    wait_until("the thread ends", || !fixture.worker.0.state().is_running);
}

#[test]
fn abandoned_steps_are_given_up_when_too_many_wait() {
    let ring = Ring::new(RingOptions::default()).expect("a ring");
    let worker = AuthenticationWorker::new(ring.waker());
    // As if its thread were at work on another.
    worker.0.state().is_running = true;
    let wanted: Vec<_> = (1..HOST_AUTHENTICATION_JOBS_MAX).map(|_| worker.hand(|| 7)).collect();
    assert!(wanted.iter().all(Option::is_some));
    drop(worker.hand(|| 7));
    let last = worker.hand(|| 7).expect("the place of the one that was given up");
    assert!(worker.hand(|| 7).is_none());
    worker.0.run();
    assert!(matches!(last.state(), StepState::Done(7)));
    assert!(!worker.0.state().is_running);
}
