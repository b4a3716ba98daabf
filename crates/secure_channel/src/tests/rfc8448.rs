//! RFC 8448, section 3: the secrets of a whole handshake.

use super::{bytes, hex};
use crate::Hash;

const MASTER_SECRET: &str = "18df06843d13a08bf2a449844c5f8a478001bc4d4c627984d5a41da8d0402919";
const TRANSCRIPT_HASH: &str = "9608102a0f1ccc6db6250b7b7e417b1a000eaada3daae4777a7686c9ff83df13";
const CLIENT_SECRET: &str = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
const SERVER_SECRET: &str = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";

#[test]
fn secrets_keys_and_nonces_are_derived_as_the_rfc_shows() {
    let hash = Hash::Sha256;
    let early = hash.extract(&[0; 32]);
    assert_eq!(hex(&early), "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a");
    for (label, secret, key, iv) in [
        ("c ap traffic", CLIENT_SECRET, "17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9"),
        ("s ap traffic", SERVER_SECRET, "9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984"),
    ] {
        let made = hash.expand_label(&bytes(MASTER_SECRET), label, &bytes(TRANSCRIPT_HASH), 32);
        assert_eq!(hex(&made), secret);
        assert_eq!(hex(&hash.expand_label(&made, "key", &[], 16)), key);
        assert_eq!(hex(&hash.expand_label(&made, "iv", &[], 12)), iv);
    }
}
