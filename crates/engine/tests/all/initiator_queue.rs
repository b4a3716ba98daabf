//! Queue against a target that follows a script: every shape of transfer, and every lie a target may
//! tell.

use std::io::{Read as _, Write};
use std::time::{Duration, Instant};

use engine::initiator::{Data, Ended, InitiatorError, PeerMisbehaved, QueueOptions, QueueState, Request};
use engine::ring::{Buffer, Engine};
use nvme::fabrics::InvalidParameter;
use nvme::io::IoCommand;
use nvme::tcp::{Digests, Event, FatalError, PduType, ReadyToTransfer, flags};
use nvme::{CompletionEntry, Status, SubmissionEntry};

use crate::initiator_fake::{Fake, Host, queue_options, raw_target, target};

const ENGINES: [Engine; 2] = [Engine::IoUring, Engine::Epoll];
const MAX: u32 = 1 << 20;
const READ: IoCommand = IoCommand::Read { start: 8, blocks: 8, force_unit_access: false };
const WRITE: IoCommand = IoCommand::Write { start: 8, blocks: 8, force_unit_access: false };
const DONE: u8 = flags::LAST | flags::SUCCESS;

fn filled(length: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(length);
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index / 7 + index) as u8;
    }
    buffer
}

fn for_all(test: impl Fn(Engine, Digests)) {
    for engine in ENGINES {
        for (header, data) in [(false, false), (true, false), (true, true)] {
            test(engine, Digests { header, data });
        }
    }
}

#[test]
fn reads_of_all_shapes() {
    const SHAPES: [(usize, usize); 6] =
        [(4096, 4096), (4096, 512), (1 << 20, 65536), (1 << 20, 1 << 20), (512, 512), (98304, 49152)];
    for_all(|engine, digests| {
        for success in [false, true] {
            let (address, thread) = target(MAX, move |fake| {
                for (length, piece) in SHAPES {
                    let (entry, _) = fake.command();
                    let data = filled(length);
                    for offset in (0..length).step_by(piece) {
                        let is_last = offset + piece == length;
                        let flags = if !is_last {
                            0
                        } else if success {
                            DONE
                        } else {
                            flags::LAST
                        };
                        fake.c2h(entry.command_id.get(), flags, offset, &data[offset..offset + piece]);
                    }
                    if success { fake.send() } else { fake.complete(&entry, Status::SUCCESS, 77) }
                }
            });
            let mut host = Host::live(engine, &QueueOptions { digests, ..queue_options(address) });
            for (length, _) in SHAPES {
                host.submit(READ, Data::Receive(Buffer::zeroed(length)), 9);
                let completion = host.completion();
                assert_eq!((completion.user, completion.status), (9, Status::SUCCESS));
                assert_eq!(completion.result, if success { 0 } else { 77 });
                assert!(*completion.data.unwrap() == *filled(length), "{length} bytes");
            }
            thread.join().unwrap();
        }
    });
}

/// SPDK's target answers so, also on queues whose hosts asked for flow control.
#[test]
fn a_flag_in_the_data_stands_for_the_completion_with_flow_control_too() {
    const READS: u64 = 100;
    for engine in ENGINES {
        let (address, thread) = target(MAX, |fake| {
            for _ in 0..READS {
                let (entry, _) = fake.command();
                fake.c2h(entry.command_id.get(), DONE, 0, &filled(4096));
                fake.send();
            }
        });
        let options = QueueOptions { disable_flow_control: false, ..queue_options(address) };
        assert!(READS > u64::from(options.entries), "the queue does not run out of entries");
        let mut host = Host::live(engine, &options);
        for read in 0..READS {
            host.submit(READ, Data::Receive(Buffer::zeroed(4096)), read);
            let completion = host.completion();
            assert_eq!((completion.user, completion.status), (read, Status::SUCCESS));
            assert!(*completion.data.unwrap() == *filled(4096));
        }
        thread.join().unwrap();
    }
}

#[test]
fn many_reads_at_once_arrive_in_any_pieces() {
    for_all(|engine, digests| {
        let (address, thread) = target(MAX, |fake| {
            let entries: Vec<SubmissionEntry> = (0..31).map(|_| fake.command().0).collect();
            for (index, entry) in entries.iter().enumerate().rev() {
                fake.c2h(entry.command_id.get(), DONE, 0, &filled(4096 + index * 512));
            }
            // In odd pieces, so that headers, data and digests are cut everywhere.
            let bytes = fake.take_bytes();
            for piece in bytes.chunks(1777) {
                fake.stream.write_all(piece).unwrap();
            }
        });
        let mut host = Host::live(engine, &QueueOptions { digests, ..queue_options(address) });
        for index in 0..31 {
            host.submit(READ, Data::Receive(Buffer::zeroed(4096 + index as usize * 512)), index);
        }
        let extra = Request { entry: READ.encode(1), data: Data::None, user: 0 };
        assert_eq!(host.queue.free_slots(), 0);
        assert!(host.queue.submit(extra).is_err(), "one entry of a queue stays empty");
        let completions = host.completions();
        assert_eq!(completions.len(), 31);
        for completion in completions {
            let expected = filled(4096 + completion.user as usize * 512);
            assert!(completion.status.is_success() && *completion.data.unwrap() == *expected);
        }
        thread.join().unwrap();
    });
}

#[test]
fn data_begins_where_the_target_wants_it() {
    for alignment in [8, 20, 128] {
        for_all(|engine, digests| {
            let (address, thread) = raw_target(move |fake| {
                fake.handshake_aligned(MAX, alignment);
                let (entry, data) = fake.command();
                assert!(data == *filled(4096), "in the capsule");
                fake.complete(&entry, Status::SUCCESS, 0);
                let (entry, _) = fake.command();
                let pieces = fake.ask(&entry, 3, 0, 40960);
                assert!(pieces.len() == 1 && pieces[0].1 == *filled(40960), "on request");
                fake.complete(&entry, Status::SUCCESS, 0);
            });
            let mut host = Host::live(engine, &QueueOptions { digests, ..queue_options(address) });
            for length in [4096, 40960] {
                host.submit(WRITE, Data::Send(filled(length)), 1);
                assert_eq!(host.completion().status, Status::SUCCESS);
            }
            thread.join().unwrap();
        });
    }
}

#[test]
fn writes_in_the_capsule_and_on_request() {
    for_all(|engine, digests| {
        let (address, thread) = target(8192, |fake| {
            let (entry, data) = fake.command();
            assert!(data == *filled(8192), "8 KiB travel within the capsule");
            fake.complete(&entry, Status::SUCCESS, 0);
            let (entry, data) = fake.command();
            assert!(data.is_empty(), "more than 8 KiB do not");
            let mut received = vec![0; 40960];
            for (tag, offset, length) in [(7, 0, 20000), (8, 20000, 12768), (9, 32768, 8192)] {
                let pieces = fake.ask(&entry, tag, offset, length);
                assert_eq!(pieces.len(), length.div_ceil(8192) as usize, "MAXH2CDATA is 8,192");
                for (offset, piece) in pieces {
                    received[offset..offset + piece.len()].copy_from_slice(&piece);
                }
            }
            assert!(received == *filled(40960));
            fake.complete(&entry, Status::SUCCESS, 0);
        });
        let mut host = Host::live(engine, &QueueOptions { digests, ..queue_options(address) });
        for length in [8192, 40960] {
            host.submit(WRITE, Data::Send(filled(length)), 1);
            let completion = host.completion();
            assert_eq!(completion.status, Status::SUCCESS);
            assert_eq!(completion.data.unwrap().len(), length, "the buffer comes back");
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_slow_reader_blocks_only_until_there_is_room() {
    for engine in ENGINES {
        let (address, thread) = target(MAX, |fake| {
            let entries: Vec<SubmissionEntry> = (0..16).map(|_| fake.command().0).collect();
            for entry in &entries {
                let pdu = ReadyToTransfer::new(entry.command_id.get(), 1, 0, MAX);
                fake.transmitter.ready_to_transfer(pdu);
            }
            fake.send();
            std::thread::sleep(Duration::from_millis(100));
            for _ in &entries {
                let Some(Event::Data(pdu)) = fake.next() else { panic!("data was asked for") };
                assert!(pdu.is_last() && fake.data() == *filled(MAX as usize));
            }
            for entry in &entries {
                fake.complete(entry, Status::SUCCESS, 0);
            }
        });
        let mut host = Host::live(engine, &queue_options(address));
        for user in 0..16 {
            host.submit(WRITE, Data::Send(filled(MAX as usize)), user);
        }
        assert_eq!(host.completions().len(), 16);
        thread.join().unwrap();
    }
}

#[test]
fn an_error_status_is_data() {
    for engine in ENGINES {
        let (address, thread) = target(MAX, |fake| {
            for _ in 0..3 {
                let (entry, _) = fake.command();
                fake.complete(&entry, Status::LBA_OUT_OF_RANGE.do_not_retry(), 3);
            }
            // The connection stays until the host has looked at it.
            let _ = fake.stream.read(&mut [0]);
        });
        let mut host = Host::live(engine, &queue_options(address));
        for data in [Data::None, Data::Receive(Buffer::zeroed(4096)), Data::Send(filled(65536))] {
            let has_data = !matches!(data, Data::None);
            host.submit(READ, data, 1);
            let completion = host.completion();
            assert_eq!(completion.status, Status::LBA_OUT_OF_RANGE.do_not_retry());
            assert_eq!(completion.data.is_some(), has_data);
        }
        assert_eq!(host.queue.state(), QueueState::Live);
        drop(host);
        thread.join().unwrap();
    }
}

#[test]
fn damaged_data_fails_its_command_only() {
    for engine in ENGINES {
        let (address, thread) = target(MAX, |fake| {
            for spoil in [true, false] {
                let (entry, _) = fake.command();
                fake.c2h(entry.command_id.get(), DONE, 0, &filled(4096));
                let mut bytes = fake.take_bytes();
                bytes[100] ^= u8::from(spoil);
                fake.stream.write_all(&bytes).unwrap();
            }
        });
        let digests = Digests { header: true, data: true };
        let mut host = Host::live(engine, &QueueOptions { digests, ..queue_options(address) });
        for expected in [Status::TRANSIENT_TRANSPORT_ERROR, Status::SUCCESS] {
            host.submit(READ, Data::Receive(Buffer::zeroed(4096)), 1);
            assert_eq!(host.completion().status, expected);
        }
        thread.join().unwrap();
    }
}

/// Runs a read of 8 KiB and a write of 64 KiB against a target that answers with `lie`, and checks
/// that the queue closes for `expected`, reports `reported` to the target, and gives everything
/// back.
fn check_lie(
    lie: impl Fn(&mut Fake, u16, u16) + Send + Clone + 'static,
    reported: FatalError,
    expected: impl Fn(PeerMisbehaved) -> bool,
) {
    for engine in ENGINES {
        let lie = lie.clone();
        let (address, thread) = target(4096, move |fake| {
            let (read, _) = fake.command();
            let (write, _) = fake.command();
            lie(fake, read.command_id.get(), write.command_id.get());
            fake.send();
            assert_eq!(fake.terminated(), Some(reported as u16));
        });
        let mut host = Host::live(engine, &queue_options(address));
        host.submit(READ, Data::Receive(Buffer::zeroed(8192)), 1);
        host.submit(WRITE, Data::Send(filled(65536)), 2);
        let (error, ended) = host.closed();
        let InitiatorError::PeerMisbehaved { misbehaviour, .. } = &error else { panic!("{error}") };
        assert!(expected(*misbehaviour), "{error}");
        assert!(!ended.is_empty());
        for ended in ended {
            match ended {
                Ended::Answered(completion) => {
                    assert!(completion.status.is_success() && completion.data.is_some());
                }
                Ended::Lost(lost) => {
                    assert!(lost.data.is_some() && lost.error.to_string() == error.to_string());
                }
            }
        }
        assert_eq!(host.queue.outstanding(), 0);
        thread.join().unwrap();
    }
}

#[test]
fn lies_about_data() {
    use FatalError::{DataTransferOutOfRange, InvalidHeaderField, PduSequence};
    let data = |flags: u8, offset: usize, length: usize| {
        move |fake: &mut Fake, read: u16, _: u16| fake.c2h(read, flags, offset, &filled(length))
    };
    let out_of_range = |error| matches!(error, PeerMisbehaved::DataOutOfRange { .. });
    check_lie(data(flags::LAST, 0, 12288), DataTransferOutOfRange, out_of_range);
    check_lie(data(0, 4096, 4096), DataTransferOutOfRange, out_of_range);
    check_lie(data(flags::LAST, 0, 4096), InvalidHeaderField, out_of_range);
    check_lie(data(0, 0, 8192), InvalidHeaderField, out_of_range);
    check_lie(data(DONE, 0, 4096), InvalidHeaderField, |error| {
        matches!(error, PeerMisbehaved::DataMissing { moved: 4096, length: 8192, .. })
    });
    check_lie(data(flags::SUCCESS, 0, 4096), InvalidHeaderField, |error| {
        matches!(error, PeerMisbehaved::SuccessWithoutLast { .. })
    });
    let to_write = |fake: &mut Fake, _: u16, write: u16| fake.c2h(write, flags::LAST, 0, &filled(512));
    check_lie(to_write, PduSequence, |error| matches!(error, PeerMisbehaved::DataNotAsked { .. }));
    let to_no_command = |fake: &mut Fake, _: u16, _: u16| fake.c2h(77, flags::LAST, 0, &filled(512));
    check_lie(to_no_command, InvalidHeaderField, |error| {
        matches!(error, PeerMisbehaved::UnknownCommand { command_id: 77 })
    });
    let twice = |fake: &mut Fake, read: u16, _: u16| {
        fake.c2h(read, flags::LAST, 0, &filled(8192));
        fake.c2h(read, flags::LAST, 0, &filled(8192));
    };
    check_lie(twice, DataTransferOutOfRange, out_of_range);
}

#[test]
fn lies_about_completions() {
    use FatalError::{InvalidHeaderField, PduSequence};
    let respond = |fake: &mut Fake, command_id: u16| {
        fake.transmitter.response(CompletionEntry::new(command_id, Status::SUCCESS, 0, 0));
    };
    let unknown = |error| matches!(error, PeerMisbehaved::UnknownCommand { .. });
    check_lie(move |fake, _, _| respond(fake, 0xffff), InvalidHeaderField, unknown);
    check_lie(move |fake, read, _| respond(fake, read ^ 1 << 10), InvalidHeaderField, unknown);
    let twice = move |fake: &mut Fake, read: u16, _: u16| {
        fake.c2h(read, DONE, 0, &filled(8192));
        respond(fake, read);
    };
    check_lie(twice, InvalidHeaderField, unknown);
    let missing = |error| matches!(error, PeerMisbehaved::DataMissing { moved: 0, .. });
    check_lie(move |fake, read, _| respond(fake, read), PduSequence, missing);
    check_lie(move |fake, _, write| respond(fake, write), PduSequence, missing);
}

#[test]
fn lies_about_requests_for_data() {
    use FatalError::{DataTransferOutOfRange, InvalidHeaderField, PduSequence, TransferLimitExceeded};
    let ask = |fake: &mut Fake, command_id: u16, offset: u32, length: u32| {
        fake.transmitter.ready_to_transfer(ReadyToTransfer::new(command_id, 1, offset, length));
    };
    let range = |error| matches!(error, PeerMisbehaved::ReadyToTransferOutOfRange { .. });
    check_lie(move |fake, _, write| ask(fake, write, 0, 65540), DataTransferOutOfRange, range);
    check_lie(move |fake, _, write| ask(fake, write, 4096, 4096), DataTransferOutOfRange, range);
    check_lie(move |fake, _, write| ask(fake, write, u32::MAX, u32::MAX), DataTransferOutOfRange, range);
    check_lie(move |fake, _, write| ask(fake, write, 0, 0), InvalidHeaderField, range);
    check_lie(
        move |fake, read, _| ask(fake, read, 0, 4096),
        PduSequence,
        |error| matches!(error, PeerMisbehaved::ReadyToTransferNotExpected { .. }),
    );
    let both = move |fake: &mut Fake, _: u16, write: u16| {
        ask(fake, write, 0, 4096);
        ask(fake, write, 4096, 4096);
    };
    check_lie(both, TransferLimitExceeded, |error| {
        matches!(error, PeerMisbehaved::ReadyToTransferLimit { .. })
    });
    check_lie(
        move |fake, _, _| ask(fake, 99, 0, 4096),
        InvalidHeaderField,
        |error| matches!(error, PeerMisbehaved::UnknownCommand { command_id: 99 }),
    );
}

#[test]
fn nonsense_ends_the_connection() {
    for engine in ENGINES {
        let (address, thread) = target(MAX, |fake| {
            fake.command();
            fake.stream.write_all(&[0x5a; 64]).unwrap();
            assert_eq!(fake.terminated(), Some(FatalError::InvalidHeaderField as u16));
        });
        let mut host = Host::live(engine, &queue_options(address));
        host.submit(READ, Data::Receive(Buffer::zeroed(512)), 4);
        let (error, ended) = host.closed();
        assert!(matches!(error, InitiatorError::Protocol { .. }), "{error}");
        assert!(matches!(ended[..], [Ended::Lost(_)]), "{ended:?}");
        thread.join().unwrap();
    }
}

#[test]
fn the_target_may_end_the_connection() {
    for engine in ENGINES {
        let (address, thread) = target(MAX, |fake| {
            fake.command();
            fake.transmitter.terminate(PduType::ControllerTerminate, FatalError::PduSequence, 0, &[0; 24]);
            fake.send();
        });
        let mut host = Host::live(engine, &queue_options(address));
        host.submit(READ, Data::Receive(Buffer::zeroed(512)), 4);
        let (error, completions) = host.closed();
        assert!(matches!(error, InitiatorError::Terminated { error: 2, .. }), "{error}");
        assert_eq!(completions.len(), 1);
        thread.join().unwrap();
    }
}

#[test]
fn commands_come_back_when_the_target_goes() {
    for engine in ENGINES {
        // Two are answered in the same breath in which the stream ends, one of them with a status about paths.
        let (address, thread) = target(MAX, |fake| {
            let entries: Vec<SubmissionEntry> = (0..5).map(|_| fake.command().0).collect();
            fake.c2h(entries[0].command_id.get(), DONE, 0, &filled(512));
            fake.complete(&entries[1], Status::HOST_PATH_ERROR, 0);
        });
        let mut host = Host::live(engine, &queue_options(address));
        for user in 0..5 {
            host.submit(READ, Data::Receive(Buffer::zeroed(512)), user);
        }
        let (error, ended) = host.closed();
        let gone = matches!(error, InitiatorError::Closed { .. } | InitiatorError::Broken { .. });
        assert!(gone, "{error}");
        let status = |ended: &Ended| match ended {
            Ended::Answered(completion) => Some(completion.status),
            Ended::Lost(_) => None,
        };
        let statuses: Vec<_> = ended.iter().map(status).collect();
        assert_eq!(statuses, [Some(Status::SUCCESS), Some(Status::HOST_PATH_ERROR), None, None, None]);
        thread.join().unwrap();
    }
}

#[test]
fn a_status_about_paths_is_an_answer_and_no_loss() {
    for engine in ENGINES {
        let (address, thread) = target(MAX, |fake| {
            for status in [Status::HOST_PATH_ERROR, Status::SUCCESS] {
                let (entry, data) = fake.command();
                assert_eq!(data.len(), 4096);
                fake.complete(&entry, status, 0);
            }
        });
        let mut host = Host::live(engine, &queue_options(address));
        for status in [Status::HOST_PATH_ERROR, Status::SUCCESS] {
            host.submit(WRITE, Data::Send(filled(4096)), 6);
            let completion = host.completion();
            assert_eq!((completion.user, completion.status), (6, status));
        }
        thread.join().unwrap();
    }
}

#[test]
fn a_command_that_takes_too_long_closes_the_queue() {
    for engine in ENGINES {
        let (address, thread) = target(MAX, |fake| {
            fake.command();
            assert_eq!(fake.terminated(), None, "the host just leaves");
        });
        let timeout = Duration::from_millis(200);
        let mut host =
            Host::live(engine, &QueueOptions { command_timeout: timeout, ..queue_options(address) });
        assert_eq!(host.queue.next_deadline(), None, "nothing is outstanding");
        host.submit(READ, Data::Receive(Buffer::zeroed(512)), 4);
        let began = Instant::now();
        let (error, completions) = host.closed();
        assert!(matches!(error, InitiatorError::TimedOut { .. }), "{error}");
        assert!(began.elapsed() >= timeout);
        assert_eq!(completions.len(), 1);
        thread.join().unwrap();
    }
}

#[test]
fn a_silent_target_times_out_by_step() {
    for engine in ENGINES {
        for (handshake, step) in [(false, "ICReq"), (true, "Fabrics Connect")] {
            let (address, thread) = raw_target(move |fake| {
                if handshake {
                    let Some(Event::Initialize(request)) = fake.next() else { panic!("ICReq comes first") };
                    let (response, _) = nvme::tcp::negotiate(&request, MAX).unwrap();
                    fake.transmitter.initialize(&response);
                    fake.send();
                }
                while fake.next().is_some() {
                    if fake.has_data() {
                        fake.data();
                    }
                }
            });
            // Enough for the steps before, and no more: it is waited for.
            let connect_timeout = Duration::from_millis(if handshake { 3000 } else { 100 });
            let mut host = Host::open(engine, &QueueOptions { connect_timeout, ..queue_options(address) });
            let (error, completions) = host.closed();
            assert!(error.to_string().contains(step), "{error}");
            assert_eq!(error.to_string().contains("is that an NVMe/TCP port?"), !handshake, "{error}");
            assert!(completions.is_empty(), "Connect is the queue's own");
            thread.join().unwrap();
        }
    }
}

#[test]
fn connect_may_be_refused() {
    for engine in ENGINES {
        let (address, thread) = raw_target(|fake| {
            let Some(Event::Initialize(request)) = fake.next() else { panic!("ICReq comes first") };
            fake.transmitter.initialize(&nvme::tcp::negotiate(&request, MAX).unwrap().0);
            fake.send();
            let (entry, _) = fake.command();
            let field = u64::from(InvalidParameter::HOST_NQN.encode());
            fake.complete(&entry, Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), field);
        });
        let mut host = Host::open(engine, &queue_options(address));
        let (error, _) = host.closed();
        let InitiatorError::Refused { queue_id: 1, field: Some(InvalidParameter::HOST_NQN), .. } = error
        else {
            panic!("{error}");
        };
        thread.join().unwrap();
    }
}

#[test]
fn another_answer_to_the_handshake_is_refused() {
    for engine in ENGINES {
        let (address, thread) = raw_target(|fake| {
            let Some(Event::Initialize(request)) = fake.next() else { panic!("ICReq comes first") };
            let (mut response, _) = nvme::tcp::negotiate(&request, MAX).unwrap();
            response.digests = 3;
            fake.transmitter.initialize(&response);
            fake.send();
            assert_eq!(fake.terminated(), Some(FatalError::UnsupportedParameter as u16));
        });
        let mut host = Host::open(engine, &queue_options(address));
        let (error, _) = host.closed();
        let InitiatorError::NoHandshake { reason } = &error else { panic!("{error}") };
        assert!(matches!(**reason, InitiatorError::Protocol { .. }), "{error}");
        thread.join().unwrap();
    }
}

#[test]
fn options_are_checked() {
    let mut ring = engine::ring::Ring::new(engine::ring::RingOptions::default()).unwrap();
    let good = queue_options("127.0.0.1:9".parse().unwrap());
    for bad in [
        QueueOptions { entries: 1, ..good.clone() },
        QueueOptions { entries: u16::MAX, ..good.clone() },
        QueueOptions { subsystem_nqn: String::new(), ..good.clone() },
        QueueOptions { subsystem_nqn: "n".repeat(224), ..good.clone() },
        QueueOptions { command_timeout: Duration::ZERO, ..good },
    ] {
        let error = engine::initiator::Queue::open(&mut ring, 0, &bad).unwrap_err();
        assert!(matches!(error, InitiatorError::ApiMisuse(_)), "{error}");
    }
}
