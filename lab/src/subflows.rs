//! Options of connections as the kernel has them on each TCP connection and each subflow of MPTCP, by `ss`, and what of
//! them was asked for. It keeps out running the programs.

use serde::Serialize;

use crate::cell::{Cell, Family, Transport, Word as _};
use crate::network::host_device;
use crate::table::Table;

/// Mark of packets: AF11, without a bit of ECN, which TCP keeps for itself.
const MARK: u8 = 0x28;
/// Port on which a target listens.
const PORT: &str = ":4420";

/// Command that lists what is read here.
pub(crate) const SS: [&str; 6] = ["ss", "-tnH", "--tos", "state", "established", "dport = :4420"];

/// Option that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Asked {
    /// `--tos`, or `--tclass` where addresses are of IPv6.
    Mark,
    /// `--host-iface`.
    Interface,
}

impl Asked {
    pub(crate) const ALL: [Asked; 2] = [Asked::Mark, Asked::Interface];

    /// Words of the host's command line.
    pub(crate) fn flags(self, cell: &Cell) -> String {
        match self {
            Asked::Mark => format!("{} {MARK}", self.name(cell)),
            Asked::Interface => {
                let devices: Vec<String> = (1..=cell.paths).map(host_device).collect();
                format!("{} {}", self.name(cell), devices.join(","))
            }
        }
    }

    const fn name(self, cell: &Cell) -> &'static str {
        match (self, cell.family) {
            (Asked::Mark, Family::Ipv4) => "--tos",
            (Asked::Mark, Family::Ipv6 | Family::V4Mapped) => "--tclass",
            (Asked::Interface, _) => "--host-iface",
        }
    }

    fn is_on(self, cell: &Cell, socket: &Socket) -> bool {
        match self {
            // Packets to mapped addresses are IPv4.
            Asked::Mark if cell.family == Family::Ipv6 => socket.tclass == Some(MARK),
            Asked::Mark => socket.tos == MARK,
            Asked::Interface => socket.device.is_some(),
        }
    }
}

/// TCP connection, or subflow of an MPTCP connection, at the host's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Socket {
    /// Device that it is bound to.
    pub(crate) device: Option<String>,
    pub(crate) tos: u8,
    pub(crate) tclass: Option<u8>,
}

/// Reads the output of `ss`: connections to a target.
pub(crate) fn parse(text: &str) -> Vec<Socket> {
    text.lines().filter_map(socket).collect()
}

/// Reads one line: two queues, the host's end, the target's end, and options.
fn socket(line: &str) -> Option<Socket> {
    let mut words = line.split_whitespace().skip(2);
    let (local, peer) = (words.next()?, words.next()?);
    if !peer.ends_with(PORT) {
        return None;
    }
    let device = local.rsplit_once(':')?.0.rsplit_once('%').map(|(_, device)| device.to_owned());
    let (mut tos, mut tclass) = (None, None);
    for word in words {
        match word.split_once(':') {
            Some(("tos", value)) => tos = number(value),
            Some(("tclass", value)) => tclass = number(value),
            _ => {}
        }
    }
    Some(Socket { device, tos: tos?, tclass })
}

fn number(text: &str) -> Option<u8> {
    match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Observation of one option on the connections of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Seen {
    pub(crate) cell: Cell,
    pub(crate) asked: Asked,
    /// The sockets of one moment, with most of them; or the reason why there are none.
    pub(crate) sockets: Result<Vec<Socket>, String>,
}

impl Seen {
    /// True if a mark is missing on a connection that the program has made. A subflow that the kernel's path manager makes
    /// has the interface of its endpoint, and may have none.
    pub(crate) fn has_failed(&self) -> bool {
        match &self.sockets {
            Ok(sockets) => {
                let on = self.on(sockets);
                on == 0 || (on < sockets.len() && !self.may_lack_some())
            }
            Err(reason) => !(self.may_be_refused() && reason.contains("--tclass")),
        }
    }

    /// Linux up to 6.18 has no traffic class on MPTCP sockets.
    fn may_be_refused(&self) -> bool {
        let Cell { transport, family, .. } = self.cell;
        self.asked == Asked::Mark && transport == Transport::Mptcp && family == Family::Ipv6
    }

    fn may_lack_some(&self) -> bool {
        self.asked == Asked::Interface && self.cell.transport == Transport::Mptcp
    }

    fn on(&self, sockets: &[Socket]) -> usize {
        sockets.iter().filter(|socket| self.asked.is_on(&self.cell, socket)).count()
    }

    fn devices(sockets: &[Socket]) -> String {
        let name = |socket: &Socket| socket.device.clone().unwrap_or_else(|| "none".to_owned());
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for socket in sockets {
            *counts.entry(name(socket)).or_default() += 1;
        }
        let each: Vec<String> = counts.iter().map(|(device, count)| format!("{device} {count}")).collect();
        each.join(", ")
    }
}

/// Everything that was seen as a table.
pub(crate) fn table(all: &[Seen]) -> Table {
    let mut table = Table::new(&["connections", "option", "TCP connections", "with it", "interfaces"]);
    for seen in all {
        let Cell { transport, family, paths, .. } = seen.cell;
        let mut cells = vec![
            format!(
                "{} {}, {paths} path{}",
                transport.name(),
                family.name(),
                if paths == 1 { "" } else { "s" }
            ),
            seen.asked.name(&seen.cell).to_owned(),
        ];
        match &seen.sockets {
            Ok(sockets) => cells.extend([
                sockets.len().to_string(),
                seen.on(sockets).to_string(),
                Seen::devices(sockets),
            ]),
            Err(reason) => cells.extend(["-".to_owned(), format!("refused: {reason}")]),
        }
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    /// As `ss` of iproute2 6.1 prints it.
    const OUTPUT: &str = "\
0      0               10.1.1.2%th1:37618          10.1.1.1:4420  tos:0x28 class_id:0x2
0      0                   10.1.2.2:46559          10.1.1.1:4420  tos:0 class_id:0
0      0         [fd10:1:1::2]%th1:46344     [fd10:1:1::1]:4420  tos:0x28 tclass:0x28 class_id:0x2
0      0     [::ffff:10.1.1.2]%th1:59150 [::ffff:10.1.1.1]:4420  tos:0x28 tclass:0 class_id:0x2
0      0                   10.1.2.2:5000          10.1.1.1:44200 tos:0x28 class_id:0
nonsense
";

    fn on_device(tos: u8, tclass: Option<u8>) -> Socket {
        Socket { device: Some("th1".to_owned()), tos, tclass }
    }

    fn seen(transport: Transport, family: Family, asked: Asked, sockets: Vec<Socket>) -> Seen {
        let cell = Cell { transport, family, ..Cell::product(Scenario::Lossless) };
        Seen { cell, asked, sockets: Ok(sockets) }
    }

    #[test]
    fn reads_what_ss_prints() {
        let unbound = Socket { device: None, tos: 0, tclass: None };
        let expected =
            [on_device(0x28, None), unbound, on_device(0x28, Some(0x28)), on_device(0x28, Some(0))];
        assert_eq!(parse(OUTPUT), expected);
        assert!(parse("").is_empty());
    }

    #[test]
    fn every_subflow_needs_the_mark() {
        let judged = |transport, family, sockets: &[Socket]| {
            seen(transport, family, Asked::Mark, sockets.to_vec()).has_failed()
        };
        let (marked, not) = (on_device(0x28, Some(0x28)), on_device(0, Some(0)));
        assert!(!judged(Transport::Mptcp, Family::Ipv4, &[marked.clone(), marked.clone()]));
        assert!(judged(Transport::Mptcp, Family::Ipv4, &[marked, not]));
        assert!(judged(Transport::Tcp, Family::Ipv4, &[]), "nothing was seen");
        let tos_alone = [on_device(0x28, Some(0))];
        assert!(judged(Transport::Tcp, Family::Ipv6, &tos_alone));
        assert!(!judged(Transport::Mptcp, Family::V4Mapped, &tos_alone), "its packets are IPv4");
    }

    #[test]
    fn only_mptcp_over_ipv6_may_refuse_a_mark() {
        const REFUSAL: &str = "this kernel does not do it: leave out --tclass";
        let failed = |reason: &str, transport, family, asked| Seen {
            sockets: Err(reason.to_owned()),
            ..seen(transport, family, asked, Vec::new())
        };
        let allowed = failed(REFUSAL, Transport::Mptcp, Family::Ipv6, Asked::Mark);
        assert!(!allowed.has_failed());
        assert!(table(&[allowed]).text().contains(&format!("refused: {REFUSAL}")));
        assert!(failed("Connection refused", Transport::Mptcp, Family::Ipv6, Asked::Mark).has_failed());
        assert!(failed(REFUSAL, Transport::Tcp, Family::Ipv6, Asked::Mark).has_failed());
        assert!(failed(REFUSAL, Transport::Mptcp, Family::Ipv6, Asked::Interface).has_failed());
    }

    #[test]
    fn subflows_have_the_interfaces_of_their_endpoints() {
        let other = Socket { device: Some("th2".to_owned()), tos: 0, tclass: None };
        let none = Socket { device: None, ..other };
        let sockets = vec![on_device(0, None), other, none];
        let mptcp = seen(Transport::Mptcp, Family::Ipv4, Asked::Interface, sockets.clone());
        assert!(!mptcp.has_failed());
        let row = "| mptcp ipv4, 4 paths | --host-iface | 3 | 2 | none 1, th1 1, th2 1 |";
        assert!(table(&[mptcp]).markdown().contains(row));
        assert!(seen(Transport::Tcp, Family::Ipv4, Asked::Interface, sockets).has_failed());
    }

    #[test]
    fn flags_are_those_of_the_family() {
        let cell = |family| Cell { family, paths: 2, ..Cell::product(Scenario::Lossless) };
        assert_eq!(Asked::Mark.flags(&cell(Family::Ipv4)), "--tos 40");
        assert_eq!(Asked::Mark.flags(&cell(Family::V4Mapped)), "--tclass 40");
        assert_eq!(Asked::Interface.flags(&cell(Family::Ipv6)), "--host-iface th1,th2");
    }
}
