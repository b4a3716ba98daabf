//! Whole TLS handshakes of hosts and controllers, with an attacker who flips, cuts, repeats, leaves
//! out, injects, and sends to one end the bytes for another: no end has a channel that its peer has
//! not, or one of another key than both have; each takes and sends a bounded number of bytes, and
//! the failing end says why in one line. Randomness is the library's own: the same input need not
//! do the same twice, but where records end does not change.

use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use secure_channel::{
    ConfiguredPsk, Derivation, FirstBytes, HEADER_BYTES, Hash, IdentityVersion, Names, OVERHEAD_BYTES,
    Opened, Opener, Peer, RecordLimit, Sealer, Suite, TlsPsk, TrafficSecret,
};
use tls_handshake::{Established, Handshake, HandshakeError, KEYS_MAX, Progress};

/// Steps of one input: two pairs of ends whose bytes come whole need six.
const STEPS_MAX: usize = 40;
/// Bytes that an end may take before it is complete or has failed: 32 KiB, a record's header, and what a listener gathers.
const TAKEN_BYTES_MAX: usize = (32 << 10) + HEADER_BYTES;
/// Bytes that no end ever sends more of.
const SENT_BYTES_MAX: usize = 8 << 10;

/// Does the handshakes, and what the input makes of them.
pub fn check(bytes: &[u8]) {
    let _ = run(&mut Unstructured::new(bytes));
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let mut ends = Vec::new();
    for _ in 0..if one_in(input, 4)? { 2 } else { 1 } {
        let offered = offered(input)?;
        let known = known(input, &offered)?;
        ends.push(End::host(offered));
        ends.push(End::controller(known));
    }
    let is_as_sent = carry(input, &mut ends)?;
    believe(&ends);
    if is_as_sent {
        ends.chunks(2).for_each(|pair| agree(&pair[0], &pair[1]));
    }
    Ok(())
}

/// True for a rare event. An input that is used up has no more of them.
fn one_in(input: &mut Unstructured<'_>, many: u8) -> Result<bool> {
    Ok(input.int_in_range(1..=many)? == many)
}

/// All keys there are: two configured ones, with all that can be derived of them.
fn keys() -> &'static [TlsPsk] {
    static KEYS: OnceLock<Vec<TlsPsk>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let names = Names::new("nqn.host", "nqn.subsystem").expect("short names");
        let mut keys = Vec::new();
        for suite in Suite::ALL {
            for (seed, hash) in [(1, None), (1, Some(suite.hash())), (2, None)] {
                let bytes = vec![seed; hash.unwrap_or(Hash::Sha256).length()];
                let psk = ConfiguredPsk::new(&bytes, hash).expect("as long as its hash");
                for derivation in Derivation::ALL {
                    let input = psk.retained(&names, derivation);
                    let made = |version| input.tls_psk(&names, suite, version).expect("short names");
                    keys.extend(IdentityVersion::ALL.map(made));
                }
            }
        }
        keys
    })
}

/// The keys that a host offers, no two of one identity.
fn offered(input: &mut Unstructured<'_>) -> Result<Vec<TlsPsk>> {
    let mut offered: Vec<TlsPsk> = Vec::new();
    for _ in 0..input.int_in_range(1..=KEYS_MAX)? {
        let key = input.choose(keys())?;
        if offered.iter().all(|other| other.identity() != key.identity()) {
            offered.push(key.clone());
        }
    }
    Ok(offered)
}

/// The keys that a controller knows: mostly one of the host's is among them.
fn known(input: &mut Unstructured<'_>, offered: &[TlsPsk]) -> Result<Vec<TlsPsk>> {
    let mut known = Vec::new();
    for _ in 0..input.int_in_range(0..=3)? {
        known.push(input.choose(keys())?.clone());
    }
    if !one_in(input, 8)? {
        known.push(input.choose(offered)?.clone());
    }
    Ok(known)
}

/// Result of an end: a channel with its key, or the reason why there is none.
type Outcome = std::result::Result<(Established, TlsPsk), String>;

/// A host, or a controller with the listener before it.
struct End {
    /// Peer at the other end.
    peer: Peer,
    keys: Vec<TlsPsk>,
    /// A controller has none before it knows which key the host has.
    handshake: Option<Handshake>,
    /// The one that a controller has found its host to have.
    found: Option<TlsPsk>,
    /// Bytes of a host that has not sent all of its hello.
    first: Vec<u8>,
    /// Bytes received and not taken.
    waiting: Vec<u8>,
    taken_bytes: usize,
    sent_bytes: usize,
    outcome: Option<Outcome>,
}

impl End {
    fn new(peer: Peer, keys: Vec<TlsPsk>, handshake: Option<Handshake>) -> Self {
        let (first, waiting, found) = (Vec::new(), Vec::new(), None);
        Self { peer, keys, handshake, found, first, waiting, taken_bytes: 0, sent_bytes: 0, outcome: None }
    }

    fn host(keys: Vec<TlsPsk>) -> Self {
        let handshake = Handshake::of_host(&keys).expect("keys of different identities");
        Self::new(Peer::Controller, keys, Some(handshake))
    }

    fn controller(keys: Vec<TlsPsk>) -> Self {
        Self::new(Peer::Host, keys, None)
    }

    /// Takes bytes; what it sends then.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.outcome.is_some() {
            return Vec::new();
        }
        self.taken_bytes += bytes.len();
        let mut sent = Vec::new();
        if let Err(error) = self.advance(bytes, &mut sent) {
            let why = error.to_string();
            assert!(!why.is_empty() && !why.contains('\n'), "{why:?}");
            assert!(error.alert().is_none() || !sent.is_empty(), "no alert says {why}");
            self.outcome = Some(Err(why));
            self.says_the_same(&error);
        }
        self.sent_bytes += sent.len();
        assert!(self.sent_bytes <= SENT_BYTES_MAX, "{} bytes were sent", self.sent_bytes);
        assert!(self.outcome.is_some() || self.taken_bytes <= TAKEN_BYTES_MAX, "a handshake without end");
        sent
    }

    fn advance(&mut self, bytes: &[u8], sent: &mut Vec<u8>) -> std::result::Result<(), HandshakeError> {
        let first = self.listen(bytes).inspect_err(|error| {
            error.alert().into_iter().for_each(|alert| sent.extend(alert.in_clear()));
        })?;
        let Some(handshake) = &mut self.handshake else { return Ok(()) };
        let mut rest = first.as_deref().unwrap_or(bytes);
        match handshake.step(&mut rest, sent)? {
            Progress::Continues => assert!(rest.is_empty(), "bytes of a handshake were left"),
            Progress::Done(established) => {
                let offered = self.found.as_ref().map_or(&*self.keys, std::slice::from_ref);
                let key = offered[established.key].clone();
                assert_eq!(established.suite, key.suite());
                self.outcome = Some(Ok((established, key)));
                self.says_the_same(&HandshakeError::Complete);
            }
        }
        Ok(())
    }

    /// Work of a listener before there is a handshake: it finds the key of the host, which is the
    /// only one then.
    fn listen(&mut self, bytes: &[u8]) -> std::result::Result<Option<Vec<u8>>, HandshakeError> {
        if self.handshake.is_some() {
            return Ok(None);
        }
        self.first.extend_from_slice(bytes);
        match FirstBytes::of(&self.first)? {
            FirstBytes::Incomplete => Ok(None),
            FirstBytes::InClear => Err(HandshakeError::Closed(Peer::Host)),
            FirstBytes::Hello(hello) => {
                let is_said = |key: &&TlsPsk| {
                    let identity = key.identity().to_string();
                    hello.identities().any(|said| said == identity.as_bytes())
                };
                let keys: Vec<TlsPsk> = self.keys.iter().filter(is_said).cloned().collect();
                let key = keys[hello.choose(&keys)?].clone();
                self.handshake = Some(Handshake::of_controller(&key)?);
                self.found = Some(key);
                Ok(Some(std::mem::take(&mut self.first)))
            }
        }
    }

    /// Checks that an ended side repeats its error for further bytes.
    fn says_the_same(&mut self, error: &HandshakeError) {
        let Some(handshake) = &mut self.handshake else { return };
        let mut sent = Vec::new();
        let again = handshake.step(&mut &[22, 3, 3, 0, 1, 0][..], &mut sent);
        assert!(matches!(&again, Err(again) if again == error), "{again:?} after {error}");
        assert!(sent.is_empty(), "an end sends more");
    }
}

/// Connects all ends by way of the attacker. True if all bytes arrived as they were sent.
fn carry(input: &mut Unstructured<'_>, ends: &mut [End]) -> Result<bool> {
    let mut attacker = Attacker { earlier: Vec::new(), is_as_sent: true };
    for at in (0..ends.len()).step_by(2) {
        let sent = ends[at].take(&[]);
        attacker.pass(input, ends, at, sent)?;
    }
    for _ in 0..STEPS_MAX {
        let ready: Vec<usize> = (0..ends.len()).filter(|at| !ends[*at].waiting.is_empty()).collect();
        if ready.is_empty() {
            return Ok(attacker.is_as_sent);
        }
        let at = *input.choose(&ready)?;
        let all = ends[at].waiting.len();
        let length = if one_in(input, 4)? { input.int_in_range(1..=all)? } else { all };
        let piece: Vec<u8> = ends[at].waiting.drain(..length).collect();
        let sent = ends[at].take(&piece);
        attacker.pass(input, ends, at, sent)?;
    }
    Ok(false)
}

/// Attacker between the ends.
struct Attacker {
    /// Bytes sent before, by any end.
    earlier: Vec<Vec<u8>>,
    is_as_sent: bool,
}

impl Attacker {
    /// Brings what an end has sent to its peer, or does something else with it.
    fn pass(
        &mut self,
        input: &mut Unstructured<'_>,
        ends: &mut [End],
        from: usize,
        sent: Vec<u8>,
    ) -> Result<()> {
        if sent.is_empty() {
            return Ok(());
        }
        let passed = self.changed(input, &sent)?;
        let partner = from ^ 1;
        let to = if one_in(input, 16)? { input.choose_index(ends.len())? } else { partner };
        self.is_as_sent &= to == partner && passed == sent;
        ends[to].waiting.extend_from_slice(&passed);
        self.earlier.push(sent);
        Ok(())
    }

    fn changed(&self, input: &mut Unstructured<'_>, sent: &[u8]) -> Result<Vec<u8>> {
        let mut passed = sent.to_vec();
        let at = |input: &mut Unstructured<'_>| input.choose_index(sent.len());
        match input.int_in_range(0..=23)? {
            1 => {
                let at = at(input)?;
                passed[at] ^= 1 << input.int_in_range(0..=7)?;
            }
            2 => passed.truncate(at(input)?),
            3 => passed.extend_from_slice(sent),
            4 => passed.clear(),
            5 if !self.earlier.is_empty() => passed.clone_from(input.choose(&self.earlier)?),
            6 => {
                let (at, injected) = (at(input)?, injected(input)?);
                passed.splice(at..at, injected);
            }
            7 => {
                let (at, written) = (at(input)?, injected(input)?);
                let end = passed.len().min(at + written.len());
                passed.splice(at..end, written);
            }
            8 => passed = [injected(input)?, passed].concat(),
            9 => passed.extend(injected(input)?.repeat(input.int_in_range(1..=64)?)),
            10 => passed = reframed(input, sent)?,
            _ => {}
        }
        Ok(passed)
    }
}

/// Bytes of the attacker's own, mostly as a record.
fn injected(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let length = input.int_in_range(0..=input.len().min(64))?;
    let bytes = input.bytes(length)?;
    match input.int_in_range(0..=5)? {
        1 | 2 => return Ok(bytes.to_vec()),
        // Nothing comes of these, however many there are; and the beginning of a message of 64 KiB.
        3 => return Ok(vec![20, 3, 3, 0, 1, 1]),
        4 => return Ok([&[22, 3, 3, 0x40, 0][..], &[0; 0x4000]].concat()),
        5 => return Ok(vec![22, 3, 3, 0, 6, *input.choose(&[1, 8])?, 0, 0xff, 0xf0, 3, 3]),
        _ => {}
    }
    let kind = *input.choose(&[22, 20, 21, 23])?;
    Ok([&[kind, 3, 3, 0, bytes.len() as u8][..], bytes].concat())
}

/// The first record as two.
fn reframed(input: &mut Unstructured<'_>, sent: &[u8]) -> Result<Vec<u8>> {
    let Some((header, behind)) = sent.split_first_chunk::<HEADER_BYTES>() else { return Ok(sent.to_vec()) };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]])).min(behind.len());
    let (body, rest) = behind.split_at(length);
    let (first, second) = body.split_at(input.int_in_range(0..=length)?);
    let record = |body: &[u8]| [&header[..3], &(body.len() as u16).to_be_bytes(), body].concat();
    Ok([record(first), record(second), rest.to_vec()].concat())
}

/// Checks that each end with a channel shares it with a peer that has the key.
fn believe(ends: &[End]) {
    let (hosts, controllers): (Vec<&End>, Vec<&End>) =
        ends.iter().partition(|end| end.peer == Peer::Controller);
    for (_, key) in hosts.iter().filter_map(|host| channel(host)) {
        let has_it = |controller: &&End| controller.keys.contains(key);
        assert!(controllers.iter().any(has_it), "a host believes a peer without its key");
    }
    for (established, key) in controllers.iter().filter_map(|controller| channel(controller)) {
        let is_it = |host: &&&End| {
            channel(host).is_some_and(|(of_host, of)| of == key && is_channel(of_host, established))
        };
        assert_eq!(hosts.iter().filter(is_it).count(), 1, "a controller has a channel that no host has");
    }
}

fn channel(end: &End) -> Option<(&Established, &TlsPsk)> {
    match &end.outcome {
        Some(Ok((established, key))) => Some((established, key)),
        _ => None,
    }
}

/// True if both directions are the same at both ends, and not the same as each other.
fn is_channel(host: &Established, controller: &Established) -> bool {
    is_same(&host.sending, &controller.receiving)
        && is_same(&controller.sending, &host.receiving)
        && !is_same(&host.sending, &host.receiving)
        && (host.suite, &host.group) == (controller.suite, &controller.group)
}

/// True if records that are sealed with one secret are opened with the other.
fn is_same(sending: &TrafficSecret, receiving: &TrafficSecret) -> bool {
    let mut record = vec![0; 4 + OVERHEAD_BYTES];
    record[HEADER_BYTES..][..4].copy_from_slice(b"data");
    Sealer::new(sending, RecordLimit::default()).seal(&mut record, 4).expect("room for all");
    let opened = Opener::new(receiving, Peer::Host).open(&mut record);
    matches!(opened, Ok(Opened::Data { data, .. }) if record[data.clone()] == *b"data")
}

/// Between these two, everything arrived as it was sent.
fn agree(host: &End, controller: &End) {
    let common = host.keys.iter().find(|key| controller.keys.contains(key));
    match (common, &host.outcome, &controller.outcome) {
        (Some(key), Some(Ok((_, of_host))), Some(Ok((_, of_controller)))) => {
            assert!(of_host == key && of_controller == key, "another key than the first that both have");
        }
        (None, Some(Err(_)), Some(Err(_))) => {}
        (_, host, controller) => panic!("{common:?}: {host:?}, {controller:?}"),
    }
}
