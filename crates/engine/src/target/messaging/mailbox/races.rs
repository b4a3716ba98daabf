//! Every order in which messages come to a reactor that sleeps.

use loom::thread;

use super::*;
use crate::ring::channel::{Receiver, channel};
use crate::sync::model;

/// A reactor's end of its mailbox.
pub(crate) struct Letters {
    mailbox: Arc<Mailbox>,
    receiver: Receiver<Message>,
}

impl Letters {
    pub(crate) fn new(number: usize) -> (Arc<Mailbox>, Self) {
        let (sender, receiver) = channel();
        let mailbox = Arc::new(Mailbox::new(number, sender, Waker::new().unwrap()));
        (mailbox.clone(), Self { mailbox, receiver })
    }

    /// The next message, which it sleeps for.
    pub(crate) fn next(&self) -> Message {
        loop {
            let next = self.receiver.try_recv();
            // What a channel orders loom does not know; this is as much.
            drop(lock(&self.mailbox.sender));
            match next {
                Ok(message) => return message,
                Err(_) => self.mailbox.waker.sleep(),
            }
        }
    }
}

#[test]
fn a_message_to_a_reactor_is_never_slept_over() {
    model(|| {
        let (mailbox, letters) = Letters::new(0);
        let threads = [(); 2].map(|()| {
            let mailbox = mailbox.clone();
            thread::spawn(move || mailbox.send(Message::Resume))
        });
        for _ in 0..2 {
            assert!(matches!(letters.next(), Message::Resume));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
