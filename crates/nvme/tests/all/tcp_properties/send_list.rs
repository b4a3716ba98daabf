//! Every byte and payload of a send list is accounted for.

use std::collections::VecDeque;

use nvme::CompletionEntry;
use nvme::tcp::{Digests, Transmitter};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Pdu, any_digests, any_role, front, pdu_to, termination_to};

/// A step in the life of a send list.
#[derive(Clone, Debug)]
enum Step {
    Queue(Pdu),
    /// Many PDUs of headers only: enough for sent bytes to be given back while others wait.
    QueueResponses(usize),
    Advance(usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_role().prop_flat_map(|role| prop_oneof![4 => pdu_to(role), 1 => termination_to(role)])
            .prop_map(Step::Queue),
        2 => (1..400_usize).prop_map(Step::QueueResponses),
        6 => any::<usize>().prop_map(Step::Advance),
        1 => Just(Step::Clear),
    ]
}

/// Expected content of a send list: its bytes, and where each payload ends, counted from the first
/// byte ever.
#[derive(Default)]
struct Model {
    bytes: VecDeque<u8>,
    ends: VecDeque<(usize, usize)>,
    payloads: Vec<Vec<u8>>,
    sent: usize,
}

impl Model {
    fn queue(&mut self, transmitter: &mut Transmitter<usize>, pdu: &Pdu, digests: Digests) {
        let token = self.payloads.len();
        pdu.queue(transmitter, token);
        let (header, data) = pdu.wire(digests);
        self.bytes.extend(header);
        if let Some(payload) = pdu.payload() {
            self.ends.push_back((token, self.sent + self.bytes.len() + pdu.data().len()));
            self.payloads.push(payload);
        }
        self.bytes.extend(data);
    }

    /// The tokens that are done when `length` bytes leave.
    fn advance(&mut self, length: usize) -> Vec<usize> {
        self.bytes.drain(..length);
        self.sent += length;
        let done = self.ends.iter().take_while(|(_, end)| *end <= self.sent).count();
        self.ends.drain(..done).map(|(token, _)| token).collect()
    }
}

proptest! {
    #[test]
    fn every_byte_and_payload_is_accounted_for(digests in any_digests(), steps in vec(step(), 1..60)) {
        let mut transmitter = Transmitter::new(1);
        transmitter.set_digests(digests);
        let mut model = Model::default();
        for step in steps {
            let mut done = Vec::new();
            match step {
                Step::Queue(pdu) => model.queue(&mut transmitter, &pdu, digests),
                Step::QueueResponses(count) => {
                    let entry = CompletionEntry { command_id: 7.into(), ..Default::default() };
                    let response = Pdu::Response(entry);
                    (0..count).for_each(|_| model.queue(&mut transmitter, &response, digests));
                }
                Step::Advance(length) => {
                    let length = length % (model.bytes.len() + 1);
                    transmitter.advance(length, |token| done.push(token));
                    prop_assert_eq!(done, model.advance(length));
                }
                Step::Clear => {
                    transmitter.clear(|token| done.push(token));
                    prop_assert_eq!(done, model.ends.drain(..).map(|(token, _)| token).collect::<Vec<_>>());
                    model.bytes.clear();
                }
            }
            prop_assert_eq!(transmitter.length(), model.bytes.len());
            prop_assert!(model.bytes == front(&transmitter, &model.payloads, usize::MAX), "other bytes");
        }
    }
}
