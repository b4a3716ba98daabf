//! Options and their answers.

use proptest::prelude::*;

use super::{Bytes, context_option, export_option, exports};
use crate::limits::{HANDSHAKE_OUTPUT_BYTES_MAX, OPTION_BYTES_MAX};
use crate::{Handshake, Headers, ProtocolError, Session, Step, Tls};

const ACK: u32 = 1;
const UNSUPPORTED: u32 = 1 << 31 | 1;
const INVALID: u32 = 1 << 31 | 3;
const TLS_REQUIRED: u32 = 1 << 31 | 5;
const UNKNOWN: u32 = 1 << 31 | 6;

/// Result of a handshake, and its replies: option, kind and data of each.
type Transcript = (Option<Step>, Vec<(u32, u32, Vec<u8>)>);

/// Plays all bytes; the last step is the first that is not `Took`.
fn play(bytes: &Bytes) -> Result<Transcript, ProtocolError> {
    let (end, output) = play_in_pieces(&bytes.0, &[])?;
    Ok((end, replies(&output)))
}

/// The same where the bytes come in pieces.
fn play_in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<(Option<Step>, Vec<u8>), ProtocolError> {
    let (exports, mut handshake, mut output) = (exports(), Handshake::default(), Vec::new());
    let mut at = 0;
    let ends = cuts.iter().copied().filter(|cut| *cut < bytes.len()).chain([bytes.len()]);
    for end in ends {
        while at <= end {
            match handshake.step(&bytes[at..end], &exports, &mut output)? {
                Step::Took(count) => at += count,
                Step::NeedsMore => break,
                step => return Ok((Some(step), output)),
            }
        }
    }
    Ok((None, output))
}

fn replies(mut output: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while output.len() >= 20 {
        assert_eq!(output[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
        let field = |at: usize| u32::from_be_bytes(output[at..at + 4].try_into().unwrap());
        let end = 20 + field(16) as usize;
        replies.push((field(8), field(12), output[20..end].to_vec()));
        output = &output[end..];
    }
    assert!(output.is_empty());
    replies
}

fn chosen(step: Option<Step>) -> Session {
    match step {
        Some(Step::Chosen(_, session)) => session,
        other => panic!("no export was chosen: {other:?}"),
    }
}

#[test]
fn go_tells_all_of_the_export() {
    let bytes = Bytes::flags(3).option(8, &[]).option(7, &export_option("disk", &[3, 1, 2, 99]));
    let (step, replies) = play(&bytes).unwrap();
    let session = chosen(step);
    assert_eq!(session, Session { export: 0, headers: Headers::Structured, has_allocation: false });
    assert_eq!(replies[0], (8, ACK, vec![]));
    let infos: Vec<_> = replies[1..5].iter().map(|reply| (reply.0, reply.1, reply.2[1])).collect();
    assert_eq!(infos, [(7, 3, 0), (7, 3, 1), (7, 3, 2), (7, 3, 3)]);
    // The size, and the flags: all but read only, and no rotation or resize.
    assert_eq!(replies[1].2[2..], [0, 0, 0, 0, 0, 0x10, 0, 0, 0b1101, 0b1110_1101]);
    assert_eq!(replies[2].2[2..], *b"disk");
    assert_eq!(replies[3].2[2..], *b"a disk");
    assert_eq!(replies[4].2[2..], [0, 0, 0x10, 0, 0, 0, 0x10, 0, 2, 0, 0, 0]);
    assert_eq!(replies[5], (7, ACK, vec![]));
}

#[test]
fn what_cannot_be_written_is_said_to_be_so() {
    let (step, replies) = play(&Bytes::flags(3).option(7, &export_option("image", &[]))).unwrap();
    assert_eq!(chosen(step), Session { export: 1, headers: Headers::Simple, has_allocation: false });
    // Flush, FUA, the cache and several connections; nothing that writes, and no unfragmented replies where all are.
    assert_eq!(replies[0].2[2..], [0, 0, 0, 1, 0x80, 0, 0, 0, 0b101, 0b0000_1111]);
}

#[test]
fn info_does_not_choose() {
    let (step, replies) = play(&Bytes::flags(3).option(6, &export_option("disk", &[]))).unwrap();
    assert_eq!((step, replies.last().unwrap()), (None, &(6, ACK, vec![])));
}

#[test]
fn export_name_is_answered_without_a_reply_header() {
    for (flags, zeroes) in [(1, 124), (3, 0)] {
        let bytes = Bytes::flags(flags).option(1, b"image");
        let (step, output) = play_in_pieces(&bytes.0, &[]).unwrap();
        assert_eq!(chosen(step).export, 1);
        assert_eq!(output.len(), 10 + zeroes);
        assert_eq!(output[..8], (6u64 << 30).to_be_bytes());
    }
    assert_eq!(
        play(&Bytes::flags(3).option(1, b"disc")).unwrap_err(),
        ProtocolError::NoExport("disc".to_owned())
    );
    let extended = Bytes::flags(3).option(11, &[]).option(1, b"disk");
    assert_eq!(play(&extended).unwrap_err(), ProtocolError::ExtendedExportName);
}

#[test]
fn no_name_is_the_first() {
    let (step, _) = play(&Bytes::flags(3).option(7, &export_option("", &[]))).unwrap();
    assert_eq!(chosen(step).export, 0);
}

#[test]
fn exports_are_listed() {
    let (_, replies) = play(&Bytes::flags(3).option(3, &[])).unwrap();
    let described = |length: u8, text: &str| [&[0, 0, 0, length], text.as_bytes()].concat();
    assert_eq!(
        replies,
        [(3, 2, described(4, "diska disk")), (3, 2, described(5, "image")), (3, ACK, vec![])]
    );
}

#[test]
fn what_cannot_be_is_refused_and_the_next_option_is_taken() {
    let cases = [
        (5, vec![], UNSUPPORTED),
        (4, vec![], UNSUPPORTED),
        (77, vec![1, 2, 3], UNSUPPORTED),
        (3, vec![0], INVALID),
        (8, vec![0], INVALID),
        (11, vec![0], INVALID),
        (7, vec![], INVALID),
        (7, export_option("disc", &[]), UNKNOWN),
        (7, [export_option("disk", &[]), vec![0]].concat(), INVALID),
        (7, vec![0, 0, 0, 9, b'd'], INVALID),
        (7, [&u32::MAX.to_be_bytes()[..], b"disk"].concat(), INVALID),
        (7, [&4u32.to_be_bytes()[..], b"disk", &9u16.to_be_bytes()].concat(), INVALID),
        (6, [&2u32.to_be_bytes()[..], &[0xff, 0xfe], &0u16.to_be_bytes()].concat(), INVALID),
    ];
    for (option, data, kind) in cases {
        let (_, replies) = play(&Bytes::flags(3).option(option, &data).option(3, &[])).unwrap();
        assert_eq!(replies[0], (option, kind, vec![]), "option {option} with {data:?}");
        assert_eq!(replies.last().unwrap(), &(3, ACK, vec![]));
    }
}

#[test]
fn contexts_are_listed_and_chosen() {
    let id = |id: u8| [&[0, 0, 0, id][..], b"base:allocation"].concat();
    let mut bytes = Bytes::flags(3).option(10, &context_option("disk", &["base:allocation"]));
    bytes = bytes.option(8, &[]);
    bytes = bytes.option(9, &context_option("disk", &[]));
    bytes = bytes.option(9, &context_option("disk", &["base:", "qemu:dirty-bitmap:a"]));
    bytes = bytes.option(9, &context_option("disk", &["qemu:"]));
    bytes = bytes.option(9, &context_option("disk", &["base"]));
    bytes = bytes.option(10, &context_option("disc", &["base:allocation"]));
    bytes = bytes.option(10, &context_option("disk", &["base:allocation", "base:other"]));
    let (_, replies) = play(&bytes).unwrap();
    let expected = [
        (10, INVALID, vec![]),
        (8, ACK, vec![]),
        (9, 4, id(0)),
        (9, ACK, vec![]),
        (9, 4, id(0)),
        (9, ACK, vec![]),
        (9, ACK, vec![]),
        (9, INVALID, vec![]),
        (10, UNKNOWN, vec![]),
        (10, 4, id(1)),
        (10, ACK, vec![]),
    ];
    assert_eq!(replies, expected);
    for (name, has_allocation) in [("disk", true), ("image", false)] {
        let (step, _) = play(&bytes.clone().option(7, &export_option(name, &[]))).unwrap();
        assert_eq!(chosen(step).has_allocation, has_allocation);
    }
    // The last word counts, and one that fails chooses nothing.
    for last in [context_option("disk", &[]), context_option("disk", &["base:"]), vec![1]] {
        let (step, _) =
            play(&bytes.clone().option(10, &last).option(7, &export_option("disk", &[]))).unwrap();
        assert!(!chosen(step).has_allocation);
    }
}

#[test]
fn extended_headers_stay() {
    let bytes = Bytes::flags(3).option(8, &[]).option(11, &[]).option(8, &[]);
    let (step, replies) = play(&bytes.option(7, &export_option("disk", &[]))).unwrap();
    assert_eq!(replies[1..3], [(11, ACK, vec![]), (8, 1 << 31 | 10, vec![])]);
    assert_eq!(chosen(step).headers, Headers::Extended);
}

#[test]
fn abort_ends() {
    let (step, replies) = play(&Bytes::flags(3).option(2, b"why").option(3, &[])).unwrap();
    assert_eq!((step, replies), (Some(Step::Ended), vec![(2, ACK, vec![])]));
}

#[test]
fn what_is_no_option_ends_it() {
    assert_eq!(play(&Bytes::flags(4)).unwrap_err(), ProtocolError::ClientFlags(4));
    let mut bytes = Bytes::flags(3);
    bytes.0.extend(*b"GET / HTTP/1.1\r\n");
    assert!(matches!(play(&bytes).unwrap_err(), ProtocolError::OptionMagic(_)));
    let mut bytes = Bytes::flags(3).option(3, &[]);
    let length = OPTION_BYTES_MAX as u32 + 1;
    bytes.0.extend([&b"IHAVEOPT"[..], &7u32.to_be_bytes(), &length.to_be_bytes()].concat());
    // Before its data comes.
    assert_eq!(play(&bytes).unwrap_err(), ProtocolError::OptionLength { option: 7, length });
}

#[test]
fn who_reads_no_answers_gets_no_more() {
    let (exports, mut handshake, mut output) = (exports(), Handshake::default(), Vec::new());
    handshake.step(&3u32.to_be_bytes(), &exports, &mut output).unwrap();
    let list = Bytes::default().option(3, &[]).0;
    let taken = (0..10_000)
        .take_while(|_| handshake.step(&list, &exports, &mut output).unwrap() != Step::NeedsMore)
        .count();
    assert!(taken < 10_000 && output.len() < HANDSHAKE_OUTPUT_BYTES_MAX + 1024, "{taken}");
    output.clear();
    assert_eq!(handshake.step(&list, &exports, &mut output).unwrap(), Step::Took(16));
}

/// Plays bytes to a server with TLS, which begins behind STARTTLS at once: the last step, and what was answered.
fn play_with(tls: Tls, bytes: &Bytes) -> Result<Transcript, ProtocolError> {
    let (exports, mut handshake, mut output) = (exports(), Handshake::with_tls(tls), Vec::new());
    let mut at = 0;
    let end = loop {
        match handshake.step(&bytes.0[at..], &exports, &mut output)? {
            Step::Took(count) => at += count,
            Step::Secures(count) => {
                at += count;
                handshake.secured();
            }
            Step::NeedsMore => break None,
            step => break Some(step),
        }
    };
    Ok((end, replies(&output)))
}

#[test]
fn without_required_tls_no_export_is_revealed() {
    let cases = [
        (3, vec![]),
        (6, export_option("disk", &[])),
        (7, export_option("disk", &[])),
        (7, export_option("disc", &[])),
        (8, vec![]),
        (9, context_option("disk", &[])),
        (10, context_option("disk", &["base:allocation"])),
        (11, vec![]),
        (77, vec![1, 2, 3]),
    ];
    let mut bytes = Bytes::flags(3);
    for (option, data) in &cases {
        bytes = bytes.option(*option, data);
    }
    let (step, replies) = play_with(Tls::Required, &bytes).unwrap();
    assert_eq!(step, None);
    assert_eq!(replies, cases.map(|(option, _)| (option, TLS_REQUIRED, vec![])));
    let name = Bytes::flags(3).option(1, b"disk");
    assert_eq!(play_with(Tls::Required, &name).unwrap_err(), ProtocolError::TlsRequired);
    let (step, replies) = play_with(Tls::Required, &Bytes::flags(3).option(2, &[])).unwrap();
    assert_eq!((step, replies), (Some(Step::Ended), vec![(2, ACK, vec![])]));
}

#[test]
fn tls_begins_once_and_forgets_what_was_agreed_before() {
    let contexts = context_option("disk", &["base:allocation"]);
    let before = Bytes::flags(3).option(8, &[]).option(10, &contexts);
    let secured = before.option(5, &[]);
    for end in [secured.clone().option(7, &export_option("disk", &[])), secured.option(1, b"disk")] {
        let session = Session { export: 0, headers: Headers::Simple, has_allocation: false };
        let mut output = Vec::new();
        let (exports, mut handshake) = (exports(), Handshake::with_tls(Tls::Offered));
        let mut at = 0;
        let chosen = loop {
            match handshake.step(&end.0[at..], &exports, &mut output).unwrap() {
                Step::Took(count) => at += count,
                Step::Secures(count) => {
                    at += count;
                    handshake.secured();
                }
                step => break step,
            }
        };
        assert!(matches!(chosen, Step::Chosen(_, chosen) if chosen == session), "{chosen:?}");
    }
    for tls in [Tls::Offered, Tls::Required] {
        let bytes = Bytes::flags(3).option(5, &[0]).option(5, &[]).option(5, &[]).option(8, &[]);
        let (_, replies) = play_with(tls, &bytes).unwrap();
        assert_eq!(replies, [(5, INVALID), (5, ACK), (5, INVALID), (8, ACK)].map(|(o, k)| (o, k, vec![])));
    }
}

fn option() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let name = prop_oneof![Just("disk"), Just("image"), Just(""), Just("disc")];
    let data = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..24),
        Just(Vec::new()),
        name.clone().prop_map(|name| export_option(name, &[1, 2, 3])),
        name.prop_map(|name| context_option(name, &["base:allocation"])),
    ];
    (0u32..13, data)
}

proptest! {
    #[test]
    fn the_cuts_between_pieces_do_not_matter(
        options in proptest::collection::vec(option(), 0..8),
        mut cuts in proptest::collection::vec(0usize..200, 0..8),
    ) {
        cuts.sort_unstable();
        let bytes = options.iter().fold(Bytes::flags(3), |bytes, (option, data)| bytes.option(*option, data));
        prop_assert_eq!(play_in_pieces(&bytes.0, &cuts), play_in_pieces(&bytes.0, &[]));
    }

    #[test]
    fn no_bytes_are_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = play_in_pieces(&bytes, &[7, 50]);
        let bytes = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &bytes].concat();
        let _ = play_in_pieces(&bytes, &[]);
    }
}
