//! A queue that authenticates to targets which carry the messages otherwise than ours does.

use std::sync::Arc;

use authentication::{Concatenation, ControllerSide, ControllerTerms, Group, Hash, Progress, Secret};
use engine::initiator::{HostSecrets, InitiatorError, QueueOptions, QueueState};
use engine::ring::{Engine, fill_random};
use nvme::Status;
use nvme::authentication::required;
use nvme::fabrics::fabrics_type;
use nvme::tcp::flags;

use crate::initiator_fake::{Fake, Host, queue_options, raw_target};

fn secret() -> Secret {
    Secret::new(&[7; 32], Some(Hash::Sha256)).unwrap()
}

fn options(address: std::net::SocketAddr) -> QueueOptions {
    let secrets = HostSecrets { secret: secret(), controller_secret: None, reauth_interval: None };
    QueueOptions { secrets: Some(Arc::new(secrets)), ..queue_options(address) }
}

/// Way in which the controller ends an Authentication Receive.
#[derive(Clone, Copy)]
enum End {
    WithItsData,
    Apart,
}

fn controller_side() -> ControllerSide {
    let options = queue_options(([127, 0, 0, 1], 1).into());
    ControllerSide::new(ControllerTerms {
        host_nqn: options.host.nqn,
        subsystem_nqn: options.subsystem_nqn,
        secrets: vec![secret()],
        controller_secret: None,
        hashes: vec![Hash::Sha384],
        groups: vec![Group::Ffdhe2048],
        concatenation: Concatenation::None,
    })
}

/// Authenticates the host as a controller does, and gives each message without what was asked for beyond it.
fn authenticate(fake: &mut Fake, end: End) -> Progress {
    let mut side = controller_side();
    loop {
        let (entry, message) = fake.command();
        if entry.fabrics_type() == fabrics_type::AUTHENTICATION_SEND {
            side.take(&message);
            fake.complete(&entry, Status::SUCCESS, 0);
            continue;
        }
        let (message, progress) = side.give(&mut fill_random);
        let command_id = entry.command_id.get();
        match end {
            End::WithItsData => fake.c2h(command_id, flags::LAST | flags::SUCCESS, 0, &message),
            End::Apart => {
                let (first, rest) = message.split_at(16);
                fake.c2h(command_id, 0, 0, first);
                fake.c2h(command_id, flags::LAST, 16, rest);
            }
        }
        fake.send();
        if matches!(end, End::Apart) {
            fake.complete(&entry, Status::SUCCESS, 0);
        }
        if side.has_ended() {
            return progress;
        }
    }
}

#[test]
fn a_message_may_be_shorter_than_what_it_is_asked_for_with() {
    for (engine, end) in [(Engine::IoUring, End::WithItsData), (Engine::Epoll, End::Apart)] {
        let (address, thread) = raw_target(move |fake| {
            fake.handshake_with_result(1 << 20, 4, 5 | required::AUTHENTICATION);
            authenticate(fake, end);
            // The host has seen the last message before the connection ends.
            assert!(fake.next().is_none());
        });
        let mut host = Host::live(engine, &options(address));
        assert_eq!(host.queue.state(), QueueState::Live);
        host.queue.close(&mut host.ring);
        thread.join().unwrap();
    }
}

/// Linux' target may close the connection of a host with another secret before its refusal has left.
#[test]
fn a_connection_that_ends_instead_of_an_answer_says_that_the_secret_may_be_wrong() {
    for engine in [Engine::IoUring, Engine::Epoll] {
        let (address, thread) = raw_target(move |fake| {
            fake.handshake_with_result(1 << 20, 4, 5 | required::AUTHENTICATION);
            let mut side = controller_side();
            let (offer, message) = fake.command();
            side.take(&message);
            fake.complete(&offer, Status::SUCCESS, 0);
            let (request, _) = fake.command();
            let (challenge, _) = side.give(&mut fill_random);
            fake.c2h(request.command_id.get(), flags::LAST | flags::SUCCESS, 0, &challenge);
            fake.send();
            let (response, _) = fake.command();
            assert_eq!(response.fabrics_type(), fabrics_type::AUTHENTICATION_SEND);
        });
        let mut host = Host::open(engine, &options(address));
        let (error, _) = host.closed();
        let InitiatorError::NotAuthenticated { reason } = &error else { panic!("{error}") };
        assert!(matches!(**reason, InitiatorError::Closed { .. }), "{error}");
        assert!(error.to_string().contains("where the secret is wrong"), "{error}");
        thread.join().unwrap();
    }
}
