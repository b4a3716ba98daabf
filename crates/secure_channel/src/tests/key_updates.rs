//! What s2n-tls 0.3.47 sent as a client in each suite: its traffic secret, as its key log gave it, and a stream of five times four
//! bytes of data, with a KeyUpdate before the third and before the fourth. RFC 8448 has no KeyUpdate.

use super::{bytes, hex};
use crate::{HEADER_BYTES, OVERHEAD_BYTES, Opened, Opener, Peer, RecordLimit, Sealer, Suite, TrafficSecret};

const AES_128: (&str, &str) = (
    "c3512be325fc68a41885f9bc92a110f2b1d68e30022a549c41bb2373368358e5",
    "1703030015473f2dc805586ecfb1ed02a641ea1b79e2e906bd5a
     17030300159c12609dbcd7b4024acf207dcda56e6ad4a8830757
     1703030016d40aec065307d4d17012c93d2bbd38c88dbc8f7d4675
     17030300158588c742d730bb31d625b3380d42911b17af40ff62
     1703030016a356e29fdf0b058c07370fc95f684e13b5dd13447c19
     17030300152f9879e9ac08657a799a7d1f9c1d2e3b751f74a5e3
     170303001589d9a6d14061c047816ee5ca498525bb67f2b62c26",
);
const AES_256: (&str, &str) = (
    "ba30dbd34461ed06d5cbc6c24ca77b70c23feee481e6b604370d46147070d7146d56311bd94098c1a226e546a24101e0",
    "17030300152a05c26d63cf83062524091180e17a345c2c756d1a
     170303001583864f744e5f3970cb358de0f3523948f758234096
     1703030016b1dd9e1633e654be27960b5b9cf41de729a11db0031e
     1703030015a05bec4f41dc4f18eef7c6c84b8ecb56818a64e15c
     17030300169f0812b161b875c8c74fb04667ff0d2a07121198f615
     17030300158ec08ddb406f6a306157609463781e3f9eb6b4d648
     17030300157afdd1a7ceabd0a8c14118f1cc10777a928951a40c",
);

#[test]
fn keys_change_as_those_of_another_library_do() {
    for (suite, (secret, stream)) in Suite::ALL.into_iter().zip([AES_128, AES_256]) {
        let secret = TrafficSecret::new(suite, &bytes(secret)).unwrap();
        let (mut opener, mut sealer) =
            (Opener::new(&secret, Peer::Host), Sealer::new(&secret, RecordLimit::default()));
        let mut waiting = bytes(stream);
        let (mut data, mut resealed) = (Vec::new(), Vec::new());
        while !waiting.is_empty() {
            let record_bytes = match opener.open(&mut waiting).unwrap() {
                Opened::Data { record_bytes, data: range } => {
                    let mut record = vec![0; range.len() + OVERHEAD_BYTES];
                    record[HEADER_BYTES..][..range.len()].copy_from_slice(&waiting[range.clone()]);
                    sealer.seal(&mut record, range.len()).unwrap();
                    resealed.extend(record);
                    data.extend_from_slice(&waiting[range]);
                    record_bytes
                }
                Opened::KeyUpdate { record_bytes, asks_back } => {
                    resealed.extend(sealer.update(asks_back).unwrap());
                    record_bytes
                }
                other => panic!("{other:?}"),
            };
            waiting.drain(..record_bytes);
            // Each record is opened and sealed by others than the one before.
            opener = Opener::going_on(&opener.state().unwrap(), Peer::Host);
            sealer = Sealer::going_on(&sealer.state().unwrap(), RecordLimit::default());
        }
        assert_eq!(data, (0..5).flat_map(|byte| [byte; 4]).collect::<Vec<u8>>());
        assert_eq!(opener.updates(), 2);
        // What is sealed here is the same, to the last bit.
        assert_eq!(hex(&resealed), hex(&bytes(stream)));
    }
}
