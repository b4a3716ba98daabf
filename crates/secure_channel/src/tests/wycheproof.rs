//! Vectors of the project Wycheproof: AES-GCM as records use it, and HKDF.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};

use super::bytes;
use crate::record::TAG_BYTES;
use crate::traffic_secret::cipher_key;
use crate::{Hash, Suite};

const AES_GCM: &str = include_str!("wycheproof_aes_gcm.txt");
const HKDF: &str = include_str!("wycheproof_hkdf.txt");

fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

fn nonce(text: &str) -> Nonce {
    Nonce::try_assume_unique_for_key(&bytes(text)).unwrap()
}

/// Seals `message` in both ways of a sealer.
fn seal(key: &LessSafeKey, nonce_text: &str, data: &[u8], message: &[u8]) -> [(Vec<u8>, Vec<u8>); 2] {
    let (mut in_place, mut tag) = (message.to_vec(), vec![0; TAG_BYTES]);
    key.seal_in_place_scatter(nonce(nonce_text), Aad::from(data), &mut in_place, &[], &mut tag).unwrap();
    // The last byte takes the place of a record's content type.
    let (front, last) = message.split_at(message.len().saturating_sub(1));
    let (mut sealed, mut rest) = (vec![0; front.len()], vec![0; last.len() + TAG_BYTES]);
    let aad = Aad::from(data);
    key.seal_out_of_place_scatter(nonce(nonce_text), aad, front, &mut sealed, last, &mut rest).unwrap();
    sealed.extend_from_slice(&rest[..last.len()]);
    [(in_place, tag), (sealed, rest.split_off(last.len()))]
}

#[test]
fn records_are_sealed_and_opened_as_wycheproof_expects() {
    let mut counts = [0; 2];
    for line in lines(AES_GCM) {
        let [number, result, key, iv, data, message, ciphertext, tag] = line[..] else { panic!("{line:?}") };
        let (key, data, message) = (bytes(key), bytes(data), bytes(message));
        let (ciphertext, tag) = (bytes(ciphertext), bytes(tag));
        let suite = Suite::ALL.into_iter().find(|suite| suite.key_bytes() == key.len()).unwrap();
        let key = cipher_key(suite, &key);
        let mut opened = ciphertext.clone();
        let open = key.open_in_place_separate_tag(nonce(iv), Aad::from(&data), &tag, &mut opened);
        let is_valid = result == "valid";
        assert_eq!(open.is_ok(), is_valid, "vector {number}");
        counts[usize::from(is_valid)] += 1;
        if is_valid {
            assert_eq!(opened, message, "vector {number}");
            for sealed in seal(&key, iv, &data, &message) {
                assert_eq!(sealed, (ciphertext.clone(), tag.clone()), "vector {number}");
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 10), "{counts:?} invalid and valid vectors");
}

#[test]
fn keys_are_derived_as_wycheproof_expects() {
    let mut count = 0;
    for line in lines(HKDF) {
        let [hash, number, result, key, salt, info, length, output] = line[..] else { panic!("{line:?}") };
        let hash = Hash::ALL.into_iter().find(|each| each.name() == hash).unwrap();
        let length: usize = length.parse().unwrap();
        let extracted = hash.hmac(&bytes(salt), &[&bytes(key)]);
        let expanded = hash.expand(&extracted, &[&bytes(info)], length);
        if result == "valid" {
            assert_eq!(*expanded, bytes(output), "vector {number} of {}", hash.name());
        } else {
            // More than 255 blocks cannot be expanded.
            assert!(expanded.len() < length, "vector {number} of {}", hash.name());
        }
        count += 1;
    }
    assert!(count > 100, "{count} vectors");
}
