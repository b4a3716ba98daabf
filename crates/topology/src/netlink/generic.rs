//! Generic netlink, and of its families that of ethtool: questions about queues, hashes and features of an interface.

use std::collections::BTreeSet;
use std::io;

use rustix::io::Errno;
use rustix::net::netlink::GENERIC;

use super::message::malformed;
use super::{Attributes, NetlinkSocket, Writer};
use crate::limits::{RSS_ENTRIES_MAX, RSS_KEY_BYTES_MAX};
use crate::link::{Coalescing, LinkModes};
use crate::{Channels, QueueCount, RssFunction};

/// The family that lists the other families, its request, and the attributes of request and response (`GENL_ID_CTRL`,
/// `CTRL_`).
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Bytes of `struct genlmsghdr`.
const HEADER_LENGTH: usize = 4;

/// Questions of the family of ethtool (`ETHTOOL_MSG_`).
const MODES_GET: u8 = 4;
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const CHANNELS_GET: u8 = 17;
const CHANNELS_SET: u8 = 18;
const COALESCING_GET: u8 = 19;
const RSS_GET: u8 = 38;

/// The attribute with the interface, in every question, and its name there.
const HEADER: u16 = 1;
const HEADER_NAME: u16 = 2;

/// Attributes of queues (`ETHTOOL_A_CHANNELS_`).
const RECEIVE_MAX: u16 = 2;
const TRANSMIT_MAX: u16 = 3;
const COMBINED_MAX: u16 = 5;
const RECEIVE_COUNT: u16 = 6;
const TRANSMIT_COUNT: u16 = 7;
const COMBINED_COUNT: u16 = 9;

/// Attributes of receive side scaling (`ETHTOOL_A_RSS_`).
const RSS_FUNCTION: u16 = 3;
const RSS_TABLE: u16 = 4;
const RSS_KEY: u16 = 5;
const RSS_TRANSFORMATION: u16 = 6;

/// Attributes of modes (`ETHTOOL_A_LINKMODES_`), and the values of a duplex.
const MODES_NEGOTIATION: u16 = 2;
const MODES_OURS: u16 = 3;
const MODES_PEER: u16 = 4;
const MODES_SPEED: u16 = 5;
const MODES_DUPLEX: u16 = 6;
const HALF: u32 = 0;
const FULL: u32 = 1;

/// Attributes of coalescing (`ETHTOOL_A_COALESCE_`).
const RECEIVE_US: u16 = 2;
const RECEIVE_FRAMES: u16 = 3;
const ADAPTIVE_RECEIVE: u16 = 11;

/// Attributes of features and of sets of bits (`ETHTOOL_A_FEATURES_`, `ETHTOOL_A_BITSET_`).
const CHANGEABLE: u16 = 2;
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;
const UNCHANGEABLE: u16 = 5;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;
const NO_MASK: u16 = 1;

/// The kernel's name of the switch for rules for single flows.
const NTUPLE: &str = "rx-ntuple-filter";

/// A connection with ethtool's family.
#[derive(Debug)]
pub(crate) struct Ethtool {
    socket: NetlinkSocket,
    family: u16,
}

/// The table, key and hash of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scaling {
    pub(crate) key: Vec<u8>,
    pub(crate) table: Vec<u32>,
    pub(crate) function: RssFunction,
    pub(crate) is_symmetric: bool,
}

/// A switch of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) is_there: bool,
    pub(crate) is_on: bool,
    pub(crate) is_movable: bool,
}

impl Ethtool {
    /// # Errors
    /// What the kernel says: `ENOENT` when it was built without this.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = NetlinkSocket::open(Some(GENERIC))?;
        let question = Writer::new(&[GET_FAMILY, 1, 0, 0]).text(FAMILY_NAME, "ethtool").finish();
        let answers = socket.ask(CONTROL, &question)?;
        let attributes = answers.first().and_then(|answer| answer.payload.get(HEADER_LENGTH..));
        let family = attributes.and_then(|bytes| Attributes(bytes).number(FAMILY_ID));
        let family = family.and_then(|number| u16::try_from(number).ok()).ok_or_else(malformed)?;
        Ok(Self { socket, family })
    }

    /// Queues.
    pub(crate) fn channels(&mut self, interface: &str) -> io::Result<Channels> {
        let answer = self.ask(CHANNELS_GET, interface)?;
        channels(&answer).ok_or_else(malformed)
    }

    /// Sets the numbers of queues that are not what they should be.
    pub(crate) fn set_channels(&mut self, interface: &str, wanted: &Channels) -> io::Result<()> {
        let now = self.channels(interface)?;
        let counts = [
            (RECEIVE_COUNT, now.receive, wanted.receive),
            (TRANSMIT_COUNT, now.transmit, wanted.transmit),
            (COMBINED_COUNT, now.combined, wanted.combined),
        ];
        let mut question = question(CHANNELS_SET, interface)?;
        // A number that a driver does not have is refused, though it were the same.
        for (attribute, now, wanted) in counts.into_iter().filter(|(_, now, wanted)| now.now != wanted.now) {
            if wanted.now > now.max {
                let text = format!("{interface} has at most {} queues of that kind", now.max);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            question = question.number(attribute, wanted.now);
        }
        self.socket.ask(self.family, &question.finish()).map(|_| ())
    }

    /// Receive side scaling, of which the fields that are hashed are asked otherwise.
    pub(crate) fn scaling(&mut self, interface: &str) -> io::Result<Scaling> {
        let answer = self.ask(RSS_GET, interface)?;
        scaling(&answer).ok_or_else(malformed)
    }

    /// The switch for rules for single flows.
    pub(crate) fn ntuple(&mut self, interface: &str) -> io::Result<Switch> {
        let answer = self.ask(FEATURES_GET, interface)?;
        Ok(switch(&answer, NTUPLE))
    }

    /// Features that are on, and those that can be switched.
    pub(crate) fn features(&mut self, interface: &str) -> io::Result<(BTreeSet<String>, BTreeSet<String>)> {
        let answer = self.ask(FEATURES_GET, interface)?;
        let set = |set: u16| Attributes(&answer).nested(set).map(bits).unwrap_or_default();
        let fixed = set(UNCHANGEABLE);
        let switchable = set(CHANGEABLE).into_iter().filter(|name| !fixed.contains(name)).collect();
        Ok((set(ACTIVE), switchable))
    }

    /// Interrupt coalescing of an interface.
    pub(crate) fn coalescing(&mut self, interface: &str) -> io::Result<Coalescing> {
        Ok(coalescing(&self.ask(COALESCING_GET, interface)?))
    }

    /// Speeds of the cable.
    pub(crate) fn modes(&mut self, interface: &str) -> io::Result<LinkModes> {
        Ok(modes(&self.ask(MODES_GET, interface)?))
    }

    /// Moves the switch for rules for single flows.
    pub(crate) fn set_ntuple(&mut self, interface: &str, is_on: bool) -> io::Result<()> {
        let mut bit = Writer::default().text(BIT_NAME, NTUPLE);
        if is_on {
            bit = bit.value(BIT_VALUE, &[]);
        }
        let set = Writer::default().nested(BITS, &Writer::default().nested(BIT, &bit));
        let question = question(FEATURES_SET, interface)?.nested(WANTED, &set).finish();
        self.socket.ask(self.family, &question).map(|_| ())
    }

    /// Asks of an interface; the attributes of the answer.
    fn ask(&mut self, command: u8, interface: &str) -> io::Result<Vec<u8>> {
        let answers = self.socket.ask(self.family, &question(command, interface)?.finish())?;
        let answer = answers.into_iter().find(|answer| answer.kind == self.family).ok_or_else(malformed)?;
        answer.payload.get(HEADER_LENGTH..).map(<[u8]>::to_vec).ok_or_else(malformed)
    }
}

fn question(command: u8, interface: &str) -> io::Result<Writer> {
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
        return Err(Errno::NODEV.into());
    }
    Ok(Writer::new(&[command, 1, 0, 0]).nested(HEADER, &Writer::default().text(HEADER_NAME, interface)))
}

fn channels(answer: &[u8]) -> Option<Channels> {
    let attributes = Attributes(answer);
    let count = |now: u16, max: u16| QueueCount {
        now: attributes.number(now).unwrap_or(0),
        max: attributes.number(max).unwrap_or(0),
    };
    // An answer without any is none.
    [RECEIVE_MAX, TRANSMIT_MAX, COMBINED_MAX].iter().find_map(|number| attributes.number(*number))?;
    Some(Channels {
        combined: count(COMBINED_COUNT, COMBINED_MAX),
        receive: count(RECEIVE_COUNT, RECEIVE_MAX),
        transmit: count(TRANSMIT_COUNT, TRANSMIT_MAX),
    })
}

fn scaling(answer: &[u8]) -> Option<Scaling> {
    let attributes = Attributes(answer);
    let table = attributes.value(RSS_TABLE).unwrap_or_default();
    let key = attributes.value(RSS_KEY).unwrap_or_default();
    if table.len() > RSS_ENTRIES_MAX * 4 || !table.len().is_multiple_of(4) || key.len() > RSS_KEY_BYTES_MAX {
        return None;
    }
    let entries =
        table.chunks_exact(4).map(|entry| u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]));
    // The kernel's bits (`ETH_RSS_HASH_`).
    let function = match attributes.number(RSS_FUNCTION) {
        Some(1) => RssFunction::Toeplitz,
        Some(2) => RssFunction::Xor,
        Some(4) => RssFunction::Crc32,
        _ => RssFunction::Unknown,
    };
    Some(Scaling {
        key: key.to_vec(),
        table: entries.collect(),
        function,
        is_symmetric: attributes.number(RSS_TRANSFORMATION).is_some_and(|bits| bits != 0),
    })
}

fn switch(answer: &[u8], name: &str) -> Switch {
    let attributes = Attributes(answer);
    let has = |set: u16| attributes.nested(set).is_some_and(|set| bits(set).contains(name));
    let (changeable, is_on) = (has(CHANGEABLE), has(ACTIVE));
    Switch { is_there: changeable || is_on, is_on, is_movable: changeable && !has(UNCHANGEABLE) }
}

fn coalescing(answer: &[u8]) -> Coalescing {
    let attributes = Attributes(answer);
    Coalescing {
        receive_us: attributes.number(RECEIVE_US),
        receive_frames: attributes.number(RECEIVE_FRAMES),
        is_adaptive: attributes.number(ADAPTIVE_RECEIVE) == Some(1),
    }
}

fn modes(answer: &[u8]) -> LinkModes {
    let attributes = Attributes(answer);
    let set = |number: u16| attributes.nested(number).map(all_bits).unwrap_or_default();
    LinkModes {
        negotiates: attributes.number(MODES_NEGOTIATION).map(|negotiates| negotiates == 1),
        // An unknown speed is 0 or all ones.
        speed_mbps: attributes.number(MODES_SPEED).filter(|speed| !matches!(*speed, 0 | u32::MAX)),
        is_full_duplex: match attributes.number(MODES_DUPLEX) {
            Some(HALF) => Some(false),
            Some(FULL) => Some(true),
            _ => None,
        },
        supported: set(MODES_OURS),
        peer: set(MODES_PEER),
    }
}

/// Names of all bits that a set speaks of, set or not.
fn all_bits(set: Attributes<'_>) -> BTreeSet<String> {
    let bits = set.nested(BITS).into_iter().flatten().filter(|(number, _)| *number == BIT);
    bits.filter_map(|(_, bit)| Attributes(bit).text(BIT_NAME)).collect()
}

/// Names of the bits that are set.
fn bits(set: Attributes<'_>) -> BTreeSet<String> {
    // Without a mask, only those are named that are set.
    let all = set.value(NO_MASK).is_some();
    let bits = set.nested(BITS).into_iter().flatten().filter(|(number, _)| *number == BIT);
    bits.map(|(_, bit)| Attributes(bit))
        .filter(|bit| all || bit.value(BIT_VALUE).is_some())
        .filter_map(|bit| bit.text(BIT_NAME))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(bits: &[(&str, bool)], is_masked: bool) -> Writer {
        let mut list = Writer::default();
        for (name, is_set) in bits {
            let bit = Writer::default().text(BIT_NAME, name);
            list = list.nested(BIT, &if *is_set { bit.value(BIT_VALUE, &[]) } else { bit });
        }
        let set = Writer::default();
        let set = if is_masked { set } else { set.value(NO_MASK, &[]) };
        set.nested(BITS, &list)
    }

    #[test]
    fn a_switch_is_read_from_four_sets() {
        let answer = |changeable: bool, active: &[(&str, bool)], fixed: bool| {
            Writer::default()
                .nested(CHANGEABLE, &set(&[("rx-checksum", true), (NTUPLE, changeable)], true))
                .nested(ACTIVE, &set(active, false))
                .nested(UNCHANGEABLE, &set(&[(NTUPLE, fixed)], true))
                .finish()
        };
        let found = switch(&answer(true, &[("rx-checksum", false)], false), NTUPLE);
        assert_eq!(found, Switch { is_there: true, is_on: false, is_movable: true });
        let found = switch(&answer(true, &[(NTUPLE, false)], true), NTUPLE);
        assert_eq!(found, Switch { is_there: true, is_on: true, is_movable: false });
        assert_eq!(switch(&answer(false, &[], false), NTUPLE), Switch::default());
    }

    #[test]
    fn tables_keys_and_hashes_are_read() {
        let table: Vec<u8> = [0_u32, 1, 0, 3].iter().flat_map(|queue| queue.to_ne_bytes()).collect();
        let answer = Writer::default()
            .number(RSS_FUNCTION, 1)
            .value(RSS_TABLE, &table)
            .value(RSS_KEY, &[7; 40])
            .number(RSS_TRANSFORMATION, 1);
        let found = scaling(&answer.finish()).unwrap();
        assert_eq!((found.table, found.key.len()), (vec![0, 1, 0, 3], 40));
        assert!(found.is_symmetric && found.function == RssFunction::Toeplitz);
        let long = Writer::default().value(RSS_KEY, &[0; RSS_KEY_BYTES_MAX + 1]).finish();
        assert_eq!(scaling(&long), None);
        assert_eq!(scaling(&Writer::default().value(RSS_TABLE, &[0; 5]).finish()), None);
    }

    #[test]
    fn numbers_of_queues_are_read() {
        let answer = Writer::default().number(COMBINED_MAX, 63).number(COMBINED_COUNT, 32).finish();
        let found = channels(&answer).unwrap();
        assert_eq!(found.combined, QueueCount { now: 32, max: 63 });
        assert_eq!(found.receive, QueueCount::default());
        assert_eq!(channels(&[]), None);
    }

    #[test]
    fn speeds_and_waits_are_read() {
        let answer = Writer::default()
            .value(MODES_NEGOTIATION, &[1])
            .nested(MODES_OURS, &set(&[("1000baseT/Full", true), ("10000baseT/Full", false)], true))
            .number(MODES_SPEED, 1000)
            .value(MODES_DUPLEX, &[1])
            .finish();
        let found = modes(&answer);
        assert_eq!(
            (found.negotiates, found.speed_mbps, found.is_full_duplex),
            (Some(true), Some(1000), Some(true))
        );
        assert_eq!((found.fastest_mbps(), found.peer.len()), (Some(10_000), 0));
        let unknown = Writer::default().number(MODES_SPEED, u32::MAX).value(MODES_DUPLEX, &[0xff]).finish();
        assert_eq!(modes(&unknown), LinkModes::default());
        let answer = Writer::default().number(RECEIVE_US, 64).value(ADAPTIVE_RECEIVE, &[0]).finish();
        assert_eq!(coalescing(&answer).receive_us, Some(64));
        let adaptive = Writer::default().number(RECEIVE_US, 8).value(ADAPTIVE_RECEIVE, &[1]).finish();
        assert!(coalescing(&adaptive).is_adaptive);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (coalescing(&bytes), modes(&bytes));
            let _ = channels(&bytes);
            let _ = scaling(&bytes);
            let _ = switch(&bytes, NTUPLE);
        }
    }
}
