//! Every order in which a fused pair claims a range and reactors write there.

use loom::sync::Arc as Shared;
use loom::thread;
use uuid::Uuid;

use super::super::mailbox::races::Letters;
use super::*;
use crate::backend::{Backend, BackendConfig, Clusters, Opening};
use crate::sync::{SharedCell, model};
use crate::target::config::NamespaceConfig;
use crate::target::messaging::Message;

fn namespace() -> Arc<Namespace> {
    let config = NamespaceConfig::new(1, BackendConfig::Null { size: 1 << 20 }, 4096);
    let backend = Backend::open(&config.backend, Opening::alone(4096, &Clusters::default())).unwrap();
    Arc::new(Namespace::on("nqn.2014-08.org.example:test", &config, Uuid::nil(), Arc::new(backend)))
}

#[test]
fn when_the_last_reactor_has_passed_no_write_is_left_in_the_claimed_range() {
    model(|| {
        let range = ByteRange { offset: 0, length: 4096 };
        let (namespace, left) = (namespace(), Shared::new(Left::new(2)));
        let (pair, pair_letters) = Letters::new(0);
        // Reactors may write at once, so that each has its own blocks; the pair compares both.
        let blocks = [(); 2].map(|()| Shared::new(SharedCell::new()));
        let mut mailboxes = Vec::new();
        let reactors = [0, 1].map(|number| {
            let (mailbox, letters) = Letters::new(number);
            mailboxes.push(mailbox);
            let (namespace, left) = (namespace.clone(), left.clone());
            let (pair, blocks) = (pair.clone(), blocks[number].clone());
            thread::spawn(move || {
                // A write that begins unless it is held back, and is under way while messages are looked for.
                let write = (!namespace.is_claimed(&range)).then(|| blocks.enter());
                assert!(matches!(letters.next(), Message::Resume));
                drop(write);
                if left.pass() {
                    pair.send(Message::FencePassed { connection: 0, serial: 0, slot: 0 });
                }
                // Another one, after it has passed.
                if !namespace.is_claimed(&range) {
                    drop(blocks.enter());
                }
            })
        });
        assert!(namespace.claim(1, range));
        mailboxes.iter().for_each(|mailbox| mailbox.send(Message::Resume));
        assert!(matches!(pair_letters.next(), Message::FencePassed { .. }));
        let compared = blocks.each_ref().map(|blocks| blocks.enter());
        drop(compared);
        namespace.release(1);
        reactors.into_iter().for_each(|reactor| reactor.join().unwrap());
    });
}
