//! First messages of hosts: any bytes, and those of three libraries with bytes changed. Each is
//! read or refused, each prefix of it is incomplete, and no host is accepted whose binder or hello
//! was changed. Keys and identities as texts besides.

use arbitrary::{Result, Unstructured};
use secure_channel::{
    ConfiguredPsk, Derivation, FirstBytes, HELLO_BYTES_MAX, IdentityVersion, Names, PskIdentity, TlsPsk,
};

/// Hellos with the keys that they were made with, as the crate's tests have them.
const RECORDED: &str = include_str!("../../crates/secure_channel/src/tests/hello_vectors.txt");

/// Reads what the input makes of a hello.
pub fn check(bytes: &[u8]) {
    let _ = run(&mut Unstructured::new(bytes));
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    if input.ratio(1, 8)? {
        let bytes = input.bytes(input.len())?;
        texts(&String::from_utf8_lossy(bytes));
        return Ok(());
    }
    let line = RECORDED.lines().nth(input.int_in_range(0..=2)?).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let original = unhex(words[6]);
    let mut stream = original.clone();
    if input.ratio(1, 8)? {
        stream.truncate(5);
        stream.extend_from_slice(input.bytes(input.len())?);
    } else {
        for _ in 0..input.int_in_range(0..=4)? {
            change(input, &mut stream)?;
        }
        if input.arbitrary()? {
            stream = split(input, &stream)?;
        }
    }
    read(&stream, &original, &keys(&words), input)
}

/// Changes, adds or takes away something.
fn change(input: &mut Unstructured<'_>, stream: &mut Vec<u8>) -> Result<()> {
    let at = input.choose_index(stream.len())?;
    match input.int_in_range(0..=4)? {
        0 => stream[at] ^= 1 << input.int_in_range(0..=7)?,
        1 => stream[at] = input.arbitrary()?,
        2 => stream.insert(at, input.arbitrary()?),
        3 if stream.len() > 1 => drop(stream.remove(at)),
        _ => stream.truncate(at + 1),
    }
    Ok(())
}

/// The same message in several records, of which some may be empty.
fn split(input: &mut Unstructured<'_>, stream: &[u8]) -> Result<Vec<u8>> {
    let Some((header, mut message)) = stream.split_at_checked(5) else { return Ok(stream.to_vec()) };
    let mut records = Vec::new();
    for _ in 0..input.int_in_range(1..=5)? {
        let (part, rest) = message.split_at(input.int_in_range(0..=message.len())?);
        records.extend_from_slice(&header[..3]);
        records.extend_from_slice(&(part.len() as u16).to_be_bytes());
        records.extend_from_slice(part);
        message = rest;
    }
    records.extend_from_slice(&header[..3]);
    records.extend_from_slice(&(message.len() as u16).to_be_bytes());
    records.extend_from_slice(message);
    Ok(records)
}

/// Both derivations and versions of the key that a hello was made with.
fn keys(words: &[&str]) -> Vec<TlsPsk> {
    let psk: ConfiguredPsk = words[1].parse().expect("a recorded key");
    let names = Names::new(words[2], words[3]).expect("recorded names");
    let made = |(derivation, version)| {
        let input = psk.retained(&names, derivation);
        input.tls_psk(&names, psk.usual_suite(), version).expect("short names")
    };
    let versions = |derivation| IdentityVersion::ALL.map(|version| (derivation, version));
    Derivation::ALL.into_iter().flat_map(versions).map(made).collect()
}

fn read(stream: &[u8], original: &[u8], keys: &[TlsPsk], input: &mut Unstructured<'_>) -> Result<()> {
    let hello = match FirstBytes::of(stream) {
        Ok(FirstBytes::Hello(hello)) => hello,
        Ok(FirstBytes::Incomplete) => {
            assert!(stream.len() < HELLO_BYTES_MAX + 5 * 5, "a hello that never ends");
            return Ok(());
        }
        Ok(FirstBytes::InClear) => {
            assert!(stream[0] != 22);
            return Ok(());
        }
        Err(error) => {
            assert!(!error.to_string().contains('\n') && error.alert().name().is_some());
            return Ok(());
        }
    };
    for identity in hello.identities() {
        assert!(!identity.is_empty() && identity.len() <= stream.len());
        texts(&String::from_utf8_lossy(identity));
    }
    match hello.choose(keys) {
        Ok(_) => assert_eq!(message(stream), message(original), "a changed hello was believed"),
        Err(error) => {
            assert!(message(stream) != message(original), "a hello was not believed");
            assert!(!error.to_string().contains('\n') && error.alert().name().is_some());
        }
    }
    // Behind it there may be more, before it nothing is missing: no prefix is another hello.
    let more = [stream, &[7; 9]].concat();
    assert_eq!(FirstBytes::of(&more), Ok(FirstBytes::Hello(hello.clone())));
    let cut = input.choose_index(stream.len())?;
    match FirstBytes::of(&stream[..cut]) {
        Ok(FirstBytes::Incomplete) => {}
        Ok(FirstBytes::Hello(other)) => assert_eq!(other, hello),
        other => panic!("{other:?} of a prefix"),
    }
    Ok(())
}

/// The message of a stream of records, as far as its length says.
fn message(mut stream: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    while let Some((header, rest)) = stream.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]])).min(rest.len());
        message.extend_from_slice(&rest[..length]);
        stream = &rest[length..];
    }
    let length =
        message.get(1..4).map_or(0, |bytes| bytes.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)));
    message.truncate(4 + length);
    message
}

/// Checks that a text is the same after being written and read again.
fn texts(text: &str) {
    match text.parse::<ConfiguredPsk>() {
        Ok(psk) => assert_eq!(psk.reveal().parse(), Ok(psk)),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    match text.parse::<PskIdentity>() {
        Ok(identity) => assert_eq!(identity.to_string(), text),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
