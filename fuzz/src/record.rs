//! Streams of records between a sealer and an opener, with an attacker who changes, repeats, leaves
//! out and cuts; and a peer that has the right key and seals content of any type, with keys that a
//! library derives. Data that is opened is data that was sealed, in its order; after an error
//! nothing more is opened.

use arbitrary::{Result, Unstructured};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use secure_channel::{
    Alert, HEADER_BYTES, OVERHEAD_BYTES, Opened, Opener, Peer, RECORD_BYTES_MAX, RecordError, RecordLimit,
    Sealer, Suite, TrafficSecret,
};

/// Records of one input.
const RECORDS_MAX: usize = 48;

/// Does what the input says on one stream.
pub fn check(bytes: &[u8]) {
    let _ = run(&mut Unstructured::new(bytes));
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let suite = *input.choose(&Suite::ALL)?;
    let peer = *input.choose(&[Peer::Host, Peer::Controller])?;
    let secret = vec![0x42; suite.hash().length()];
    let opener = Opener::new(&TrafficSecret::new(suite, &secret).expect("as long as its hash"), peer);
    if input.arbitrary()? {
        on_the_way(input, suite, &secret, opener)
    } else {
        hostile(input, suite, secret, opener)
    }
}

/// Plays two honest ends with an attacker between them.
fn on_the_way(input: &mut Unstructured<'_>, suite: Suite, secret: &[u8], mut opener: Opener) -> Result<()> {
    let secret = TrafficSecret::new(suite, secret).expect("as long as its hash");
    let mut sealer = Sealer::new(&secret, RecordLimit::default());
    let (mut stream, mut sent) = (Vec::new(), Vec::new());
    let mut is_changed = false;
    let mut last = Vec::new();
    for number in 0..input.int_in_range(1..=RECORDS_MAX)? {
        let record = if input.ratio(1, 6)? {
            sealer.update(input.arbitrary()?).expect("a new key").to_vec()
        } else {
            let data = vec![number as u8; input.int_in_range(0..=300)?];
            let padding_bytes = if input.ratio(1, 4)? { input.int_in_range(0..=50)? } else { 0 };
            let mut record = vec![0; data.len() + OVERHEAD_BYTES + padding_bytes];
            record[HEADER_BYTES..][..data.len()].copy_from_slice(&data);
            sealer.seal(&mut record, data.len()).expect("room for all");
            sent.extend_from_slice(&data);
            record
        };
        is_changed |= pass(input, &mut stream, &record, &last)?;
        last = record;
        if input.is_empty() {
            break;
        }
    }
    let (received, error) = receive(input, &mut opener, &stream)?;
    assert!(sent.starts_with(&received), "other data than was sealed");
    match error {
        None => assert!(is_changed || sent == received, "data was lost"),
        // Thirty-three records without data in a row are refused, even if unchanged.
        Some(error) => assert!(is_changed || matches!(error, RecordError::Idle(_)), "{error}"),
    }
    Ok(())
}

/// Lets a record through, or something in its place: whether it is changed.
fn pass(input: &mut Unstructured<'_>, stream: &mut Vec<u8>, record: &[u8], last: &[u8]) -> Result<bool> {
    match input.int_in_range(0..=40)? {
        0 => {
            let mut record = record.to_vec();
            let at = input.choose_index(record.len())?;
            record[at] ^= 1 << input.int_in_range(0..=7)?;
            stream.extend(record);
        }
        1 => stream.extend_from_slice(&record[..input.choose_index(record.len())?]),
        2 => stream.extend_from_slice(last),
        3 => {}
        4 => stream.extend_from_slice(input.bytes(input.len().min(40))?),
        _ => {
            stream.extend_from_slice(record);
            return Ok(false);
        }
    }
    Ok(true)
}

/// The data of a stream that comes in pieces, and the error that it ends with.
fn receive(
    input: &mut Unstructured<'_>,
    opener: &mut Opener,
    mut stream: &[u8],
) -> Result<(Vec<u8>, Option<RecordError>)> {
    let (mut waiting, mut data) = (Vec::new(), Vec::new());
    while !stream.is_empty() {
        let length = if input.is_empty() { stream.len() } else { input.int_in_range(1..=stream.len())? };
        let (piece, rest) = stream.split_at(length);
        waiting.extend_from_slice(piece);
        stream = rest;
        loop {
            match open(opener, &mut waiting) {
                Ok(Some(bytes)) => data.extend(bytes),
                Ok(None) => break,
                Err(error) => return Ok((data, Some(error))),
            }
        }
    }
    Ok((data, None))
}

/// The data of the next record, taken out of what waits; `None` when there is none.
fn open(opener: &mut Opener, waiting: &mut Vec<u8>) -> std::result::Result<Option<Vec<u8>>, RecordError> {
    let mut before = waiting.clone();
    let (record_bytes, data) = match opener.open(waiting) {
        Ok(Opened::Incomplete { missing_bytes }) => {
            assert!(missing_bytes > 0 && waiting.len() + missing_bytes <= RECORD_BYTES_MAX);
            assert_eq!(*waiting, before, "bytes of a record that is not whole were changed");
            return Ok(None);
        }
        Ok(Opened::Data { record_bytes, data }) => {
            assert!(data.start >= HEADER_BYTES && data.end + OVERHEAD_BYTES - HEADER_BYTES <= record_bytes);
            (record_bytes, waiting[data].to_vec())
        }
        Ok(Opened::Nothing { record_bytes } | Opened::KeyUpdate { record_bytes, .. }) => {
            (record_bytes, Vec::new())
        }
        Ok(Opened::Closed) => return Ok(None),
        Err(error) => {
            assert!(!error.to_string().contains('\n'));
            assert_eq!(opener.open(&mut before), Err(error.clone()), "an error was forgotten");
            return Err(error);
        }
    };
    waiting.drain(..record_bytes);
    Ok(Some(data))
}

/// The peer has the key, and sends what it likes.
fn hostile(input: &mut Unstructured<'_>, suite: Suite, secret: Vec<u8>, mut opener: Opener) -> Result<()> {
    let (mut secret, mut number) = (secret, 0);
    for _ in 0..RECORDS_MAX {
        if input.is_empty() {
            break;
        }
        let kind = *input.choose(&[21, 22, 22, 22, 23, 23, 20, 24, 0])?;
        let content = content(input, kind)?;
        let padding_bytes = if input.ratio(1, 8)? { input.int_in_range(0..=20_000)? } else { 0 };
        let mut record = sealed(suite, &secret, number, (kind, &content), padding_bytes);
        number += 1;
        let (kind, content) = meant(kind, content);
        match opener.open(&mut record) {
            Ok(Opened::Data { record_bytes, data }) => {
                assert_eq!((kind, &record[data], record_bytes), (23, &content[..], record.len()));
            }
            Ok(Opened::Nothing { record_bytes }) => {
                assert!(kind == 22 || kind == 21 || kind == 23 && content.is_empty());
                assert_eq!(record_bytes, record.len());
            }
            Ok(Opened::KeyUpdate { asks_back, .. }) => {
                assert!(kind == 22 && content.last() == Some(&u8::from(asks_back)));
                secret = expanded(suite, &secret, "traffic upd", secret.len());
                number = 0;
            }
            Ok(Opened::Closed) => {
                assert!(kind == 21 && content[1] == Alert::CLOSE_NOTIFY.0);
                assert_eq!(opener.open(&mut [1; 9]), Ok(Opened::Closed));
                break;
            }
            Ok(Opened::Incomplete { .. }) => panic!("a whole record is not complete"),
            Err(error) => {
                assert!(error != RecordError::Tag, "a library seals in another way");
                assert_eq!(opener.open(&mut []), Err(error));
                break;
            }
        }
    }
    Ok(())
}

fn content(input: &mut Unstructured<'_>, kind: u8) -> Result<Vec<u8>> {
    Ok(match (kind, input.int_in_range(0..=7)?) {
        (22, 0 | 1) => vec![24, 0, 0, 1, input.int_in_range(0..=1)?],
        (22, 2) => vec![4, 0, 0, input.int_in_range(1..=9)?, 7, 7, 7],
        (21, 0..=4) => vec![input.arbitrary()?, *input.choose(&[0, 90, 20])?],
        (23, 0) => vec![9; input.int_in_range(0..=16_400)?],
        _ => {
            let length = input.int_in_range(0..=input.len().min(12))?;
            input.bytes(length)?.to_vec()
        }
    })
}

/// Content without its type: zeros at the end are padding, and the type is the byte before them.
fn meant(kind: u8, mut content: Vec<u8>) -> (u8, Vec<u8>) {
    content.push(kind);
    let length = content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    content.truncate(length);
    (content.pop().unwrap_or_default(), content)
}

/// A record as the RFC has it, by the library's own derivation.
fn sealed(
    suite: Suite,
    secret: &[u8],
    number: u64,
    (kind, content): (u8, &[u8]),
    padding_bytes: usize,
) -> Vec<u8> {
    let key = expanded(suite, secret, "key", suite.key_bytes());
    let mut nonce: [u8; 12] = expanded(suite, secret, "iv", 12).try_into().expect("12 bytes");
    nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, digit)| *byte ^= digit);
    let algorithm = if suite == Suite::Aes128Gcm { &AES_128_GCM } else { &AES_256_GCM };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &key).expect("as long as its suite says"));
    let mut inner = [content, &[kind]].concat();
    inner.resize(inner.len() + padding_bytes, 0);
    let [high, low] = ((inner.len() + 16) as u16).to_be_bytes();
    let header = [23, 3, 3, high, low];
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(header), &mut inner).expect("a short record");
    [&header[..], &inner].concat()
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expanded(suite: Suite, secret: &[u8], label: &str, length: usize) -> Vec<u8> {
    let algorithm = if suite == Suite::Aes128Gcm { HKDF_SHA256 } else { HKDF_SHA384 };
    let label = format!("tls13 {label}");
    let info = [&(length as u16).to_be_bytes()[..], &[label.len() as u8], label.as_bytes(), &[0]];
    let mut output = vec![0; length];
    let key = Prk::new_less_safe(algorithm, secret);
    let expansion = key.expand(&info, Length(length)).and_then(|okm| okm.fill(&mut output));
    expansion.expect("a short key");
    output
}
