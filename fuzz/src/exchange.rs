//! Exchanges of DH-HMAC-CHAP between both sides, whose messages an attacker changes, cuts, replaces
//! and repeats, and secrets of any text: no changed message is believed, the failing side says why
//! in one line, and a side that has ended accepts no further proof.

use arbitrary::{Result, Unstructured};
use authentication::{
    Concatenation, ControllerSide, ControllerTerms, Group, Hash, HostSide, HostStep, HostTerms, Progress,
    Secret,
};
use nvme::authentication::{Body, MESSAGE_BYTES_MAX, Message};

/// Messages of one input.
const MESSAGES_MAX: usize = 24;

/// Does one exchange, and what the input makes of it.
pub fn check(bytes: &[u8]) {
    let _ = run(&mut Unstructured::new(bytes));
}

/// State of the controller, and if the proof of the host's name has arrived as it was sent.
#[derive(Default)]
struct Seen {
    believes: bool,
    is_changed: bool,
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    if input.ratio(1, 8)? {
        let text = String::from_utf8_lossy(input.peek_bytes(input.len()).unwrap_or_default()).into_owned();
        parse(&text, input.peek_bytes(input.len()).unwrap_or_default());
        return Ok(());
    }
    // The cheap ones mostly: others differ in the exchange, which is a library's.
    let group = if input.ratio(1, 32)? { *input.choose(&Group::ALL[6..])? } else { Group::Null };
    let hash = *input.choose(&Hash::ALL)?;
    let (is_bidirectional, is_same) = (input.arbitrary()?, input.ratio(7, 8)?);
    let secret = |byte| Secret::new(&[byte; 32], Some(hash)).expect("32 bytes are a key");
    let (host_nqn, subsystem_nqn) = ("nqn.host".to_owned(), "nqn.subsystem".to_owned());
    let mut controller = ControllerSide::new(ControllerTerms {
        host_nqn: host_nqn.clone(),
        subsystem_nqn: subsystem_nqn.clone(),
        secrets: vec![secret(1), secret(2)],
        controller_secret: Some(secret(3)),
        hashes: vec![hash],
        groups: vec![group],
        concatenation: Concatenation::None,
    });
    let mut host = HostSide::new(
        HostTerms {
            host_nqn,
            subsystem_nqn,
            secret: secret(if is_same { 1 } else { 9 }),
            controller_secret: if is_bidirectional { Some(secret(3)) } else { None },
            hashes: Hash::ALL.to_vec(),
            groups: Group::ALL.to_vec(),
            concatenation: Concatenation::None,
        },
        7,
    );
    let mut state = 1_u64;
    let mut fill = |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    };
    let (mut seen, mut sent) = (Seen::default(), Some(host.offer()));
    for _ in 0..MESSAGES_MAX {
        if let Some(message) = sent.take() {
            let proof = proof(&message);
            let (passed, _) = on_the_way(input, &message)?;
            seen.is_changed |= proof.is_some() && proof != self::proof(&passed);
            hear(&controller.take(&passed), &mut seen);
        }
        let (message, progress) = controller.give(&mut fill);
        hear(&progress, &mut seen);
        let (passed, is_whole) = on_the_way(input, &message)?;
        match host.take(&passed, &mut fill) {
            HostStep::Exchange(message) => sent = Some(message),
            HostStep::Done(_, last) => {
                // Without a secret of the controller's there is nothing to check.
                assert!(!is_bidirectional || is_whole, "a changed response was believed");
                sent = last;
            }
            HostStep::Failed(fault, last) => {
                assert!(!fault.why.is_empty() && !fault.why.contains('\n'));
                sent = last;
            }
        }
        if sent.is_none() && controller.has_ended() || input.is_empty() {
            break;
        }
    }
    assert!(is_same || !seen.believes, "a host without the secret was believed");
    Ok(())
}

/// Parts of a message that the host's response covers, and the response. The offer is not covered:
/// to take something out of it only makes the exchange weaker. Nor is the host's own challenge: a
/// change of it makes the host refuse the answer.
fn proof(bytes: &[u8]) -> Option<(u16, Vec<u8>, Vec<u8>)> {
    match Message::decode(bytes) {
        Ok(Message { transaction, body: Body::Reply(reply) }) => {
            Some((transaction, reply.response, reply.exchange))
        }
        _ => None,
    }
}

fn hear(progress: &Progress, seen: &mut Seen) {
    match progress {
        Progress::Continues => {}
        Progress::Authenticated(_) => {
            assert!(!seen.is_changed, "a changed message was believed");
            seen.believes = true;
        }
        Progress::Failed(fault) => assert!(!fault.why.is_empty() && !fault.why.contains('\n')),
    }
}

/// Message as it arrives, and if its meaning is unchanged.
fn on_the_way(input: &mut Unstructured<'_>, message: &[u8]) -> Result<(Vec<u8>, bool)> {
    let mut passed = message.to_owned();
    match input.int_in_range(0..=15)? {
        0 => {
            let at = input.choose_index(passed.len())?;
            passed[at] ^= 1 << input.int_in_range(0..=7)?;
        }
        1 => passed.truncate(input.choose_index(passed.len())?),
        2 => passed = input.arbitrary::<&[u8]>()?.iter().copied().take(MESSAGE_BYTES_MAX).collect(),
        3 => passed.resize((passed.len() + 64).min(2 * MESSAGE_BYTES_MAX), 0xff),
        4 => {
            for _ in 0..input.int_in_range(1..=8)? {
                let at = input.choose_index(passed.len())?;
                passed[at] = input.arbitrary()?;
            }
        }
        _ => {}
    }
    let is_same = Message::decode(&passed) == Message::decode(message);
    Ok((passed, is_same))
}

/// Checks that a text is the same after being written and read again.
fn parse(text: &str, bytes: &[u8]) {
    match text.parse::<Secret>() {
        Ok(secret) => assert_eq!(secret.reveal().parse(), Ok(secret)),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    if let Ok(message) = Message::decode(bytes) {
        let written = message.encode();
        assert!(written.len() <= MESSAGE_BYTES_MAX.max(bytes.len() + 64));
        assert_eq!(Message::decode(&written), Ok(message));
    }
}
