//! ClientHellos of three libraries, and what becomes of them when they are cut and changed: the key that a host has is found,
//! and no other.

use proptest::prelude::*;

use super::{bytes, hex};
use crate::psk_choice::is_made_by;
use crate::{
    Alert, ChoiceError, ClientHello, ConfiguredPsk, Derivation, FirstBytes, Hash, HelloError,
    IdentityVersion, Names, Suite, TlsPsk,
};

/// By line: the library, the key, both names, how the PSK was derived, the version of its identity, and the first record that
/// the library sent:
///
/// ```text
/// openssl s_client -tls1_3 -groups X25519 -noservername -psk PSK -psk_identity IDENTITY -connect HOST:PORT
/// gnutls-cli --pskusername IDENTITY --pskkey PSK -p PORT HOST \
///     --priority NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+DHE-PSK:+ECDHE-PSK:-GROUP-ALL:+GROUP-X25519
/// s2n-tls, policy default_tls13, after Connection::append_psk
/// ```
const HELLOS: &str = include_str!("hello_vectors.txt");

/// A hello, and each key that it may have been made with, first the right one.
struct Recorded {
    stream: Vec<u8>,
    keys: Vec<TlsPsk>,
    place: usize,
}

fn recorded() -> Vec<Recorded> {
    let read = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let psk: ConfiguredPsk = words[1].parse().unwrap();
        let names = Names::new(words[2], words[3]).unwrap();
        let mut keys = Vec::new();
        for derivation in Derivation::ALL {
            for suite in Suite::ALL {
                for version in IdentityVersion::ALL {
                    keys.push(psk.retained(&names, derivation).tls_psk(&names, suite, version).unwrap());
                }
            }
        }
        let version = IdentityVersion::ALL[usize::from(words[5] == "1")];
        let is_it = |key: &TlsPsk| {
            let identity = key.identity();
            key.derivation().to_string() == words[4]
                && identity.version() == version
                && identity.suite == psk.usual_suite()
        };
        Recorded { stream: bytes(words[6]), place: keys.iter().position(is_it).unwrap(), keys }
    };
    HELLOS.lines().map(read).collect()
}

fn hello(stream: &[u8]) -> ClientHello {
    match FirstBytes::of(stream) {
        Ok(FirstBytes::Hello(hello)) => *hello,
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_all_keys_the_one_that_a_library_used_is_found() {
    for Recorded { stream, keys, place } in recorded() {
        let hello = hello(&stream);
        assert_eq!(hello.choose(&keys), Ok(place));
        assert_eq!(hello.identities().count(), 1);
        assert!(hello.has_version() && hello.has_dhe() == Some(true));
        let mut others = keys.clone();
        let key = others.remove(place);
        let identity = key.identity().to_string();
        let is_known = others.iter().any(|other| other.identity() == key.identity());
        let refused = hello.choose(&others).unwrap_err();
        let expected = if is_known { ChoiceError::Binder(identity) } else { ChoiceError::Identity(identity) };
        assert_eq!(refused, expected);
        assert_eq!(hello.choose::<TlsPsk>(&[]).unwrap_err().alert(), Alert::UNKNOWN_PSK_IDENTITY);
    }
}

/// RFC 8448, section 4. Its key comes from an earlier handshake, so its label is another one.
#[test]
fn a_binder_is_made_as_the_rfc_shows() {
    let key = bytes("4ecd0eb6ec3b4d87f5d6028f922ca4c5851a277fd41311c9e62d2c9492e1c4f3");
    let transcript = bytes("63224b2e4573f2d3454ca84b9d009a04f6be9e05711a8396473aefa01e924a14");
    let binder = bytes("3add4fb2d8fdf822a0ca3cf7678ef5e88dae990141c5924d57bb6fa31b9e5f9d");
    assert!(is_made_by(Hash::Sha256, &key, &transcript, &binder, "res binder"));
    assert!(!is_made_by(Hash::Sha256, &key, &transcript, &binder, "ext binder"));
    let early = Hash::Sha256.extract(&key);
    assert_eq!(hex(&early), "9b2188e9b2fc6d64d71dc329900e20bb41915000f678aa839cbb797cb7d8332c");
}

#[test]
fn the_first_byte_tells_tls_from_a_stream_in_clear() {
    assert_eq!(FirstBytes::of(&[]), Ok(FirstBytes::Incomplete));
    // An ICReq.
    assert_eq!(FirstBytes::of(&[0, 0, 128, 0, 128, 0, 0, 0]), Ok(FirstBytes::InClear));
    assert_eq!(FirstBytes::of(b"GET / HTTP/1.1"), Ok(FirstBytes::InClear));
    assert_eq!(FirstBytes::of(&[0x16]), Ok(FirstBytes::Incomplete));
    assert_eq!(FirstBytes::of(&[0x16, 2]), Err(HelloError::NotAHello));
    assert_eq!(FirstBytes::of(&[0x16, 3, 1, 0, 0]), Err(HelloError::NotAHello));
    assert_eq!(FirstBytes::of(&[0x16, 3, 1, 0, 4, 2, 0, 0, 0]), Err(HelloError::NotAHello));
    assert_eq!(FirstBytes::of(&[0x16, 3, 1, 0x40, 1]), Err(HelloError::TooLong));
    assert_eq!(FirstBytes::of(&[0x16, 3, 1, 0, 4, 1, 0, 0x20, 0]), Err(HelloError::TooLong));
}

/// The same hello in records of these lengths, and one of the rest.
fn split(stream: &[u8], lengths: &[usize]) -> Vec<u8> {
    let (header, mut message) = (&stream[..3], &stream[5..]);
    let mut records = Vec::new();
    for length in lengths.iter().copied().chain([usize::MAX]) {
        let (part, rest) = message.split_at(length.min(message.len()));
        records.extend_from_slice(header);
        records.extend_from_slice(&(part.len() as u16).to_be_bytes());
        records.extend_from_slice(part);
        message = rest;
    }
    records
}

#[test]
fn a_hello_may_come_in_pieces() {
    for Recorded { stream, keys, place } in recorded() {
        for end in 0..stream.len() {
            assert_eq!(FirstBytes::of(&stream[..end]), Ok(FirstBytes::Incomplete), "{end}");
        }
        let pieces = split(&stream, &[1, 2, 100]);
        for end in 0..pieces.len() {
            assert_eq!(FirstBytes::of(&pieces[..end]), Ok(FirstBytes::Incomplete), "{end}");
        }
        assert_eq!(hello(&pieces).choose(&keys), Ok(place));
        assert_eq!(FirstBytes::of(&split(&stream, &[1, 1, 1, 1])), Err(HelloError::TooLong));
        let mut torn = split(&stream, &[10]);
        torn[15] = 23;
        assert_eq!(FirstBytes::of(&torn), Err(HelloError::NotAHello));
    }
}

/// A number and what follows.
type Extension<'a> = (u16, &'a [u8]);

/// A hello of these parts.
fn made(suites: &[u16], extensions: &[Extension<'_>]) -> Vec<u8> {
    let counted = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let suites: Vec<u8> = suites.iter().flat_map(|id| id.to_be_bytes()).collect();
    let extensions: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, body)| [&kind.to_be_bytes()[..], &counted(body)].concat())
        .collect();
    let body = [&[3, 3][..], &[7; 32], &[0], &counted(&suites), &[1, 0], &counted(&extensions)].concat();
    let message = [&[1, 0][..], &counted(&body)].concat();
    [&[0x16, 3, 1][..], &counted(&message)].concat()
}

/// The extension of one identity, `a`, with a binder of zeros.
fn offer() -> Vec<u8> {
    [&[0, 7, 0, 1, b'a', 0, 0, 0, 0, 0, 33, 32][..], &[0; 32]].concat()
}

const VERSIONS: Extension<'_> = (43, &[2, 3, 4]);
const MODES: Extension<'_> = (45, &[1, 1]);

#[test]
fn a_host_that_asks_for_what_nvme_lacks_gets_the_right_alert() {
    let offer = offer();
    let psk = (41, &offer[..]);
    let cases: [(&[Extension<'_>], ChoiceError, Alert); 7] = [
        (&[], ChoiceError::Version, Alert::PROTOCOL_VERSION),
        (&[(43, &[2, 3, 3]), MODES, psk], ChoiceError::Version, Alert::PROTOCOL_VERSION),
        (&[VERSIONS], ChoiceError::NoPsk, Alert::HANDSHAKE_FAILURE),
        (&[VERSIONS, MODES], ChoiceError::NoPsk, Alert::HANDSHAKE_FAILURE),
        (&[VERSIONS, psk], ChoiceError::NoModes, Alert::MISSING_EXTENSION),
        (&[VERSIONS, (45, &[1, 0]), psk], ChoiceError::NoDhe, Alert::HANDSHAKE_FAILURE),
        (&[VERSIONS, MODES, psk], ChoiceError::Identity("a".to_owned()), Alert::UNKNOWN_PSK_IDENTITY),
    ];
    for (extensions, error, alert) in cases {
        assert_eq!(error.alert(), alert);
        assert_eq!(hello(&made(&[0x1301], extensions)).choose(&recorded()[0].keys), Err(error));
    }
    // Its suite is not the one of its key.
    let Recorded { mut stream, keys, place } = recorded().swap_remove(0);
    let at = stream.windows(2).position(|id| id == [0x13, 1]).unwrap();
    stream[at + 1] = 3;
    let refused = hello(&stream).choose(&keys).unwrap_err();
    let identity = keys[place].identity().to_string();
    assert_eq!(refused, ChoiceError::Suite(identity, Suite::Aes128Gcm));
}

#[test]
fn a_host_that_proves_its_key_with_another_suites_hash_function_is_not_said_to_have_another_key() {
    let Recorded { keys, place, .. } = recorded().swap_remove(2);
    let key = &keys[place];
    assert_eq!(key.suite(), Suite::Aes256Gcm);
    let identity = key.identity().to_string();
    for (length, error) in [
        (32, ChoiceError::BinderHash(identity.clone(), Suite::Aes256Gcm)),
        (48, ChoiceError::Binder(identity.clone())),
    ] {
        let name = identity.as_bytes();
        let offer = [
            &(name.len() as u16 + 6).to_be_bytes()[..],
            &(name.len() as u16).to_be_bytes(),
            name,
            &[0; 4],
            &(length as u16 + 1).to_be_bytes(),
            &[length],
            &vec![0; length.into()],
        ];
        let hello = hello(&made(&[0x1302], &[VERSIONS, MODES, (41, &offer.concat())]));
        let refused = hello.choose(&keys).unwrap_err();
        assert_eq!(refused, error);
        assert_eq!(refused.alert(), Alert::DECRYPT_ERROR);
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let offer = offer();
    let field = HelloError::Field;
    let changed = |at: usize, byte: u8| {
        let mut offer = offer.clone();
        offer[at] = byte;
        offer
    };
    let more = [&offer[..], &[0]].concat();
    let cases: [(Vec<u8>, HelloError); 8] = [
        (changed(1, 0), HelloError::CutOff),
        (changed(1, 8), HelloError::CutOff),
        (changed(3, 0), field("PSK identity")),
        (changed(10, 34), HelloError::CutOff),
        (changed(11, 31), field("binder")),
        (changed(11, 33), HelloError::CutOff),
        (more, HelloError::CutOff),
        (
            [&[0, 14, 0, 1, b'a', 0, 0, 0, 0, 0, 1, b'b', 0, 0, 0, 0, 0, 33, 32][..], &[0; 32]].concat(),
            field("number of binders"),
        ),
    ];
    for (offer, error) in cases {
        assert_eq!(FirstBytes::of(&made(&[0x1301], &[VERSIONS, (41, &offer)])), Err(error), "{offer:?}");
    }
    let last = field("pre_shared_key: it is not the last");
    assert_eq!(FirstBytes::of(&made(&[0x1301], &[(41, &offer), VERSIONS])), Err(last));
    assert_eq!(last.alert(), Alert::ILLEGAL_PARAMETER);
    let twice = field("extension: it comes twice");
    assert_eq!(FirstBytes::of(&made(&[0x1301], &[VERSIONS, VERSIONS])), Err(twice));
    assert_eq!(FirstBytes::of(&made(&[], &[VERSIONS])), Err(HelloError::CutOff));
    assert_eq!(FirstBytes::of(&made(&[0x1301], &[(43, &[0])])), Err(HelloError::CutOff));
    assert_eq!(FirstBytes::of(&made(&[0x1301], &[(45, &[2, 1])])), Err(HelloError::CutOff));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_changed_hello_is_taken_for_one_of_a_known_host(which in 0..3_usize, at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let Recorded { mut stream, keys, .. } = recorded().swap_remove(which);
        // The header of the record is not signed.
        let at = 5 + at.index(stream.len() - 5);
        stream[at] ^= 1 << bit;
        if let Ok(FirstBytes::Hello(hello)) = FirstBytes::of(&stream) {
            let chosen = hello.choose(&keys);
            prop_assert!(chosen.is_err(), "byte {} is not signed: {:?}", at, chosen);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let stream = [&[0x16, 3, 1, 0, bytes.len() as u8, 1, 0, 0, bytes.len().saturating_sub(4) as u8][..], &bytes].concat();
        let _ = FirstBytes::of(&stream);
    }
}
