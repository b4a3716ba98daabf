//! Requests, and what stands before the data of replies.

use proptest::prelude::*;

use super::exports;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::{Command, Errno, Headers, ProtocolError, Replies, Request, Session};

const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;
const PAYLOAD_LEN: u16 = 32;

fn compact(flags: u16, kind: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend([flags.to_be_bytes(), kind.to_be_bytes()].concat());
    bytes.extend([77u64.to_be_bytes(), offset.to_be_bytes()].concat());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn extended(flags: u16, kind: u16, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = 0x21e4_1c71u32.to_be_bytes().to_vec();
    bytes.extend([flags.to_be_bytes(), kind.to_be_bytes()].concat());
    bytes.extend([77u64.to_be_bytes(), offset.to_be_bytes(), length.to_be_bytes()].concat());
    bytes
}

fn session(headers: Headers) -> Session {
    Session { export: 0, headers, has_allocation: headers != Headers::Simple }
}

/// Command of a request to the export at `at`.
fn command_on(at: usize, headers: Headers, bytes: &[u8]) -> Result<Command, Errno> {
    let (length, request) = Request::read(bytes, headers).unwrap().expect("a whole request");
    assert_eq!((length, request.cookie), (bytes.len(), 77));
    let export = &exports()[at];
    request.command(&session(headers), export, export.size)
}

fn of(headers: Headers, flags: u16, kind: u16, offset: u64, length: u32) -> Result<Command, Errno> {
    match headers {
        Headers::Extended => command_on(0, headers, &extended(flags, kind, offset, length.into())),
        _ => command_on(0, headers, &compact(flags, kind, offset, length)),
    }
}

#[test]
fn commands_are_what_their_numbers_and_flags_say() {
    use Headers::{Extended, Simple, Structured};
    let cases = [
        (Simple, 0, 0, Command::Read { is_whole: true }),
        (Structured, 0, 0, Command::Read { is_whole: false }),
        (Structured, DF, 0, Command::Read { is_whole: true }),
        (Simple, 0, 1, Command::Write { is_durable: false }),
        (Structured, FUA, 1, Command::Write { is_durable: true }),
        (Extended, FUA | PAYLOAD_LEN, 1, Command::Write { is_durable: true }),
        (Simple, 0, 4, Command::Trim { is_durable: false }),
        (Simple, FUA, 4, Command::Trim { is_durable: true }),
        (Simple, 0, 5, Command::Cache),
        (Simple, 0, 6, Command::WriteZeroes { is_durable: false, may_deallocate: true }),
        (
            Extended,
            FUA | NO_HOLE | FAST_ZERO,
            6,
            Command::WriteZeroes { is_durable: true, may_deallocate: false },
        ),
        (Structured, REQ_ONE, 7, Command::BlockStatus),
        // Known clients set it on everything.
        (Structured, FUA, 0, Command::Read { is_whole: false }),
    ];
    for (headers, flags, kind, command) in cases {
        assert_eq!(of(headers, flags, kind, 4096, 8192), Ok(command), "{headers:?} {flags} {kind}");
    }
    assert_eq!(of(Simple, 0, 2, 0, 0), Ok(Command::Disconnect));
    assert_eq!(of(Simple, 0, 3, 0, 0), Ok(Command::Flush));
}

#[test]
fn what_cannot_be_done_is_refused() {
    use Headers::{Extended, Simple, Structured};
    let size = 1 << 20;
    let cases = [
        // Flags that are not its own, or need another form of headers.
        (Simple, DF, 0, 0, 4096, Errno::Invalid),
        (Simple, NO_HOLE, 1, 0, 4096, Errno::Invalid),
        (Structured, PAYLOAD_LEN, 1, 0, 4096, Errno::Invalid),
        (Extended, 0, 1, 0, 4096, Errno::Invalid),
        (Extended, PAYLOAD_LEN, 0, 0, 4096, Errno::Invalid),
        (Structured, 1 << 15, 0, 0, 4096, Errno::Invalid),
        // Numbers that mean nothing, or nothing here.
        (Simple, 0, 7, 0, 4096, Errno::Invalid),
        (Simple, 0, 8, 0, 4096, Errno::Invalid),
        (Simple, 0, 65_535, 0, 4096, Errno::Invalid),
        (Simple, 0, 3, 4096, 0, Errno::Invalid),
        // Blocks.
        (Simple, 0, 0, 512, 4096, Errno::Invalid),
        (Simple, 0, 1, 0, 512, Errno::Invalid),
        (Simple, 0, 0, 0, 0, Errno::Invalid),
        // The end.
        (Simple, 0, 0, size, 4096, Errno::Invalid),
        (Simple, 0, 4, size - 4096, 8192, Errno::Invalid),
        (Simple, 0, 1, size - 4096, 8192, Errno::NoSpace),
        (Simple, 0, 6, size, 4096, Errno::NoSpace),
        (Simple, 0, 1, u64::MAX - 4095, 8192, Errno::NoSpace),
    ];
    for (headers, flags, kind, offset, length, error) in cases {
        assert_eq!(
            of(headers, flags, kind, offset, length),
            Err(error),
            "{headers:?} {flags} {kind} at {offset}, {length} bytes"
        );
    }
}

#[test]
fn a_read_only_export_is_not_written() {
    for kind in [1, 4] {
        assert_eq!(command_on(1, Headers::Simple, &compact(0, kind, 0, 512)), Err(Errno::NotPermitted));
    }
    // This one has no Write Zeroes at all.
    assert_eq!(command_on(1, Headers::Simple, &compact(0, 6, 0, 512)), Err(Errno::Invalid));
    assert_eq!(command_on(1, Headers::Simple, &compact(0, 0, 0, 512)), Ok(Command::Read { is_whole: true }));
}

#[test]
fn lengths_have_32_or_64_bits() {
    let length = PAYLOAD_BYTES_MAX + 4096;
    let read = |headers, bytes: &[u8]| Request::read(bytes, headers);
    assert_eq!(
        read(Headers::Simple, &compact(0, 1, 0, length)),
        Err(ProtocolError::PayloadLength { length: length.into() })
    );
    assert_eq!(
        read(Headers::Extended, &extended(PAYLOAD_LEN, 1, 0, 1 << 40)),
        Err(ProtocolError::PayloadLength { length: 1 << 40 })
    );
    let (_, status) = read(Headers::Extended, &extended(0, 7, 0, 6 << 30)).unwrap().unwrap();
    assert_eq!(status.payload_bytes, 0);
    assert_eq!(command_on(1, Headers::Extended, &extended(0, 7, 0, 6 << 30)), Ok(Command::BlockStatus));
    assert_eq!(command_on(1, Headers::Extended, &extended(0, 0, 0, 5 << 30)), Err(Errno::Overflow));
    // The data of a request that must not have any still comes.
    let (_, odd) = read(Headers::Extended, &extended(PAYLOAD_LEN, 3, 0, 512)).unwrap().unwrap();
    assert_eq!(odd.payload_bytes, 512);
}

#[test]
fn a_request_is_read_when_all_of_it_has_come() {
    for (headers, bytes) in
        [(Headers::Simple, compact(0, 0, 0, 4096)), (Headers::Extended, extended(0, 0, 0, 4096))]
    {
        for end in 0..bytes.len() {
            assert_eq!(Request::read(&bytes[..end], headers), Ok(None));
        }
        assert!(Request::read(&bytes, headers).unwrap().is_some());
    }
    assert_eq!(
        Request::read(&compact(0, 0, 0, 4096), Headers::Extended),
        Err(ProtocolError::RequestMagic(0x2560_9513))
    );
    // What can be no request is not waited for.
    assert_eq!(Request::read(b"GET ", Headers::Simple), Err(ProtocolError::RequestMagic(0x4745_5420)));
}

#[test]
fn heads_have_the_client_s_form() {
    let of = |headers| Replies { headers, cookie: 0x0102_0304_0506_0708, offset: 4096 };
    let cookie: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];
    let offset: &[u8] = &[0, 0, 0, 0, 0, 0, 0x10, 0];
    let simple = of(Headers::Simple);
    assert_eq!(*simple.done(), [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], cookie].concat());
    assert_eq!(*simple.failed(Errno::NoSpace), [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28], cookie].concat());
    assert_eq!(*simple.data(4096, 512, true), *simple.done());

    let structured = of(Headers::Structured);
    let magic: &[u8] = &[0x66, 0x8e, 0x33, 0xef];
    assert_eq!(*structured.done(), [magic, &[0, 1, 0, 0], cookie, &[0; 4]].concat());
    let failed = [magic, &[0, 1, 0x80, 1], cookie, &[0, 0, 0, 6], &[0, 0, 0, 5], &[0; 2]].concat();
    assert_eq!(*structured.failed(Errno::InputOutput), failed);
    let data = [magic, &[0, 0, 0, 1], cookie, &[0, 0, 2, 8], offset].concat();
    assert_eq!(*structured.data(4096, 512, false), data);
    let status =
        [magic, &[0, 1, 0, 5], cookie, &[0, 0, 0, 12], &[0, 0, 0, 1], &[0, 0, 2, 0], &[0; 4]].concat();
    assert_eq!(*structured.extent(512, false, 512), status);
    assert_eq!(structured.extent(6 << 30, false, 4096)[24..28], 0xffff_f000u32.to_be_bytes());

    let extended = of(Headers::Extended);
    let magic: &[u8] = &[0x6e, 0x8a, 0x27, 0x8c];
    assert_eq!(*extended.done(), [magic, &[0, 1, 0, 0], cookie, offset, &[0; 8]].concat());
    let length: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 24];
    let six_gib = (6u64 << 30).to_be_bytes();
    let status = [magic, &[0, 1, 0, 6], cookie, offset, length, &[0, 0, 0, 1, 0, 0, 0, 1], &six_gib, &[0; 8]];
    assert_eq!(*extended.extent(6 << 30, false, 4096), status.concat());
}

proptest! {
    #[test]
    fn what_is_done_lies_within_the_export(
        is_extended in any::<bool>(),
        flags in any::<u16>(),
        kind in 0u16..10,
        offset in prop_oneof![any::<u64>(), (0u64..300).prop_map(|block| block * 4096)],
        length in prop_oneof![any::<u64>(), (0u64..300).prop_map(|block| block * 4096)],
    ) {
        let headers = if is_extended { Headers::Extended } else { Headers::Structured };
        let bytes = if is_extended {
            extended(flags, kind, offset, length)
        } else {
            compact(flags, kind, offset, length as u32)
        };
        let Ok(read) = Request::read(&bytes, headers) else { return Ok(()) };
        let (_, request) = read.expect("it is whole");
        let export = &exports()[0];
        if let Ok(command) = request.command(&session(headers), export, export.size) {
            if !matches!(command, Command::Disconnect | Command::Flush) {
                prop_assert!(request.offset + request.length <= export.size && request.length > 0);
                prop_assert!(request.offset.is_multiple_of(4096) && request.length.is_multiple_of(4096));
            }
            let has_data = matches!(command, Command::Write { .. });
            prop_assert_eq!(request.payload_bytes, if has_data { request.length as u32 } else { 0 });
        }
    }
}
