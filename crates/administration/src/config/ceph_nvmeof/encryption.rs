//! How gateways of ceph-nvmeof encrypt secrets: Fernet (AES-128-CBC, then HMAC-SHA256), with a key made of the first 32 bytes of a
//! private key's DER, whatever those are.

use std::fmt;

use aws_lc_rs::cipher::{AES_128, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use zeroize::Zeroizing;

/// Bytes that a file of a key may have: one of RSA with 16,384 bits has 12,500.
pub const KEY_FILE_BYTES_MAX: u64 = 64 << 10;
/// Half of the key's bytes are for the HMAC, the other half for AES.
const HALF: usize = 16;
/// Bytes of a token around what is encrypted: its version and time before the initialization vector, and an HMAC at the end.
const VERSION: u8 = 0x80;
const HEAD: usize = 9;
const VECTOR: usize = 16;
const TAG: usize = 32;
const BLOCK: usize = 16;

/// Key of a group's encrypted secrets.
pub struct EncryptionKey(Zeroizing<[u8; 2 * HALF]>);

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey")
    }
}

impl EncryptionKey {
    /// Reads the private key, in PEM. Early versions took it without its first and last line.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let bytes = secure_channel::key_file(text)?;
        let first = bytes.first_chunk().ok_or("its key is too short: less than 32 bytes")?;
        Ok(Self(Zeroizing::new(*first)))
    }

    /// Decrypts a text. The error names the damage.
    pub(super) fn decrypt(&self, text: &str) -> Result<Zeroizing<String>, &'static str> {
        let damaged = "its encrypted form is damaged";
        let token = STANDARD.decode(text.trim()).map_err(|_| damaged)?;
        let token = Zeroizing::new(URL_SAFE.decode(token).map_err(|_| damaged)?);
        let inside = token.len().checked_sub(HEAD + VECTOR + TAG).filter(|length| *length > 0);
        if inside.is_none_or(|length| !length.is_multiple_of(BLOCK)) || token[0] != VERSION {
            return Err(damaged);
        }
        let (signing, encryption) = self.0.split_at(HALF);
        let (signed, tag) = token.split_at(token.len() - TAG);
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, signing), signed, tag)
            .map_err(|_| "it was not encrypted with this --encryption-key, or has been changed")?;
        let vector: [u8; VECTOR] = signed[HEAD..HEAD + VECTOR].try_into().map_err(|_| damaged)?;
        let mut bytes = Zeroizing::new(signed[HEAD + VECTOR..].to_vec());
        let key = UnboundCipherKey::new(&AES_128, encryption)
            .and_then(PaddedBlockDecryptingKey::cbc_pkcs7)
            .map_err(|_| damaged)?;
        let context = DecryptionContext::Iv128(vector.into());
        let plain = key.decrypt(&mut bytes, context).map_err(|_| damaged)?;
        let plain = Zeroizing::new(plain.to_vec());
        std::str::from_utf8(&plain).map(|text| Zeroizing::new(text.to_owned())).map_err(|_| damaged)
    }
}
