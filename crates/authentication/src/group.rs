//! The groups in which two sides exchange keys: what they are called, and how large their values are.

use std::fmt;
use std::str::FromStr;

/// A group (DHGID, KXGID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// None: who has listened knows what there is to guess the secret from.
    Null,
    /// Finite field of 2048 bits (RFC 7919).
    Ffdhe2048,
    /// Finite field of 3072 bits.
    Ffdhe3072,
    /// Finite field of 4096 bits.
    Ffdhe4096,
    /// Finite field of 6144 bits.
    Ffdhe6144,
    /// Finite field of 8192 bits.
    Ffdhe8192,
    /// Elliptic curve P-256 (TP4201, as the five below).
    Secp256r1,
    /// Elliptic curve P-384.
    Secp384r1,
    /// ML-KEM-768, which a quantum computer does not break (FIPS 203).
    MlKem768,
    /// ML-KEM-1024.
    MlKem1024,
    /// P-256 and ML-KEM-768 together.
    Secp256r1MlKem768,
    /// P-384 and ML-KEM-1024 together.
    Secp384r1MlKem1024,
}

impl Group {
    /// All of them, by their identifiers.
    pub const ALL: [Self; 12] = [
        Self::Null,
        Self::Ffdhe2048,
        Self::Ffdhe3072,
        Self::Ffdhe4096,
        Self::Ffdhe6144,
        Self::Ffdhe8192,
        Self::Secp256r1,
        Self::Secp384r1,
        Self::MlKem768,
        Self::MlKem1024,
        Self::Secp256r1MlKem768,
        Self::Secp384r1MlKem1024,
    ];

    /// Groups that a controller accepts without a list of its own, the preferred one first: safe from quantum computers and
    /// cheap, then cheap, then what every host knows. The null group comes last. `ffdhe6144` and `ffdhe8192` are left out: one
    /// challenge in them costs several times that of any other, which a stranger can ask for, and hosts that know them know a
    /// smaller one.
    pub const DEFAULT: [Self; 10] = [
        Self::Secp256r1MlKem768,
        Self::Secp384r1MlKem1024,
        Self::MlKem768,
        Self::MlKem1024,
        Self::Secp256r1,
        Self::Secp384r1,
        Self::Ffdhe3072,
        Self::Ffdhe2048,
        Self::Ffdhe4096,
        Self::Null,
    ];

    /// The one with this identifier.
    pub fn of(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.id() == id)
    }

    /// Identifier in messages.
    pub const fn id(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Ffdhe2048 => 1,
            Self::Ffdhe3072 => 2,
            Self::Ffdhe4096 => 3,
            Self::Ffdhe6144 => 4,
            Self::Ffdhe8192 => 5,
            Self::Secp256r1 => 0x10,
            Self::Secp384r1 => 0x11,
            Self::MlKem768 => 0x20,
            Self::MlKem1024 => 0x21,
            Self::Secp256r1MlKem768 => 0x30,
            Self::Secp384r1MlKem1024 => 0x31,
        }
    }

    /// Microseconds that half an exchange takes on one processor, about: what a queue of exchanges weighs them by.
    pub const fn cost_us(self) -> u64 {
        match self {
            Self::Null => 0,
            Self::MlKem768 => 100,
            Self::MlKem1024 => 150,
            Self::Secp256r1 => 300,
            Self::Ffdhe2048 | Self::Secp256r1MlKem768 => 400,
            Self::Secp384r1 => 900,
            Self::Ffdhe3072 | Self::Secp384r1MlKem1024 => 1_000,
            Self::Ffdhe4096 => 2_000,
            Self::Ffdhe6144 => 5_500,
            Self::Ffdhe8192 => 11_000,
        }
    }

    /// Name, as nvmet writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Ffdhe2048 => "ffdhe2048",
            Self::Ffdhe3072 => "ffdhe3072",
            Self::Ffdhe4096 => "ffdhe4096",
            Self::Ffdhe6144 => "ffdhe6144",
            Self::Ffdhe8192 => "ffdhe8192",
            Self::Secp256r1 => "secp256r1",
            Self::Secp384r1 => "secp384r1",
            Self::MlKem768 => "mlkem768",
            Self::MlKem1024 => "mlkem1024",
            Self::Secp256r1MlKem768 => "secp256r1mlkem768",
            Self::Secp384r1MlKem1024 => "secp384r1mlkem1024",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|group| group.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is not a group: there are {names}")
        })
    }
}
