//! Queues of a target that answers whatever it is asked, and what the set says of them compared with what they say
//! themselves.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nvme::io::IoCommand;
use nvme::tcp::{Initialize, PduType};
use prerequisite::Wait;
use zerocopy::IntoBytes;

use super::*;
use crate::initiator::ConnectOptions;
use crate::initiator::queue::Data;
use crate::limits::RECEIVE_LENGTH;
use crate::ring::RingOptions;

const QUEUES: usize = 3;
/// Commands that one queue takes.
const SLOTS: usize = 3;
/// A capsule without data, Fabrics Connect's data, and a completion.
const COMMAND_BYTES: usize = 72;
const CONNECT_BYTES: usize = 1024;
const COMPLETION_BYTES: usize = 24;

/// Answers everything on one connection until it ends.
fn answer(mut stream: TcpStream) {
    let mut bytes = [0; COMMAND_BYTES + CONNECT_BYTES];
    stream.read_exact(&mut bytes[..128]).expect("ICReq");
    stream.write_all(Initialize::new(PduType::InitializeResponse, 0, 4096).as_bytes()).expect("ICResp");
    let mut length = COMMAND_BYTES + CONNECT_BYTES;
    while stream.read_exact(&mut bytes[..length]).is_ok() {
        let mut completion = [0; COMPLETION_BYTES];
        let kind = PduType::CapsuleResponse;
        completion[..4].copy_from_slice(&[kind as u8, 0, COMPLETION_BYTES as u8, 0]);
        completion[4] = COMPLETION_BYTES as u8;
        completion[20..22].copy_from_slice(&bytes[10..12]);
        if stream.write_all(&completion).is_err() {
            return;
        }
        length = COMMAND_BYTES;
    }
}

/// A target for this number of connections, and its ends of them.
fn target() -> (SocketAddr, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let (ends, receiver) = channel();
    std::thread::spawn(move || {
        for _ in 0..QUEUES {
            let (stream, _) = listener.accept().expect("a connection");
            ends.send(stream.try_clone().expect("a second handle")).expect("the test lives");
            std::thread::spawn(move || answer(stream));
        }
    });
    (address, receiver)
}

fn options(address: SocketAddr, queue_id: u16) -> QueueOptions {
    let admin = ConnectOptions::new(address, "nqn.2014-08.org.example:many").admin_queue();
    QueueOptions { queue_id, entries: SLOTS as u16 + 1, controller_id: 1, keep_alive_ms: 0, ..admin }
}

struct Fixture {
    ring: Ring,
    set: QueueSet,
    scratch: Vec<u8>,
    target_ends: Receiver<TcpStream>,
}

impl Fixture {
    /// A set whose queues are live.
    fn live() -> Self {
        let (address, target_ends) = target();
        let mut ring = Ring::new(RingOptions::default()).expect("a ring");
        let mut set = QueueSet::new(7, AuthenticationWorker::new(ring.waker()));
        let all: Vec<QueueOptions> = (1..=QUEUES as u16).map(|id| options(address, id)).collect();
        set.open(&mut ring, &all).expect("queues");
        let mut fixture = Self { ring, set, scratch: vec![0; RECEIVE_LENGTH], target_ends };
        fixture.until(QueueSet::is_live);
        fixture
    }

    fn until(&mut self, done: impl Fn(&QueueSet) -> bool) {
        let wait = Wait::begin("the set gets there");
        while !done(&self.set) {
            wait.check();
            self.set.flush(&mut self.ring);
            self.agrees();
            let mut events = Vec::new();
            let longest = if self.set.has_more() { Duration::ZERO } else { Duration::from_millis(50) };
            self.ring.wait(Some(longest), &mut events).expect("a ring");
            let now = self.ring.now();
            self.set.on_events(&mut self.ring, &mut self.scratch, &events, now);
            self.agrees();
            self.set.turn(&mut self.ring, now);
            self.agrees();
        }
    }

    /// Submits as many commands as are taken, and says how many that were.
    fn fill(&mut self) -> usize {
        let command = IoCommand::Flush.encode(1);
        let mut taken = 0;
        loop {
            let loads = |set: &QueueSet| set.queues.iter().map(Queue::outstanding).collect::<Vec<_>>();
            let takes = self.set.queues.iter().filter(|queue| queue.free_slots() > 0);
            let least = takes.map(Queue::outstanding).min();
            let before = loads(&self.set);
            let request = Request { entry: command, data: Data::None, user: taken as u64 };
            if self.set.submit(request).is_err() {
                assert_eq!(least, None, "there was room: {before:?}");
                break;
            }
            taken += 1;
            self.agrees();
            let after = loads(&self.set);
            let chosen = (0..before.len()).find(|at| after[*at] == before[*at] + 1).expect("a queue has it");
            assert_eq!(Some(before[chosen]), least, "another queue has less to do: {before:?}");
        }
        taken
    }

    /// Checks that the set's sums are those of its queues.
    fn agrees(&self) {
        let Self { set, .. } = self;
        let count = |state| set.queues.iter().filter(|queue| queue.state() == state).count();
        assert_eq!(set.free_slots(), set.queues.iter().map(Queue::free_slots).sum::<usize>());
        assert_eq!(set.has_room(), set.queues.iter().any(|queue| queue.free_slots() > 0));
        assert_eq!(set.is_live(), count(QueueState::Live) == set.queues.len());
        assert_eq!(set.has_closed(), count(QueueState::Closed) > 0);
        assert_eq!(set.first_error().is_some(), set.has_closed());
        let has_news = |queue: &Queue| queue.has_more() || queue.has_ended();
        assert!(set.has_more() || !set.queues.iter().any(has_news), "a queue is forgotten: {set:?}");
        for (at, queue) in set.queues.iter().enumerate() {
            assert!(!queue.has_unsent() || set.unsent.contains(&at), "queue {at} will not be sent: {set:?}");
            let is_in_time =
                queue.next_deadline().is_none_or(|deadline| set.next_deadline() <= Some(deadline));
            assert!(is_in_time && (queue.next_deadline().is_none() || set.next_deadline().is_some()));
        }
    }

    /// Pops what has ended: how many have an answer, and how many are lost.
    fn pop_all(&mut self) -> (usize, usize) {
        let (mut answered, mut lost) = (0, 0);
        while let Some(ended) = self.set.pop() {
            self.agrees();
            if ended.answer().is_ok() { answered += 1 } else { lost += 1 }
        }
        (answered, lost)
    }
}

#[test]
fn commands_are_spread_over_all_queues_and_each_is_answered() {
    let mut fixture = Fixture::live();
    for _ in 0..20 {
        assert_eq!(fixture.fill(), QUEUES * SLOTS);
        fixture.until(QueueSet::has_room);
        let (first, _) = fixture.pop_all();
        // What those that were answered have left is filled again while others are under way.
        let again = fixture.fill();
        fixture.until(|set| set.free_slots() == QUEUES * SLOTS);
        assert_eq!(fixture.pop_all(), (QUEUES * SLOTS - first + again, 0));
    }
    fixture.set.close(&mut fixture.ring);
    fixture.agrees();
    assert!(fixture.set.error().is_some() && fixture.set.free_slots() == 0);
}

#[test]
fn a_queue_that_ends_loses_its_own_commands_and_takes_no_more() {
    let mut fixture = Fixture::live();
    fixture.fill();
    let end = fixture.target_ends.recv().expect("the first connection");
    end.shutdown(Shutdown::Both).expect("it is open");
    fixture.until(QueueSet::has_closed);
    assert!(fixture.set.error().is_none(), "the others are live");
    fixture.until(|set| set.free_slots() == (QUEUES - 1) * SLOTS);
    let (answered, lost) = fixture.pop_all();
    assert_eq!(
        (answered, lost),
        ((QUEUES - 1) * SLOTS, SLOTS),
        "nothing was sent before the connection ended"
    );
    assert_eq!(fixture.fill(), (QUEUES - 1) * SLOTS);
    fixture.until(|set| set.free_slots() == (QUEUES - 1) * SLOTS);
    assert_eq!(fixture.pop_all(), ((QUEUES - 1) * SLOTS, 0));
    fixture.set.close(&mut fixture.ring);
    assert!(fixture.set.error().is_some());
    fixture.set.clear();
    assert!(!fixture.set.is_live() && !fixture.set.has_closed() && !fixture.set.has_room());
}
