//! Diffie-Hellman in the finite fields of RFC 7919. The primes follow from the digits of e by the formula of its
//! appendix A, so that none of them stands here.

use std::sync::LazyLock;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::Zeroizing;

use crate::{Entropy, Group};

/// A field: its prime, and how large exponents are.
pub(crate) struct Field {
    bits: u32,
    exponent_bits: u32,
    params: BoxedMontyParams,
}

/// The field of a group, if it has one. Each is computed when it is first used, in some milliseconds.
pub(crate) fn field(group: Group) -> Option<&'static Field> {
    // Exponents have at least twice the group's strength in bits (RFC 7919 5.2), in whole words.
    static FFDHE2048: LazyLock<Field> = LazyLock::new(|| Field::new(2048, 560_316, 256));
    static FFDHE3072: LazyLock<Field> = LazyLock::new(|| Field::new(3072, 2_625_351, 320));
    static FFDHE4096: LazyLock<Field> = LazyLock::new(|| Field::new(4096, 5_736_041, 384));
    static FFDHE6144: LazyLock<Field> = LazyLock::new(|| Field::new(6144, 15_705_020, 384));
    static FFDHE8192: LazyLock<Field> = LazyLock::new(|| Field::new(8192, 10_965_728, 448));
    match group {
        Group::Ffdhe2048 => Some(&FFDHE2048),
        Group::Ffdhe3072 => Some(&FFDHE3072),
        Group::Ffdhe4096 => Some(&FFDHE4096),
        Group::Ffdhe6144 => Some(&FFDHE6144),
        Group::Ffdhe8192 => Some(&FFDHE8192),
        _ => None,
    }
}

/// p = 2^b - 2^(b-64) + (floor(2^(b-130) e) + x) 2^64 - 1, as words, the lowest first.
fn prime(bits: usize, x: u64) -> Vec<u64> {
    let words = bits / 64;
    // e and its terms with that number of bits behind the point, and one word before it.
    let (mut e, mut term) = (vec![0; words + 1], vec![0; words + 1]);
    term[words] = 1;
    for divisor in 1.. {
        add(&mut e, &term);
        if divide(&mut term, divisor) {
            break;
        }
    }
    // 130 bits are two words and two bits.
    let shifted = |at: usize| e[at] >> 2 | e.get(at + 1).map_or(0, |next| next << 62);
    let mut middle: Vec<u64> = (2..words).map(shifted).collect();
    add(&mut middle, &[x - 1]);
    let mut prime = vec![u64::MAX; words];
    prime[1..words - 1].copy_from_slice(&middle);
    prime
}

fn add(sum: &mut [u64], other: &[u64]) {
    let mut carry = false;
    for (at, word) in sum.iter_mut().enumerate() {
        let (one, first) = word.overflowing_add(other.get(at).copied().unwrap_or(0));
        let (both, second) = one.overflowing_add(u64::from(carry));
        (*word, carry) = (both, first || second);
    }
}

/// Divides; whether nothing is left.
fn divide(number: &mut [u64], divisor: u64) -> bool {
    let mut rest = 0;
    for word in number.iter_mut().rev() {
        let dividend = u128::from(rest) << 64 | u128::from(*word);
        *word = (dividend / u128::from(divisor)) as u64;
        rest = (dividend % u128::from(divisor)) as u64;
    }
    number.iter().all(|word| *word == 0)
}

impl Field {
    fn new(bits: u32, x: u64, exponent_bits: u32) -> Self {
        let bytes: Vec<u8> =
            prime(bits as usize, x).iter().rev().flat_map(|word| word.to_be_bytes()).collect();
        let prime = BoxedUint::from_be_slice_truncated(&bytes, bits);
        // Its last word is all ones.
        #[allow(clippy::expect_used, reason = "the formula ends in - 1")]
        let prime = Odd::new(prime).into_option().expect("the prime is odd");
        Self { bits, exponent_bits, params: BoxedMontyParams::new(prime) }
    }

    /// A random exponent.
    pub(crate) fn exponent(&self, entropy: Entropy<'_>) -> Zeroizing<BoxedUint> {
        let mut bytes = Zeroizing::new(vec![0; self.exponent_bits as usize / 8]);
        entropy(&mut bytes);
        // One of full length, so that the time of using it says nothing.
        bytes[0] |= 0x80;
        Zeroizing::new(BoxedUint::from_be_slice_truncated(&bytes, self.exponent_bits))
    }

    /// 2 to this exponent.
    pub(crate) fn public(&self, exponent: &BoxedUint) -> Vec<u8> {
        let two = BoxedUint::from_be_slice_truncated(&[2], self.bits);
        self.power(two, exponent)
    }

    /// Shared secret, with leading zeroes. `None` if the other's value is not of the group.
    pub(crate) fn shared(&self, exponent: &BoxedUint, other: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let bytes = self.bits as usize / 8;
        if other.len() != bytes {
            return None;
        }
        let other = BoxedUint::from_be_slice_truncated(other, self.bits);
        // 1 and p - 1 make a secret that everybody knows (RFC 7919 5.1).
        let one = BoxedUint::from_be_slice_truncated(&[1], self.bits);
        let prime: &BoxedUint = self.params.modulus().as_ref();
        let last = prime.wrapping_sub(&one);
        (other > one && other < last).then(|| Zeroizing::new(self.power(other, exponent)))
    }

    fn power(&self, base: BoxedUint, exponent: &BoxedUint) -> Vec<u8> {
        let base = BoxedMontyForm::new(base, &self.params);
        base.pow_bounded_exp(exponent, self.exponent_bits).retrieve().to_be_bytes().into_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hash;

    /// First and last words as RFC 7919 prints them, and the hash of the whole, which Python's integers made by the same
    /// formula, and found prime with (p - 1) / 2 by 40 rounds of Miller and Rabin.
    #[test]
    fn the_primes_are_those_of_the_specification() {
        let known = [
            (Group::Ffdhe2048, 0x886b_4238_6128_5c97_u64),
            (Group::Ffdhe3072, 0x25e4_1d2b_66c6_2e37),
            (Group::Ffdhe4096, 0xc68a_007e_5e65_5f6a),
            (Group::Ffdhe6144, 0xa40e_329c_d0e4_0e65),
            (Group::Ffdhe8192, 0xd68c_8bb7_c5c6_424c),
        ];
        let mut hashes = Vec::new();
        for (group, last) in known {
            let prime: &BoxedUint = field(group).unwrap().params.modulus().as_ref();
            let bytes = prime.to_be_bytes();
            assert_eq!(bytes[..16], 0xffff_ffff_ffff_ffff_adf8_5458_a2bb_4a9a_u128.to_be_bytes(), "{group}");
            let end = (u128::from(last) << 64 | u128::from(u64::MAX)).to_be_bytes();
            assert_eq!(bytes[bytes.len() - 16..], end, "{group}");
            hashes.extend(Hash::Sha256.digest(&bytes));
        }
        let all: String = Hash::Sha256.digest(&hashes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(all, "8674ad339ecc0d7de74330c5e03a22e69326f9be4e3654b8cb9f846e272b1a15");
    }

    #[test]
    fn values_that_give_a_known_secret_are_refused() {
        let field = field(Group::Ffdhe2048).unwrap();
        let exponent = field.exponent(&mut |bytes| bytes.fill(7));
        let prime: &BoxedUint = field.params.modulus().as_ref();
        let one = BoxedUint::from_be_slice_truncated(&[1], field.bits);
        let last = prime.wrapping_sub(&one);
        for wrong in [&one, &last, prime, &prime.wrapping_sub(prime), &prime.wrapping_add(&one)] {
            assert!(field.shared(&exponent, &wrong.to_be_bytes()).is_none(), "{wrong}");
        }
        let good = last.wrapping_sub(&one).to_be_bytes();
        assert!(field.shared(&exponent, &good).is_some());
        assert!(field.shared(&exponent, &good[1..]).is_none(), "a value without its leading zeroes");
    }
}
