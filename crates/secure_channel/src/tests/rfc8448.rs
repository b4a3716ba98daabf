//! RFC 8448, section 3: the secrets of a whole handshake, and each record that was sealed behind it, in both directions.

use super::{bytes, hex};
use crate::record::OVERHEAD_BYTES;
use crate::{Alert, Hash, Opened, Opener, Peer, RecordLimit, Sealer, Suite, TrafficSecret};

const MASTER_SECRET: &str = "18df06843d13a08bf2a449844c5f8a478001bc4d4c627984d5a41da8d0402919";
const TRANSCRIPT_HASH: &str = "9608102a0f1ccc6db6250b7b7e417b1a000eaada3daae4777a7686c9ff83df13";
const CLIENT_SECRET: &str = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
const SERVER_SECRET: &str = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";

const CLIENT_DATA: &str = "1703030043 a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5
    b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4";
const CLIENT_CLOSE: &str = "1703030013 c9872760655666b74d7ff1153efd6db6d0b0e3";
const SERVER_TICKET: &str = "17030300de 3a6b8f90414a97d6959c3487680de5134a2b240e6cffac116e95d41d6af8f6b5
    80dcf3d11d63c758db289a015940252f55713e061dc13e078891a38efbcf5753ad8ef170ad3c7353d16d9da773b9ca7f
    2b9fa1b6c0d4a3d03f75e09c30ba1e62972ac46f75f7b981be63439b2999ce13064615139891d5e4c5b406f16e3fc181
    a77ca475840025db2f0a77f81b5ab05b94c01346755f69232c86519d86cbeeac87aac347d143f9605d64f650db4d023e
    70e952ca49fe5137121c74bc2697687e248746d6df353005f3bce18696129c8153556b3b6c6779b37bf15985684f";
const SERVER_DATA: &str = "1703030043 2e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d
    90e6dffc602dcb501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d";
const SERVER_CLOSE: &str = "1703030013 b58fd67166ebf599d24720cfbe7efa7a8864a9";

fn secret(text: &str) -> TrafficSecret {
    TrafficSecret::new(Suite::Aes128Gcm, &bytes(text)).unwrap()
}

fn data() -> Vec<u8> {
    (0..50).collect()
}

fn sealed(sealer: &mut Sealer) -> Vec<u8> {
    let mut record = vec![0; data().len() + OVERHEAD_BYTES];
    record[5..55].copy_from_slice(&data());
    sealer.seal(&mut record, data().len()).unwrap();
    record
}

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

#[test]
fn the_client_seals_the_records_of_the_rfc() {
    let mut sealer = Sealer::new(&secret(CLIENT_SECRET), RecordLimit::default());
    assert_eq!(hex(&sealed(&mut sealer)), hex(&bytes(CLIENT_DATA)));
    assert_eq!(hex(&sealer.alert(Alert::CLOSE_NOTIFY).unwrap()), hex(&bytes(CLIENT_CLOSE)));
}

#[test]
fn the_server_seals_the_records_of_the_rfc() {
    let mut sealer = Sealer::new(&secret(SERVER_SECRET), RecordLimit::default());
    // In place of the ticket, which has the first nonce.
    sealed(&mut sealer);
    let mut record = vec![0; data().len() + OVERHEAD_BYTES];
    sealer.seal_from(&data(), &mut record).unwrap();
    assert_eq!(hex(&record), hex(&bytes(SERVER_DATA)));
    assert_eq!(hex(&sealer.alert(Alert::CLOSE_NOTIFY).unwrap()), hex(&bytes(SERVER_CLOSE)));
}

#[test]
fn the_records_of_the_rfc_are_opened() {
    let client = (CLIENT_SECRET, Peer::Host, vec![CLIENT_DATA, CLIENT_CLOSE]);
    let server = (SERVER_SECRET, Peer::Controller, vec![SERVER_TICKET, SERVER_DATA, SERVER_CLOSE]);
    for (text, peer, records) in [client, server] {
        let mut opener = Opener::new(&secret(text), peer);
        for record in records {
            let mut stream = bytes(record);
            let record_bytes = stream.len();
            let expected = match record {
                SERVER_TICKET => Opened::Nothing { record_bytes },
                CLIENT_CLOSE | SERVER_CLOSE => Opened::Closed,
                _ => Opened::Data { record_bytes, data: 5..55 },
            };
            assert_eq!(opener.open(&mut stream), Ok(expected));
            assert!(stream.len() != 72 || stream[5..55] == data());
        }
    }
}
