//! NVMe/TCP on the wire as tshark reads it, independently of the product's own decoders: when each command of the I/O queues
//! passed, and when the end of its answer did. It keeps out how packets are captured.

use std::collections::HashMap;
use std::fs::File;
use std::process::Command;

/// Types of PDUs that carry a command's identifier in the same place (NVMe TCP Transport specification, 3.6.2).
const H2C_DATA: u64 = 6;
const C2H_DATA: u64 = 7;
const R2T: u64 = 9;
/// C2HData with the last data of its command, which stands for a response too (LAST_PDU, SUCCESS).
const LAST_AND_SUCCESS: u64 = 1 << 2 | 1 << 3;

/// Fields of a packet. One with several PDUs has lists of most, each with the values of the PDUs that have such a field.
const FIELDS: [&str; 7] = [
    "frame.time_epoch",
    "tcp.stream",
    "nvme-tcp.type",
    "nvme-tcp.flags",
    // Of commands other than Fabrics commands, of data and R2Ts, and of responses.
    "nvme.cmd.cid",
    "nvme-tcp.cmd.cid",
    "nvme.cqe.cid",
];
/// Packets in which a PDU of an I/O queue ends.
const OF_IO_QUEUES: &str = "nvme-tcp.cmd.qid > 0";
/// Without this, tshark loses its place in a stream at the first packet that comes early.
const REORDER: &str = "tcp.reassemble_out_of_order:TRUE";

/// Commands and completions on the I/O queues.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// Time of each command, from its last byte to the last byte of its answer, in nanoseconds, in the order of the ends.
    pub(crate) latencies_ns: Vec<u64>,
    /// Time of the first command, and of the last answer.
    pub(crate) first_ns: Option<u64>,
    pub(crate) last_ns: u64,
    /// Commands whose answer was not seen.
    pub(crate) unmatched: usize,
}

impl Exchanges {
    /// All exchanges with the target at `port` in a capture.
    ///
    /// # Errors
    /// tshark is missing or fails, or prints anything else.
    pub(crate) fn of(capture: File, port: u16) -> Result<Exchanges, String> {
        let decode_as = format!("tcp.port=={port},nvme-tcp");
        let mut command = Command::new("tshark");
        command.args(["-n", "-r", "-", "-d", &decode_as, "-o", REORDER, "-Y", OF_IO_QUEUES]);
        command.args(["-T", "fields", "-E", "separator=|"]);
        command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
        let output =
            command.stdin(capture).output().map_err(|error| format!("cannot start tshark: {error}"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("tshark failed ({}): {}", output.status, errors.trim()));
        }
        Exchanges::in_lines(&String::from_utf8_lossy(&output.stdout))
    }

    fn in_lines(text: &str) -> Result<Exchanges, String> {
        let mut exchanges = Exchanges::default();
        let mut outstanding = HashMap::new();
        for line in text.lines() {
            let packet = || format!("tshark's line `{line}` is not understood");
            let fields: Vec<&str> = line.split('|').collect();
            let [time, stream, kinds, flags, commands, data, responses] = fields[..] else {
                return Err(packet());
            };
            let at_ns = nanoseconds(time).ok_or_else(packet)?;
            for id in numbers(commands).ok_or_else(packet)? {
                exchanges.first_ns.get_or_insert(at_ns);
                let forgotten = outstanding.insert((stream, id), at_ns);
                exchanges.unmatched += usize::from(forgotten.is_some());
            }
            let kinds = numbers(kinds).ok_or_else(packet)?.into_iter();
            let of_data = kinds
                .zip(numbers(flags).ok_or_else(packet)?)
                .filter(|(kind, _)| [H2C_DATA, C2H_DATA, R2T].contains(kind))
                .zip(numbers(data).ok_or_else(packet)?);
            let last = of_data
                .filter(|((kind, flags), _)| {
                    *kind == C2H_DATA && flags & LAST_AND_SUCCESS == LAST_AND_SUCCESS
                })
                .map(|(_, id)| id);
            for id in last.chain(numbers(responses).ok_or_else(packet)?) {
                // The response to Connect has no command here.
                if let Some(began_ns) = outstanding.remove(&(stream, id)) {
                    exchanges.latencies_ns.push(at_ns.saturating_sub(began_ns));
                    exchanges.last_ns = exchanges.last_ns.max(at_ns);
                }
            }
        }
        exchanges.unmatched += outstanding.len();
        Ok(exchanges)
    }
}

/// Numbers of a list, decimal or hexadecimal.
fn numbers(list: &str) -> Option<Vec<u64>> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    list.split(',').filter(|text| !text.is_empty()).map(number).collect()
}

/// Nanoseconds since 1970 of seconds with nine digits behind the point.
fn nanoseconds(time: &str) -> Option<u64> {
    let (seconds, fraction) = time.split_once('.').filter(|(_, fraction)| fraction.len() == 9)?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + fraction.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of tshark 4.0: Connect's response, a read and its data, and two reads of another queue in one packet.
    const READS: &str = "\
        1796092197.026000001|2|5|0x00|||0x0000\n\
        1796092197.026251766|2|4|0x00|0x3c00||\n\
        1796092197.026261766|2|7|0x0c||0x3c00|\n\
        1796092197.999999999|3|4,4|0x00,0x00|0x3c00,0x0001||\n\
        1796092198.000000009|3|7,7|0x0c,0x0c||0x0001,0x3c00|\n";

    #[test]
    fn commands_and_answers_are_matched() {
        let exchanges = Exchanges::in_lines(READS).unwrap();
        assert_eq!(exchanges.latencies_ns, [10_000, 10, 10]);
        assert_eq!(exchanges.first_ns, Some(1_796_092_197_026_251_766));
        assert_eq!((exchanges.last_ns, exchanges.unmatched), (1_796_092_198_000_000_009, 0));
    }

    #[test]
    fn data_is_an_answer_only_with_success() {
        let reads = "1.000000000|0|4,4|0x00,0x00|0x0001,0x0002||\n\
                     1.000000100|0|7,7|0x00,0x0c||0x0001,0x0002|\n\
                     1.000000200|0|7,5|0x04,0x00||0x0001|0x0001\n";
        assert_eq!(Exchanges::in_lines(reads).unwrap().latencies_ns, [100, 200]);
        // A write with its R2T; behind its data comes the next command.
        let writes = "1.000000000|0|4|0x00|0x5c07||\n\
                      1.000000050|0|9|0x00||0x5c07|\n\
                      1.000000070|0|6,4|0x04,0x00|0x6402|0x5c07|\n\
                      1.000000300|0|5,9|0x00,0x00||0x6402|0x5c07\n";
        let exchanges = Exchanges::in_lines(writes).unwrap();
        assert_eq!((exchanges.latencies_ns, exchanges.unmatched), (vec![300], 1));
    }

    #[test]
    fn commands_without_answers_are_counted() {
        let lines: Vec<&str> = READS.lines().collect();
        let without = |at: usize| {
            let kept = lines.iter().enumerate().filter(|(index, _)| *index != at);
            kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
        };
        assert_eq!(Exchanges::in_lines(&without(2)).unwrap().unmatched, 1);
        assert_eq!(Exchanges::in_lines(&without(4)).unwrap().unmatched, 2);
        // The same identifier again, before its answer.
        let twice = [lines[1], lines[1]].join("\n");
        assert_eq!(Exchanges::in_lines(&twice).unwrap().unmatched, 2);
    }

    #[test]
    fn other_lines_are_refused() {
        for line in ["", "1.000000000|0|4|0x00|0x0001|", "1.0|0|4|0x00|0x0001||", "1.000000000|0|4|0x00|x||"]
        {
            let refused = Exchanges::in_lines(&format!("{line}\n")).unwrap_err();
            assert!(refused.contains(line), "{refused}");
        }
    }
}
