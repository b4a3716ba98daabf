//! A stream between a sealer and an opener: cut anywhere, changed anywhere, with keys that change, and with content that the
//! RFC forbids.

use proptest::prelude::*;

use super::channel;
use crate::record::ContentType;
use crate::{
    Alert, DATA_BYTES_MAX, HEADER_BYTES, OVERHEAD_BYTES, Opened, OpenedInto, Opener, Peer, RECORDS_MAX,
    RecordError, RecordLimit, SealError, Sealer, Suite, TrafficSecret,
};

fn sealed(sealer: &mut Sealer, data: &[u8], padding_bytes: usize) -> Vec<u8> {
    let mut record = vec![0xee; data.len() + OVERHEAD_BYTES + padding_bytes];
    record[HEADER_BYTES..][..data.len()].copy_from_slice(data);
    sealer.seal(&mut record, data.len()).unwrap();
    record
}

/// A record of any content.
fn forged(sealer: &mut Sealer, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut record = vec![0; content.len() + OVERHEAD_BYTES];
    record[HEADER_BYTES..][..content.len()].copy_from_slice(content);
    sealer.seal_content(kind, &mut record, content.len()).unwrap();
    record
}

/// Results of an opener for a stream, of which it sees `step` bytes more each time.
fn received(
    opener: &mut Opener,
    stream: &[u8],
    step: impl Fn(usize) -> usize,
) -> Result<Vec<u8>, RecordError> {
    let (mut seen, mut waiting, mut data, mut turn) = (0, Vec::new(), Vec::new(), 0);
    while seen < stream.len() {
        let more = step(turn).clamp(1, stream.len() - seen);
        waiting.extend_from_slice(&stream[seen..seen + more]);
        (seen, turn) = (seen + more, turn + 1);
        loop {
            let used = match opener.open(&mut waiting)? {
                Opened::Incomplete { missing_bytes } => {
                    assert!(missing_bytes > 0 && missing_bytes <= stream.len());
                    break;
                }
                Opened::Data { record_bytes, data: range } => {
                    data.extend_from_slice(&waiting[range]);
                    record_bytes
                }
                Opened::Nothing { record_bytes } | Opened::KeyUpdate { record_bytes, .. } => record_bytes,
                Opened::Closed => return Ok(data),
            };
            waiting.drain(..used);
        }
    }
    assert!(waiting.is_empty());
    Ok(data)
}

fn suites() -> impl Strategy<Value = Suite> {
    prop_oneof![Just(Suite::Aes128Gcm), Just(Suite::Aes256Gcm)]
}

/// Data of some records, padding behind each, and whether the key changes behind it.
fn records() -> impl Strategy<Value = Vec<(Vec<u8>, usize, bool)>> {
    let data = prop::collection::vec(any::<u8>(), 0..600);
    prop::collection::vec((data, 0..40_usize, any::<bool>()), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn cut_anywhere_a_stream_is_the_same(
        suite in suites(),
        records in records(),
        steps in prop::collection::vec(1..900_usize, 1..20),
    ) {
        let (mut sealer, mut opener) = channel(suite);
        let (mut stream, mut data) = (Vec::new(), Vec::new());
        for (bytes, padding_bytes, is_last) in &records {
            stream.extend(sealed(&mut sealer, bytes, *padding_bytes));
            data.extend_from_slice(bytes);
            if *is_last {
                stream.extend(sealer.update(false).unwrap());
            }
        }
        stream.extend(sealer.alert(Alert::CLOSE_NOTIFY).unwrap());
        let opened = received(&mut opener, &stream, |turn| steps[turn % steps.len()]);
        prop_assert_eq!(opened, Ok(data));
        prop_assert_eq!(opener.updates(), sealer.updates());
    }

    #[test]
    fn a_record_is_opened_into_a_place_that_it_fits_into(
        suite in suites(),
        data in prop::collection::vec(any::<u8>(), 1..300),
        padding_bytes in 0..40_usize,
        place_bytes in 0..400_usize,
        flipped in prop::option::of((any::<prop::sample::Index>(), 0..8_u8)),
    ) {
        let (mut sealer, mut opener) = channel(suite);
        let mut record = sealed(&mut sealer, &data, padding_bytes);
        let record_bytes = record.len();
        if let Some((at, bit)) = flipped {
            record[HEADER_BYTES + at.index(record_bytes - HEADER_BYTES)] ^= 1 << bit;
        }
        let mut place = vec![0xee; place_bytes];
        let opened = opener.open_into(&mut record, &mut place);
        if flipped.is_some() {
            prop_assert_eq!(opened, Err(RecordError::Tag));
            prop_assert_eq!(opener.open_into(&mut record, &mut place), Err(RecordError::Tag));
        } else if data.len() + 1 + padding_bytes <= place_bytes {
            prop_assert_eq!(opened, Ok(OpenedInto::Place { record_bytes, data_bytes: data.len() }));
            prop_assert_eq!(&place[..data.len()], &data[..]);
            prop_assert!(place[data.len() + 1 + padding_bytes..].iter().all(|byte| *byte == 0xee));
        } else {
            let range = HEADER_BYTES..HEADER_BYTES + data.len();
            let expected = OpenedInto::Record(Opened::Data { record_bytes, data: range.clone() });
            prop_assert_eq!(opened, Ok(expected));
            prop_assert_eq!(&record[range], &data[..]);
            prop_assert!(place.iter().all(|byte| *byte == 0xee));
        }
    }

    #[test]
    fn a_flipped_bit_is_never_opened(
        suite in suites(),
        data in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let (mut sealer, mut opener) = channel(suite);
        let mut record = sealed(&mut sealer, &data, 3);
        record[at.index(data.len() + OVERHEAD_BYTES + 3)] ^= 1 << bit;
        // A length that has become greater: what is behind the record belongs to it now.
        record.resize(record.len() + (1 << 16), 0);
        let opened = opener.open(&mut record);
        prop_assert!(opened.is_err(), "{:?}", opened);
        // Whatever comes then.
        let mut good = sealed(&mut channel(suite).0, &data, 0);
        prop_assert_eq!(opener.open(&mut good), opened);
    }

    #[test]
    fn no_record_is_like_another(suite in suites(), count in 2..100_usize, data in any::<[u8; 16]>()) {
        let (mut sealer, _) = channel(suite);
        let mut seen = std::collections::HashSet::new();
        for number in 0..count {
            prop_assert!(seen.insert(sealed(&mut sealer, &data, 0)));
            if number % 7 == 0 {
                sealer.update(number % 2 == 0).unwrap();
            }
        }
    }
}

#[test]
fn a_record_that_is_repeated_left_out_or_moved_is_refused() {
    for order in [&[0, 0][..], &[1], &[0, 2], &[1, 0]] {
        let (mut sealer, mut opener) = channel(Suite::Aes128Gcm);
        let records: Vec<_> = (0..3).map(|byte| sealed(&mut sealer, &[byte; 10], 0)).collect();
        let stream: Vec<u8> = order.iter().flat_map(|number| records[*number].clone()).collect();
        assert_eq!(received(&mut opener, &stream, |_| usize::MAX), Err(RecordError::Tag), "{order:?}");
    }
}

#[test]
fn both_ways_of_sealing_are_the_same() {
    for suite in Suite::ALL {
        for length in [0, 1, 15, 16, 17, 4096, DATA_BYTES_MAX] {
            let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (mut one, mut other) = (channel(suite).0, channel(suite).0);
            let mut record = vec![0; length + OVERHEAD_BYTES];
            other.seal_from(&data, &mut record).unwrap();
            assert_eq!(sealed(&mut one, &data, 0), record);
        }
    }
}

#[test]
fn what_does_not_fit_is_not_sealed() {
    let (mut sealer, _) = channel(Suite::Aes128Gcm);
    let mut record = vec![0; DATA_BYTES_MAX + OVERHEAD_BYTES + 1];
    for (data_bytes, record_bytes) in [
        (1, OVERHEAD_BYTES),
        (0, 0),
        (usize::MAX, 100),
        (DATA_BYTES_MAX + 1, record.len()),
        (0, record.len()),
    ] {
        let refused = sealer.seal(&mut record[..record_bytes], data_bytes);
        assert_eq!(refused, Err(SealError::Length { data_bytes, record_bytes }));
    }
    assert!(sealer.seal_from(&[1; 10], &mut record[..10 + OVERHEAD_BYTES + 1]).is_err());
    assert!(sealer.seal_from(&record.clone(), &mut record).is_err());
    assert_eq!(sealer.records(), 0);
    assert_eq!(sealer.seal(&mut record[..DATA_BYTES_MAX + OVERHEAD_BYTES], 0), Ok(()));
}

#[test]
fn a_key_is_used_no_more_than_the_suite_allows() {
    let secret = TrafficSecret::new(Suite::Aes128Gcm, &[3; 32]).unwrap();
    let mut sealer = Sealer::new(&secret, RecordLimit::new(2).unwrap());
    for is_due in [false, false, true, true] {
        assert_eq!(sealer.is_due(), is_due);
        sealed(&mut sealer, b"data", 0);
    }
    sealer.skip_to(RECORDS_MAX - 3);
    sealed(&mut sealer, b"data", 0);
    let mut record = [0; OVERHEAD_BYTES];
    assert_eq!(sealer.seal(&mut record, 0), Err(SealError::UsedUp(RECORDS_MAX - 2)));
    assert!(sealer.seal_from(&[], &mut record).is_err());
    // A KeyUpdate and an alert are still possible; with a new key, everything is.
    sealer.update(false).unwrap();
    assert_eq!((sealer.records(), sealer.updates(), sealer.is_due()), (0, 1, false));
    sealer.skip_to(RECORDS_MAX - 1);
    assert_eq!(sealer.update(false), Err(SealError::UsedUp(RECORDS_MAX - 1)));
    sealer.alert(Alert::CLOSE_NOTIFY).unwrap();
    assert_eq!(sealer.seal(&mut record, 0), Err(SealError::Closed));
    assert_eq!(sealer.update(false), Err(SealError::Closed));
    assert_eq!(sealer.alert(Alert::CLOSE_NOTIFY), Err(SealError::Closed));
    assert_eq!(RecordLimit::new(0), None);
    assert_eq!(RecordLimit::new(RECORDS_MAX - 1), None);
    assert!(RecordLimit::default().records() < RECORDS_MAX);
}

#[test]
fn keys_change_in_both_directions() {
    let (mut sealer, mut opener) = channel(Suite::Aes256Gcm);
    let mut old = sealed(&mut sealer, b"old", 0);
    assert!(matches!(opener.open(&mut old), Ok(Opened::Data { .. })));
    for asks_back in [true, false] {
        let mut record = sealer.update(asks_back).unwrap();
        let expected = Opened::KeyUpdate { record_bytes: record.len(), asks_back };
        assert_eq!(opener.open(&mut record), Ok(expected));
        assert_eq!((opener.records(), sealer.records()), (0, 0));
        let mut new = sealed(&mut sealer, b"new", 0);
        assert!(matches!(opener.open(&mut new), Ok(Opened::Data { .. })));
    }
    // A record of the old key behind a KeyUpdate.
    let (mut sealer, mut opener) = channel(Suite::Aes256Gcm);
    opener.open(&mut sealer.update(false).unwrap()).unwrap();
    let mut old = sealed(&mut channel(Suite::Aes256Gcm).0, b"old", 0);
    assert_eq!(opener.open(&mut old), Err(RecordError::Tag));
}

/// Result of an opener for one record of this content.
fn opened(peer: Peer, kind: u8, content: &[u8]) -> Result<Opened, RecordError> {
    let secret = TrafficSecret::new(Suite::Aes128Gcm, &[3; 32]).unwrap();
    let mut sealer = Sealer::new(&secret, RecordLimit::default());
    Opener::new(&secret, peer).open(&mut forged(&mut sealer, kind, content))
}

#[test]
fn content_that_is_not_allowed_is_refused_with_the_right_alert() {
    let (alert, handshake) = (ContentType::Alert as u8, ContentType::Handshake as u8);
    let ticket = [4, 0, 0, 2, 1, 2];
    let cases: [(u8, &[u8], RecordError, Alert); 14] = [
        (0, &[], RecordError::NoContentType, Alert::UNEXPECTED_MESSAGE),
        (0, &[0; 9], RecordError::NoContentType, Alert::UNEXPECTED_MESSAGE),
        (20, &[1], RecordError::ContentType(20), Alert::UNEXPECTED_MESSAGE),
        (24, &[1], RecordError::ContentType(24), Alert::UNEXPECTED_MESSAGE),
        (alert, &[], RecordError::Empty(21), Alert::UNEXPECTED_MESSAGE),
        (alert, &[1], RecordError::Alert(1), Alert::DECODE_ERROR),
        (alert, &[1, 0, 1, 0], RecordError::Alert(4), Alert::DECODE_ERROR),
        (handshake, &[], RecordError::Empty(22), Alert::UNEXPECTED_MESSAGE),
        (handshake, &[1, 0, 0, 1, 0], RecordError::Message(1), Alert::UNEXPECTED_MESSAGE),
        (handshake, &ticket, RecordError::Message(4), Alert::UNEXPECTED_MESSAGE),
        (handshake, &[24, 0, 0, 1, 2], RecordError::KeyUpdate(2), Alert::ILLEGAL_PARAMETER),
        (handshake, &[24, 0, 0, 1, 0, 24], RecordError::Torn, Alert::UNEXPECTED_MESSAGE),
        (
            handshake,
            &[24, 0, 0, 2, 0, 0],
            RecordError::MessageLength { kind: 24, bytes: 2 },
            Alert::DECODE_ERROR,
        ),
        (handshake, &[24, 0, 0, 0], RecordError::MessageLength { kind: 24, bytes: 0 }, Alert::DECODE_ERROR),
    ];
    for (kind, content, error, alert) in cases {
        assert_eq!(error.alert(), Some(alert));
        assert_eq!(opened(Peer::Host, kind, content), Err(error), "{kind} {content:?}");
    }
    let long = RecordError::MessageLength { kind: 4, bytes: 0x0001_0001 };
    assert_eq!(opened(Peer::Controller, handshake, &[4, 1, 0, 1]), Err(long));
    let record_bytes = ticket.len() + OVERHEAD_BYTES;
    assert_eq!(opened(Peer::Controller, handshake, &ticket), Ok(Opened::Nothing { record_bytes }));
}

#[test]
fn alerts_end_a_channel_whatever_their_level() {
    assert_eq!(opened(Peer::Host, 21, &[1, 0]), Ok(Opened::Closed));
    assert_eq!(opened(Peer::Host, 21, &[2, 0]), Ok(Opened::Closed));
    let record_bytes = OVERHEAD_BYTES + 2;
    assert_eq!(opened(Peer::Host, 21, &[1, 90]), Ok(Opened::Nothing { record_bytes }));
    for level in [0, 1, 2, 255] {
        let ended = opened(Peer::Host, 21, &[level, 20]).unwrap_err();
        assert_eq!((ended.alert(), &ended), (None, &RecordError::Ended(Alert::BAD_RECORD_MAC)));
    }
    let (mut sealer, mut opener) = channel(Suite::Aes128Gcm);
    let mut stream = sealer.alert(Alert::CLOSE_NOTIFY).unwrap().to_vec();
    assert_eq!(opener.open(&mut stream), Ok(Opened::Closed));
    assert_eq!(opener.open(&mut [0xff; 100]), Ok(Opened::Closed));
}

#[test]
fn what_is_not_a_sealed_record_is_refused() {
    let cases: [(&[u8], RecordError); 6] = [
        (&[20, 3, 3, 0, 1, 1], RecordError::InClear(20)),
        (&[21, 3, 3, 0, 2], RecordError::InClear(21)),
        (&[0, 0, 0, 0, 0], RecordError::InClear(0)),
        (&[23, 3, 3, 0, 16], RecordError::TooShort(16)),
        (&[23, 3, 3, 0, 0], RecordError::TooShort(0)),
        (&[23, 3, 3, 0x41, 1], RecordError::TooLong(0x4101)),
    ];
    for (stream, error) in cases {
        assert_eq!(channel(Suite::Aes128Gcm).1.open(&mut stream.to_vec()), Err(error));
    }
    assert_eq!(RecordError::TooShort(0).alert(), Some(Alert::BAD_RECORD_MAC));
    assert_eq!(RecordError::TooLong(0).alert(), Some(Alert::RECORD_OVERFLOW));
    // More data than a record may have, in a record that is not too long.
    let long = opened(Peer::Host, 23, &[1; DATA_BYTES_MAX + 1]);
    assert_eq!(long, Err(RecordError::TooLong(DATA_BYTES_MAX + 1)));
    let full = opened(Peer::Host, 23, &[1; DATA_BYTES_MAX]);
    assert!(matches!(full, Ok(Opened::Data { data, .. }) if data.len() == DATA_BYTES_MAX));
}

#[test]
fn what_is_not_data_means_the_same_in_a_place() {
    let (mut sealer, mut opener) = channel(Suite::Aes128Gcm);
    let mut place = [0; 1 << 10];
    let mut next = |record: &mut [u8]| opener.open_into(record, &mut place);
    let mut update = sealer.update(true).unwrap();
    let record_bytes = update.len();
    let expected = Opened::KeyUpdate { record_bytes, asks_back: true };
    assert_eq!(next(&mut update), Ok(OpenedInto::Record(expected)));
    let mut padding = sealed(&mut sealer, b"", 9);
    let record_bytes = padding.len();
    assert_eq!(next(&mut padding), Ok(OpenedInto::Record(Opened::Nothing { record_bytes })));
    let mut data = sealed(&mut sealer, b"data", 0);
    let (record_bytes, data_bytes) = (data.len(), 4);
    assert_eq!(
        next(&mut data[..9]),
        Ok(OpenedInto::Record(Opened::Incomplete { missing_bytes: record_bytes - 9 }))
    );
    assert_eq!(next(&mut data), Ok(OpenedInto::Place { record_bytes, data_bytes }));
    let closed = Ok(OpenedInto::Record(Opened::Closed));
    assert_eq!(next(&mut sealer.alert(Alert::CLOSE_NOTIFY).unwrap()), closed);
    assert_eq!(next(&mut [0xff; 100]), closed);
    // More data than a record may have, in a place that has room for it.
    let (mut sealer, mut opener) = channel(Suite::Aes128Gcm);
    let mut long = forged(&mut sealer, 23, &[1; DATA_BYTES_MAX + 1]);
    let opened = opener.open_into(&mut long, &mut vec![0; 2 * DATA_BYTES_MAX]);
    assert_eq!(opened, Err(RecordError::TooLong(DATA_BYTES_MAX + 1)));
}

#[test]
fn messages_may_be_split_but_nothing_comes_between() {
    let (mut sealer, mut opener) = channel(Suite::Aes128Gcm);
    let ticket = [&[4, 0, 0, 3, 9, 9, 9][..], &[24, 0, 0, 1, 1]].concat();
    for (at, byte) in ticket.iter().enumerate() {
        let opened = opener.open(&mut forged(&mut sealer, 22, &[*byte])).unwrap();
        let record_bytes = OVERHEAD_BYTES + 1;
        let is_last = at == ticket.len() - 1;
        let update = Opened::KeyUpdate { record_bytes, asks_back: true };
        assert_eq!(opened, if is_last { update } else { Opened::Nothing { record_bytes } });
    }
    for kind in [21, 23] {
        let (mut sealer, mut opener) = channel(Suite::Aes128Gcm);
        opener.open(&mut forged(&mut sealer, 22, &[24, 0])).unwrap();
        let between = opener.open(&mut forged(&mut sealer, kind, &[1, 0]));
        assert_eq!(between, Err(RecordError::Torn));
    }
}

#[test]
fn a_peer_that_sends_nothing_but_keys_or_padding_is_refused() {
    for makes_keys in [false, true] {
        let (mut sealer, mut opener) = channel(Suite::Aes128Gcm);
        let mut next = |sealer: &mut Sealer| {
            let mut record =
                if makes_keys { sealer.update(true).unwrap().to_vec() } else { sealed(sealer, b"", 9) };
            opener.open(&mut record)
        };
        assert!((0..32).all(|_| next(&mut sealer).is_ok()));
        assert_eq!(next(&mut sealer), Err(RecordError::Idle(33)));
    }
    let (mut sealer, mut opener) = channel(Suite::Aes128Gcm);
    for _ in 0..100 {
        opener.open(&mut sealer.update(false).unwrap()).unwrap();
        opener.open(&mut sealed(&mut sealer, b"data", 0)).unwrap();
    }
}

#[test]
fn no_secret_is_shown() {
    let secret = TrafficSecret::new(Suite::Aes128Gcm, &[0xab; 32]).unwrap();
    let (sealer, opener) = channel(Suite::Aes256Gcm);
    let shown = format!("{secret:?} {sealer:?} {opener:?}");
    assert!(!shown.contains("171") && !shown.contains("ab, ") && shown.len() < 200, "{shown}");
    assert!(TrafficSecret::new(Suite::Aes256Gcm, &[0; 32]).is_none());
}
