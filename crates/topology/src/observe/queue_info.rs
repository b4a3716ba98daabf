//! What kernels with the series "nvme-tcp: NIC topology aware I/O queue scaling and queue info export" report about a
//! controller's queues in debugfs. What it means for flows is not here.

use std::net::{IpAddr, SocketAddr};

use super::flows::Ends;

/// Queue of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueInfo {
    pub(super) queue_id: u16,
    pub(super) cpu: Option<u32>,
    pub(super) ends: Ends,
}

/// Reads one record a line: words such as `qid=1`, `cpu: 3`, `src=10.0.0.1:50001`, in any order, or in columns below a
/// line of their names. The series is not in any kernel yet, and its form may change: names are taken in any case and
/// with what stands for them elsewhere, and addresses with their ports or beside them. Absent where a line has no queue
/// or no addresses in it.
pub(super) fn parse(text: &str) -> Option<Vec<QueueInfo>> {
    let mut found = Vec::new();
    let mut columns: Option<Vec<String>> = None;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let names = || line.split_whitespace().map(str::to_ascii_lowercase).collect::<Vec<_>>();
        if columns.is_none() && names().iter().any(|name| name == "qid") && !line.contains('=') {
            let is_head = line.split_whitespace().all(|word| word.parse::<u32>().is_err());
            if is_head && !line.contains(':') {
                columns = Some(names());
                continue;
            }
        }
        let pairs = match &columns {
            Some(columns) => {
                columns.iter().cloned().zip(line.split_whitespace().map(str::to_owned)).collect()
            }
            None => pairs(line),
        };
        found.push(record(&pairs)?);
    }
    Some(found)
}

/// Names and values of a line, the names in small letters.
fn pairs(line: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut name: Option<String> = None;
    for word in line.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty()) {
        if let Some(name) = name.take() {
            pairs.push((name, word.trim_start_matches('=').to_owned()));
        } else if let Some((before, value)) = word.split_once('=').or_else(|| word.split_once(':')) {
            if value.is_empty() {
                name = Some(before.to_ascii_lowercase());
            } else {
                pairs.push((before.to_ascii_lowercase(), value.to_owned()));
            }
        } else {
            name = Some(word.to_ascii_lowercase());
        }
    }
    pairs
}

fn record(pairs: &[(String, String)]) -> Option<QueueInfo> {
    let value = |names: &[&str]| {
        let found = pairs.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.map(|(_, value)| value.as_str())
    };
    let queue_id = value(&["qid", "queue", "queue_id"])?.parse().ok()?;
    let cpu = value(&["cpu", "io_cpu"]).and_then(|cpu| cpu.parse().ok());
    let local_port = value(&["src_port", "sport", "local_port"]);
    let peer_port = value(&["dst_port", "dport", "peer_port"]);
    let local = end(value(&["src", "src_addr", "saddr", "src_ip", "local"])?, local_port)?;
    let peer = end(value(&["dst", "dst_addr", "daddr", "dst_ip", "peer"])?, peer_port)?;
    Some(QueueInfo { queue_id, cpu, ends: (local, peer) })
}

/// An address with its port, or beside it.
fn end(text: &str, port: Option<&str>) -> Option<SocketAddr> {
    if let Ok(end) = text.parse::<SocketAddr>() {
        return Some(SocketAddr::new(end.ip().to_canonical(), end.port()));
    }
    let plain = text.trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = plain.split('%').next().unwrap_or_default().parse().ok()?;
    Some(SocketAddr::new(address.to_canonical(), port?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_are_read_in_each_form() {
        let expected = QueueInfo {
            queue_id: 1,
            cpu: Some(3),
            ends: ("10.0.0.1:50001".parse().unwrap(), "10.0.0.2:4420".parse().unwrap()),
        };
        for text in [
            "qid=1 cpu=3 src=10.0.0.1:50001 dst=10.0.0.2:4420\n",
            "qid: 1, cpu: 3, src: 10.0.0.1:50001, dst: 10.0.0.2:4420\n",
            "QID 1 CPU 3 SRC 10.0.0.1:50001 DST 10.0.0.2:4420\n",
            "qid=1 io_cpu=3 src_addr=10.0.0.1 src_port=50001 dst_addr=10.0.0.2 dst_port=4420",
            "qid cpu src dst\n1 3 10.0.0.1:50001 10.0.0.2:4420\n",
            "qid cpu src_ip src_port dst_ip dst_port\n1 3 10.0.0.1 50001 10.0.0.2 4420\n",
        ] {
            assert_eq!(parse(text), Some(vec![expected]), "{text}");
        }
        let text =
            "qid=2 cpu=0 src=[fd00::1]:50001 dst=[fd00::2]:4420\n\nqid=3 src=[fd00::1]:2 dst=[fd00::2]:1\n";
        let found = parse(text).unwrap();
        assert_eq!((found[0].queue_id, found[1].queue_id, found[1].cpu), (2, 3, None));
        assert_eq!(parse("").unwrap(), []);
        for text in ["nonsense", "qid=1 cpu=2", "cpu=2 src=10.0.0.1:1 dst=10.0.0.2:2"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn random_texts_never_panic(text in "(qid|cpu|src|dst|[0-9.:=\\[\\]% ,\\n]){0,30}") {
            let _ = parse(&text);
        }
    }
}
