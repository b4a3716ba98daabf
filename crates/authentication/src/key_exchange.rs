//! Key exchanges, after which two sides share a key that an eavesdropper does not learn: in a
//! finite field, on an elliptic curve, by a key that one encapsulates for the other, or by two of
//! these together. The controller opens, and the host answers.

use crypto_bigint::BoxedUint;
use ml_kem::kem::{Decapsulate, FromSeed, KeyExport};
use ml_kem::{B32, Ciphertext, MlKem768, MlKem1024, Seed};
use p256::NistP256;
use p256::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use p256::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytesSize, PublicKey, SecretKey};
use p384::NistP384;
use zeroize::Zeroizing;

use crate::{Entropy, Group, ffdhe};

/// Secret that both sides share at the end.
pub(crate) type Shared = Zeroizing<Vec<u8>>;

/// State of the controller between its half and the host's.
pub(crate) struct Opening {
    private: Private,
    /// Key exchange value of the controller (KXc).
    pub(crate) value: Vec<u8>,
}

enum Private {
    Null,
    Field(Group, Zeroizing<BoxedUint>),
    Curve256(Box<SecretKey<NistP256>>),
    Curve384(Box<SecretKey<NistP384>>),
    Lattice768(Box<ml_kem::ml_kem_768::DecapsulationKey>),
    Lattice1024(Box<ml_kem::ml_kem_1024::DecapsulationKey>),
    /// Of a value whose first part has this number of bytes.
    Both(usize, Box<(Private, Private)>),
}

/// Bytes of a point on the curves.
const POINT_256: usize = 65;
const POINT_384: usize = 97;

impl Opening {
    /// The controller's half.
    pub(crate) fn new(group: Group, entropy: Entropy<'_>) -> Self {
        let (private, value) = match group {
            Group::Null => (Private::Null, Vec::new()),
            Group::Secp256r1 => {
                let key = scalar::<NistP256>(entropy);
                let value = point(&key.public_key());
                (Private::Curve256(Box::new(key)), value)
            }
            Group::Secp384r1 => {
                let key = scalar::<NistP384>(entropy);
                let value = point(&key.public_key());
                (Private::Curve384(Box::new(key)), value)
            }
            Group::MlKem768 => {
                let (key, public) = MlKem768::from_seed(&seed(entropy));
                (Private::Lattice768(Box::new(key)), public.to_bytes().to_vec())
            }
            Group::MlKem1024 => {
                let (key, public) = MlKem1024::from_seed(&seed(entropy));
                (Private::Lattice1024(Box::new(key)), public.to_bytes().to_vec())
            }
            Group::Secp256r1MlKem768 => Self::both(Group::Secp256r1, Group::MlKem768, entropy),
            Group::Secp384r1MlKem1024 => Self::both(Group::Secp384r1, Group::MlKem1024, entropy),
            Group::Ffdhe2048 | Group::Ffdhe3072 | Group::Ffdhe4096 | Group::Ffdhe6144 | Group::Ffdhe8192 => {
                let exponent = ffdhe::field(group).map(|field| {
                    let exponent = field.exponent(entropy);
                    let value = field.public(&exponent);
                    (Private::Field(group, exponent), value)
                });
                exponent.unwrap_or((Private::Null, Vec::new()))
            }
        };
        Self { private, value }
    }

    fn both(curve: Group, lattice: Group, entropy: Entropy<'_>) -> (Private, Vec<u8>) {
        let (curve, lattice) = (Self::new(curve, entropy), Self::new(lattice, entropy));
        let length = curve.value.len();
        let value = [curve.value, lattice.value].concat();
        (Private::Both(length, Box::new((curve.private, lattice.private))), value)
    }

    /// Shared secret with a host that sends this answer. `None` if the answer is not of the group.
    pub(crate) fn conclude(&self, answer: &[u8]) -> Option<Shared> {
        self.private.conclude(answer)
    }
}

impl Private {
    fn conclude(&self, answer: &[u8]) -> Option<Shared> {
        match self {
            Self::Null => answer.is_empty().then(Shared::default),
            Self::Field(group, exponent) => ffdhe::field(*group)?.shared(exponent, answer),
            Self::Curve256(key) => on_curve(key, answer, POINT_256),
            Self::Curve384(key) => on_curve(key, answer, POINT_384),
            Self::Lattice768(key) => {
                let cipher: &Ciphertext<MlKem768> = answer.try_into().ok()?;
                Some(Zeroizing::new(key.decapsulate(cipher).to_vec()))
            }
            Self::Lattice1024(key) => {
                let cipher: &Ciphertext<MlKem1024> = answer.try_into().ok()?;
                Some(Zeroizing::new(key.decapsulate(cipher).to_vec()))
            }
            Self::Both(length, both) => {
                let (curve, lattice) = answer.split_at_checked(*length)?;
                let (first, second) = (both.0.conclude(curve)?, both.1.conclude(lattice)?);
                Some(Zeroizing::new([&first[..], &second[..]].concat()))
            }
        }
    }
}

/// The host's half (KXh), and what it has in common with the controller: `None` where the group does not have
/// the controller's.
pub(crate) fn answer(group: Group, opening: &[u8], entropy: Entropy<'_>) -> Option<(Vec<u8>, Shared)> {
    match group {
        Group::Null => opening.is_empty().then(Default::default),
        Group::Secp256r1 => answer_on_curve::<NistP256>(opening, POINT_256, entropy),
        Group::Secp384r1 => answer_on_curve::<NistP384>(opening, POINT_384, entropy),
        Group::MlKem768 => {
            let public = ml_kem::ml_kem_768::EncapsulationKey::new(opening.try_into().ok()?).ok()?;
            let (cipher, shared) = public.encapsulate_deterministic(&random_32(entropy));
            Some((cipher.to_vec(), Zeroizing::new(shared.to_vec())))
        }
        Group::MlKem1024 => {
            let public = ml_kem::ml_kem_1024::EncapsulationKey::new(opening.try_into().ok()?).ok()?;
            let (cipher, shared) = public.encapsulate_deterministic(&random_32(entropy));
            Some((cipher.to_vec(), Zeroizing::new(shared.to_vec())))
        }
        Group::Secp256r1MlKem768 => {
            answer_both((Group::Secp256r1, POINT_256), Group::MlKem768, opening, entropy)
        }
        Group::Secp384r1MlKem1024 => {
            answer_both((Group::Secp384r1, POINT_384), Group::MlKem1024, opening, entropy)
        }
        Group::Ffdhe2048 | Group::Ffdhe3072 | Group::Ffdhe4096 | Group::Ffdhe6144 | Group::Ffdhe8192 => {
            let field = ffdhe::field(group)?;
            let exponent = field.exponent(entropy);
            let shared = field.shared(&exponent, opening)?;
            Some((field.public(&exponent), shared))
        }
    }
}

/// The point first, and what they give in the same order, as TLS has it.
fn answer_both(
    (curve, length): (Group, usize),
    lattice: Group,
    opening: &[u8],
    entropy: Entropy<'_>,
) -> Option<(Vec<u8>, Shared)> {
    let (for_curve, for_lattice) = opening.split_at_checked(length)?;
    let (point, first) = answer(curve, for_curve, entropy)?;
    let (cipher, second) = answer(lattice, for_lattice, entropy)?;
    Some(([point, cipher].concat(), Zeroizing::new([&first[..], &second[..]].concat())))
}

fn answer_on_curve<C>(opening: &[u8], length: usize, entropy: Entropy<'_>) -> Option<(Vec<u8>, Shared)>
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let key = scalar::<C>(entropy);
    let shared = on_curve(&key, opening, length)?;
    Some((point(&key.public_key()), shared))
}

fn on_curve<C>(key: &SecretKey<C>, other: &[u8], length: usize) -> Option<Shared>
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    // Compressed points are others' business: TLS has none either.
    if other.len() != length {
        return None;
    }
    let other = PublicKey::<C>::from_sec1_bytes(other).ok()?;
    Some(Zeroizing::new(key.diffie_hellman(&other).raw_secret_bytes().to_vec()))
}

fn point<C>(key: &PublicKey<C>) -> Vec<u8>
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    key.to_sec1_point(false).as_bytes().to_vec()
}

/// A random number below the curve's order. The first try fails once in 2^32 times.
fn scalar<C: CurveArithmetic>(entropy: Entropy<'_>) -> SecretKey<C> {
    loop {
        let mut bytes = p256::elliptic_curve::FieldBytes::<C>::default();
        entropy(&mut bytes);
        if let Ok(key) = SecretKey::from_bytes(&bytes) {
            return key;
        }
    }
}

fn seed(entropy: Entropy<'_>) -> Seed {
    let mut seed = Seed::default();
    entropy(&mut seed);
    seed
}

fn random_32(entropy: Entropy<'_>) -> B32 {
    let mut bytes = B32::default();
    entropy(&mut bytes);
    bytes
}
