//! Queueing disciplines as the kernel tells them (tc(8)).

use std::io;

use super::message::{u32_at, u64_at};
use super::{Attributes, NetlinkSocket};
use crate::limits::QUEUEINGS_MAX;
use crate::link::Queueing;

/// Kinds of messages (`RTM_`).
const NEW_QUEUEING: u16 = 36;
const GET_QUEUEING: u16 = 38;
/// Bytes of `struct tcmsg`, and where its interface and parent are.
const FIXED_LENGTH: usize = 20;
const INTERFACE: usize = 4;
const PARENT: usize = 12;
/// The parent of the first discipline (`TC_H_ROOT`).
const ROOT: u32 = u32::MAX;

/// Attributes (`TCA_`): name, options, statistics, and of these the bytes and the queue.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
const BASIC: u16 = 1;
const QUEUE: u16 = 3;

/// Options of the disciplines with limits: `TCA_TBF_PARMS` and `TCA_TBF_RATE64`, `TCA_FQ_FLOW_MAX_RATE`,
/// `TCA_CAKE_BASE_RATE64`, `TCA_NETEM_LATENCY64`.
const TBF_PARAMETERS: u16 = 1;
const TBF_RATE: u16 = 4;
const FQ_FLOW_RATE: u16 = 7;
const CAKE_RATE: u16 = 2;
const NETEM_LATENCY: u16 = 10;
/// Offset of the rate in `struct tc_tbf_qopt`, and of the loss in `struct tc_netem_qopt`; size of
/// the latter.
const TBF_RATE_AT: usize = 8;
const NETEM_LOSS_AT: usize = 8;
const NETEM_LENGTH: usize = 24;

/// All disciplines of this network namespace, [`QUEUEINGS_MAX`] at most, each with the index of its interface.
///
/// # Errors
/// What the kernel says.
pub(crate) fn queueings() -> io::Result<Vec<(u32, Queueing)>> {
    let answers = NetlinkSocket::open(None)?.dump(GET_QUEUEING, &[0; FIXED_LENGTH])?;
    let found = answers.iter().filter(|answer| answer.kind == NEW_QUEUEING);
    Ok(found.filter_map(|answer| queueing(&answer.payload)).take(QUEUEINGS_MAX).collect())
}

fn queueing(payload: &[u8]) -> Option<(u32, Queueing)> {
    let fixed = payload.get(..FIXED_LENGTH)?;
    let attributes = Attributes(&payload[FIXED_LENGTH..]);
    let kind = attributes.text(KIND)?;
    let options = attributes.value(OPTIONS).unwrap_or_default();
    let mut found = Queueing { is_root: u32_at(fixed, PARENT)? == ROOT, ..limits(&kind, options) };
    if let Some(statistics) = attributes.nested(STATISTICS) {
        found.sent_bytes = statistics.value(BASIC).and_then(|basic| u64_at(basic, 0)).unwrap_or(0);
        let queue = statistics.value(QUEUE).unwrap_or_default();
        found.backlog_bytes = u32_at(queue, 4).unwrap_or(0);
        found.dropped = u32_at(queue, 8).unwrap_or(0);
        found.overlimits = u32_at(queue, 16).unwrap_or(0);
    }
    found.kind = kind;
    Some((u32_at(fixed, INTERFACE)?, found))
}

/// Limits in the options of a discipline.
fn limits(kind: &str, options: &[u8]) -> Queueing {
    let number = |attribute: u16| Attributes(options).value(attribute).and_then(|value| u64_at(value, 0));
    let mut found = Queueing::default();
    match kind {
        "tbf" => {
            let parameters = Attributes(options).value(TBF_PARAMETERS).unwrap_or_default();
            let short = u32_at(parameters, TBF_RATE_AT).map(u64::from);
            found.rate_bytes = number(TBF_RATE).or(short);
        }
        "fq" => found.rate_bytes = Attributes(options).number(FQ_FLOW_RATE).map(u64::from),
        "cake" => found.rate_bytes = number(CAKE_RATE),
        "netem" => {
            let loss = u32_at(options, NETEM_LOSS_AT).unwrap_or(0);
            // A part of 2^32.
            let ppm = (u64::from(loss) * 1_000_000) >> 32;
            found.loss_ppm = u32::try_from(ppm).ok().filter(|_| loss > 0).map(|ppm| ppm.max(1));
            let more = Attributes(options.get(NETEM_LENGTH..).unwrap_or_default());
            let delay_ns = more.value(NETEM_LATENCY).and_then(|value| u64_at(value, 0));
            found.delay_us = delay_ns.map(|ns| ns / 1000).filter(|us| *us > 0);
        }
        _ => {}
    }
    // Zero and all ones both stand for no limit.
    found.rate_bytes =
        found.rate_bytes.filter(|rate| *rate > 0 && *rate < u64::from(u32::MAX) || kind == "tbf");
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Writer;
    use super::*;

    fn message(kind: &str, parent: u32, options: &[u8]) -> Vec<u8> {
        let mut fixed = [0_u8; FIXED_LENGTH];
        fixed[INTERFACE] = 3;
        fixed[PARENT..PARENT + 4].copy_from_slice(&parent.to_ne_bytes());
        let mut queue = [0_u8; 20];
        queue[4] = 5;
        queue[8] = 6;
        queue[16] = 7;
        let statistics = Writer::default().value(BASIC, &900_u64.to_ne_bytes()).value(QUEUE, &queue);
        Writer::new(&fixed).text(KIND, kind).value(OPTIONS, options).nested(STATISTICS, &statistics).finish()
    }

    #[test]
    fn limits_and_counters_are_read() {
        let mut parameters = [0_u8; 36];
        parameters[TBF_RATE_AT..TBF_RATE_AT + 4].copy_from_slice(&12_500_000_u32.to_ne_bytes());
        let options = Writer::default().value(TBF_PARAMETERS, &parameters).finish();
        let (index, found) = queueing(&message("tbf", ROOT, &options)).unwrap();
        assert_eq!((found.kind.as_str(), index, found.is_root), ("tbf", 3, true));
        assert_eq!(found.rate_bytes, Some(12_500_000));
        assert_eq!((found.sent_bytes, found.backlog_bytes, found.dropped, found.overlimits), (900, 5, 6, 7));
        let fast = Writer::default()
            .value(TBF_PARAMETERS, &parameters)
            .value(TBF_RATE, &(1_u64 << 34).to_ne_bytes())
            .finish();
        assert_eq!(queueing(&message("tbf", ROOT, &fast)).unwrap().1.rate_bytes, Some(1 << 34));
    }

    #[test]
    fn what_has_no_limit_has_none() {
        let open = Writer::default().number(FQ_FLOW_RATE, u32::MAX).finish();
        let (_, found) = queueing(&message("fq", 1 << 16, &open)).unwrap();
        assert_eq!((found.rate_bytes, found.is_root), (None, false));
        let paced = Writer::default().number(FQ_FLOW_RATE, 1_000_000).finish();
        assert_eq!(queueing(&message("fq", ROOT, &paced)).unwrap().1.rate_bytes, Some(1_000_000));
        assert_eq!(queueing(&message("fq_codel", ROOT, &[])).unwrap().1.rate_bytes, None);
    }

    #[test]
    fn emulated_ways_are_read() {
        let mut options = vec![0_u8; NETEM_LENGTH];
        // One in a hundred.
        options[NETEM_LOSS_AT..NETEM_LOSS_AT + 4].copy_from_slice(&42_949_673_u32.to_ne_bytes());
        options.extend(Writer::default().value(NETEM_LATENCY, &5_000_000_u64.to_ne_bytes()).finish());
        let (_, found) = queueing(&message("netem", ROOT, &options)).unwrap();
        assert_eq!((found.delay_us, found.loss_ppm), (Some(5000), Some(10_000)));
    }

    #[test]
    fn the_loopback_has_no_limit() {
        let found = queueings().unwrap();
        assert!(found.iter().all(|(index, queueing)| *index != 1 || queueing.rate_bytes.is_none()));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = queueing(&bytes);
            for kind in ["tbf", "fq", "cake", "netem"] {
                let _ = limits(kind, &bytes);
            }
        }
    }
}
