//! Targets of two gateways that follow one state, and the secrets that they accept.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use authentication::Secret;
use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, HostIdentity, HostSecrets};
use engine::target::{HostKeyConfig, SubsystemConfig, TargetConfig};

use super::*;
use crate::state::Owner;

const NQN: &str = "nqn.test:a";
const HOST: &str = "nqn.test:host";
const HOUR: Duration = Duration::from_secs(3600);

fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32], None).unwrap()
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A gateway, with a file of its own of the name that all gateways have.
struct Gateway {
    name: &'static str,
    file: PathBuf,
    target: Target,
    serving: Serving,
}

impl Gateway {
    fn start(name: &'static str, folder: &Path, state: &mut GroupState) -> Self {
        let file = folder.join(name);
        write(&file, &secret(1).reveal());
        state.register(&Owner { gateway: name.to_owned(), epoch: 1 }, &[]).unwrap();
        let ports = [PortConfig::new(1, ([127, 0, 0, 1], 0).into())];
        let fabric = Serving::default().view(&Self::own(state, &file), name, &ports).build();
        let target = Target::start(&TargetConfig { fabric, ..TargetConfig::default() }).unwrap();
        Self { name, file, target, serving: Serving::default() }
    }

    /// The state as this gateway's machine has it.
    fn own(state: &GroupState, file: &Path) -> GroupState {
        let mut state = state.clone();
        state.config.subsystems[0].host_keys[0].dhchap_secret_file = Some(file.to_owned());
        state
    }

    fn adjust(&mut self, state: &GroupState, now_ms: u64) -> Adjusted {
        let state = Self::own(state, &self.file);
        let groups = BTreeSet::from([1]);
        let decision = Decision { hold: groups.clone(), open: groups, ..Decision::default() };
        self.serving.adjust(&self.target, &state, self.name, &decision, (true, now_ms))
    }

    /// Secrets that the gateway accepts, among these.
    fn accepted(&self, secrets: &[u8]) -> Vec<u8> {
        let address: SocketAddr = self.target.ports()[0];
        let accepts = |byte: &u8| {
            let secrets =
                HostSecrets { secret: secret(*byte), controller_secret: None, reauth_interval: None };
            let options = ConnectOptions {
                host: HostIdentity::from_nqn(HOST),
                secrets: Some(Arc::new(secrets)),
                io_queues: 0,
                ..ConnectOptions::new(address, NQN)
            };
            Controller::connect(options).is_ok()
        };
        secrets.iter().copied().filter(accepts).collect()
    }
}

fn state() -> GroupState {
    let mut state = GroupState::default();
    let namespace = NamespaceConfig::new(1, BackendConfig::Null { size: 1 << 20 }, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "A", "Selvedge").with(vec![namespace]);
    subsystem.host_keys = vec![HostKeyConfig::new(HOST, "/nowhere".into())];
    state.config.subsystems.push(subsystem);
    state
}

#[test]
fn all_gateways_reread_their_files_when_one_has_new_secrets() {
    let (folder, mut state) = (tempfile::tempdir().unwrap(), state());
    let mut gateways = ["a", "b"].map(|name| Gateway::start(name, folder.path(), &mut state));
    for gateway in &mut gateways {
        gateway.adjust(&state, 0);
        assert_eq!(gateway.adjust(&state, 1), Adjusted::Unchanged);
        write(&gateway.file, &secret(2).reveal());
        gateway.adjust(&state, 2);
        assert_eq!(gateway.accepted(&[1, 2]), [1], "no gateway has announced another");
    }
    state.secrets = state.secrets.next(HOUR, wall_time());
    for gateway in &mut gateways {
        assert_eq!(gateway.adjust(&state, 3), Adjusted::Unchanged);
        assert_eq!(gateway.accepted(&[1, 2, 3]), [1, 2]);
        write(&gateway.file, &secret(3).reveal());
    }
    state.secrets = state.secrets.next(Duration::ZERO, wall_time());
    for gateway in &mut gateways {
        gateway.adjust(&state, 4);
        assert_eq!(gateway.accepted(&[2, 3]), [3]);
    }
}

#[test]
fn a_file_that_is_wrong_costs_a_gateway_nothing_but_its_new_secret() {
    let (folder, mut state) = (tempfile::tempdir().unwrap(), state());
    let mut gateway = Gateway::start("a", folder.path(), &mut state);
    write(&gateway.file, "nonsense");
    state.secrets = state.secrets.next(Duration::ZERO, wall_time());
    gateway.adjust(&state, 0);
    assert!(gateway.serving.open.contains(&1), "it serves what it is to serve");
    assert_eq!(gateway.accepted(&[1, 2]), [1]);
    write(&gateway.file, &secret(2).reveal());
    gateway.adjust(&state, SECRETS_AGAIN_MS - 1);
    assert_eq!(gateway.accepted(&[1, 2]), [1]);
    gateway.adjust(&state, SECRETS_AGAIN_MS);
    assert_eq!(gateway.accepted(&[1, 2]), [2]);
}

#[test]
fn namespaces_whose_images_are_not_open_are_absent_until_they_are_removed() {
    let not_served = [1, 7].map(|nsid| (NQN.to_owned(), nsid)).into();
    let serving = Serving { not_served, ..Serving::default() };
    let absent = serving.absent(&state());
    assert_eq!(absent.iter().map(|(nqn, config)| (&**nqn, config.nsid)).collect::<Vec<_>>(), [(NQN, 1)]);
    assert!(Serving::default().absent(&state()).is_empty());
}
