//! What kernels with the series "nvme-tcp: NIC topology aware I/O queue scaling and queue info export" report about a
//! controller's queues in debugfs. What it means for flows is not here.

use std::net::{IpAddr, SocketAddr};

use super::flows::Ends;
use crate::limits::CPUS_MAX;

/// Queue of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueInfo {
    pub(super) queue_id: u16,
    pub(super) cpu: Option<u32>,
    pub(super) ends: Ends,
}

/// Reads one live queue a line, as the series of July 2026 prints it: `qid=1 cpu=3 src_ip=10.0.0.1 src_port=50001
/// dst_ip=10.0.0.2 dst_port=4420`. IPv6 addresses have no brackets, and a queue without a CPU has `cpu=-1`. Words with
/// other names are left for later versions. A line without a queue or an address, as of earlier forms of the series, is skipped;
/// the first one of these comes behind the queues.
pub(super) fn parse(text: &str) -> (Vec<QueueInfo>, Option<&str>) {
    let (mut infos, mut unknown) = (Vec::new(), None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match queue_info(line) {
            Some(info) => infos.push(info),
            None => unknown = unknown.or(Some(line)),
        }
    }
    (infos, unknown)
}

fn queue_info(line: &str) -> Option<QueueInfo> {
    let value = |name: &str| {
        let mut pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let end = |address: &str, port: &str| {
        // A link-local address may have its interface behind it.
        let address: IpAddr = value(address)?.split('%').next()?.parse().ok()?;
        Some(SocketAddr::new(address.to_canonical(), value(port)?.parse().ok()?))
    };
    let cpu = match value("cpu")? {
        "-1" => None,
        number => Some(number.parse().ok().filter(|cpu| *cpu < CPUS_MAX)?),
    };
    let ends = (end("src_ip", "src_port")?, end("dst_ip", "dst_port")?);
    Some(QueueInfo { queue_id: value("qid")?.parse().ok()?, cpu, ends })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_july_2026_are_read() {
        let text = "qid=1 cpu=3 src_ip=10.0.0.1 src_port=50001 dst_ip=10.0.0.2 dst_port=4420\n\
            qid=2 cpu=-1 src_ip=fd00::1 src_port=50002 dst_ip=fd00::2 dst_port=8009\n\
            \nqid=3 cpu=0 src_ip=::ffff:10.0.0.1 src_port=3 dst_ip=fe80::2%eth0 dst_port=4 more=5\n";
        let info = |queue_id, cpu, local: &str, peer: &str| QueueInfo {
            queue_id,
            cpu,
            ends: (local.parse().unwrap(), peer.parse().unwrap()),
        };
        let expected = vec![
            info(1, Some(3), "10.0.0.1:50001", "10.0.0.2:4420"),
            info(2, None, "[fd00::1]:50002", "[fd00::2]:8009"),
            info(3, Some(0), "10.0.0.1:3", "[fe80::2]:4"),
        ];
        assert_eq!(parse(text), (expected, None));
        assert_eq!(parse(""), (Vec::new(), None));
    }

    #[test]
    fn lines_without_a_queue_or_an_address_are_skipped() {
        let whole = "qid=1 cpu=3 src_ip=10.0.0.1 src_port=50001 dst_ip=10.0.0.2 dst_port=4420";
        assert_eq!(parse(whole).1, None);
        for (from, to) in [
            ("qid=1 ", ""),
            ("qid=1", "qid=65536"),
            ("cpu=3 ", ""),
            ("cpu=3", "cpu=-2"),
            ("cpu=3", "cpu=4294967295"),
            ("src_ip=10.0.0.1", "src_ip=[fd00::1]"),
            ("src_port=50001", "src_port=70000"),
            ("dst_port=4420", ""),
            ("dst_ip=10.0.0.2", "dst_ip=10.0.0.2:4420"),
        ] {
            let line = whole.replace(from, to);
            assert_eq!(parse(&line), (Vec::new(), Some(&*line)), "{from} {to}");
        }
        let text = format!("qid=1\n{whole}\nnonsense\n");
        let (infos, unknown) = parse(&text);
        assert_eq!((infos.len(), unknown), (1, Some("qid=1")));
    }

    proptest! {
        #[test]
        fn random_texts_never_panic(text in "(qid=|cpu=|(src|dst)_(ip|port)=|[0-9.:% \\n-]){0,30}") {
            let _ = parse(&text);
        }
    }
}
