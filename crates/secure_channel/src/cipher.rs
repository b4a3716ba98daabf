//! AES-GCM, by aws-lc. A build without the feature `ciphers` has its names alone: no key can be made there, so that no secret of
//! a channel comes about, and nothing is sealed or opened.

#[cfg(not(feature = "ciphers"))]
pub(crate) use absent::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
#[cfg(feature = "ciphers")]
pub(crate) use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// True if keys can be made.
pub(crate) const ARE_HERE: bool = cfg!(feature = "ciphers");

#[cfg(not(feature = "ciphers"))]
mod absent {
    use crate::nonces::NONCE_BYTES;

    /// Failure to make a key or a nonce.
    #[derive(Debug)]
    pub(crate) struct Absent;

    type Done = Result<(), Absent>;

    pub(crate) struct Algorithm;
    pub(crate) static AES_128_GCM: Algorithm = Algorithm;
    pub(crate) static AES_256_GCM: Algorithm = Algorithm;

    /// Key that cannot be made.
    pub(crate) enum UnboundKey {}

    impl UnboundKey {
        pub(crate) fn new(_algorithm: &Algorithm, _bytes: &[u8]) -> Result<Self, Absent> {
            Err(Absent)
        }
    }

    pub(crate) struct Nonce;

    impl Nonce {
        pub(crate) fn assume_unique_for_key(_bytes: [u8; NONCE_BYTES]) -> Self {
            Self
        }

        pub(crate) fn try_assume_unique_for_key(_bytes: &[u8]) -> Result<Self, Absent> {
            Err(Absent)
        }
    }

    pub(crate) struct Aad;

    impl Aad {
        pub(crate) fn from<T>(_associated: T) -> Self {
            Self
        }
    }

    pub(crate) enum LessSafeKey {}

    impl LessSafeKey {
        pub(crate) fn new(key: UnboundKey) -> Self {
            match key {}
        }

        pub(crate) fn seal_in_place_scatter(
            &self,
            _nonce: Nonce,
            _associated: Aad,
            _data: &mut [u8],
            _more: &[u8],
            _tag: &mut [u8],
        ) -> Done {
            match *self {}
        }

        pub(crate) fn seal_out_of_place_scatter(
            &self,
            _nonce: Nonce,
            _associated: Aad,
            _data: &[u8],
            _sealed: &mut [u8],
            _more: &[u8],
            _tag: &mut [u8],
        ) -> Done {
            match *self {}
        }

        pub(crate) fn open_in_place_separate_tag(
            &self,
            _nonce: Nonce,
            _associated: Aad,
            _tag: &[u8],
            _data: &mut [u8],
        ) -> Done {
            match *self {}
        }

        pub(crate) fn open_separate_gather(
            &self,
            _nonce: Nonce,
            _associated: Aad,
            _sealed: &[u8],
            _tag: &[u8],
            _place: &mut [u8],
        ) -> Done {
            match *self {}
        }

        pub(crate) fn seal_in_place_append_tag(
            &self,
            _nonce: Nonce,
            _associated: Aad,
            _data: &mut Vec<u8>,
        ) -> Done {
            match *self {}
        }

        pub(crate) fn open_in_place<'a>(
            &self,
            _nonce: Nonce,
            _associated: Aad,
            _data: &'a mut [u8],
        ) -> Result<&'a mut [u8], Absent> {
            match *self {}
        }
    }
}
