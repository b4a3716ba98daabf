//! MPTCP against several paths over TCP: the faster one in each cell, as far as the runs show it, as tables and as one
//! sentence. It keeps out running them.

use serde::Serialize;

use crate::cell::{Access, Cell, Transport, Word as _};
use crate::outcome::{CellOutcome, TOLERANCE};
use crate::statistics::Estimate;
use crate::table::{Table, ratio, spread};

/// Runs of each side below which nothing is decided: with four, equal sides would be disjoint in 3 % of all cells, with
/// five in 1 %.
const RUNS_MIN: usize = 4;

/// Result of a duel for MPTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Judgement {
    Wins,
    Loses,
    /// The intervals overlap, the difference is within 3 %, or there are too few runs.
    Undecided,
}

impl Judgement {
    const fn word(self) -> &'static str {
        match self {
            Judgement::Wins => "wins",
            Judgement::Loses => "loses",
            Judgement::Undecided => "undecided",
        }
    }

    fn of(mptcp: Option<&Estimate>, tcp: Option<&Estimate>) -> Judgement {
        let (Some(mptcp), Some(tcp)) = (mptcp, tcp) else { return Judgement::Undecided };
        let is_faster = |one: &Estimate, other: &Estimate| {
            one.low > other.high && one.median > other.median * (1.0 + TOLERANCE)
        };
        if mptcp.runs.min(tcp.runs) < RUNS_MIN {
            Judgement::Undecided
        } else if is_faster(mptcp, tcp) {
            Judgement::Wins
        } else if is_faster(tcp, mptcp) {
            Judgement::Loses
        } else {
            Judgement::Undecided
        }
    }
}

/// Direction of a cell over both transports.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Duel {
    /// Cells of both sides.
    pub(crate) mptcp_cell: Cell,
    pub(crate) tcp_cell: Cell,
    pub(crate) access: Access,
    pub(crate) mptcp: Option<Estimate>,
    pub(crate) tcp: Option<Estimate>,
    pub(crate) judgement: Judgement,
}

impl Duel {
    fn of(mptcp: &CellOutcome, tcp: &CellOutcome, access: Access) -> Duel {
        let [of_mptcp, of_tcp] = [mptcp, tcp].map(|outcome| outcome.estimate(access));
        Duel {
            mptcp_cell: mptcp.cell,
            tcp_cell: tcp.cell,
            access,
            mptcp: of_mptcp,
            tcp: of_tcp,
            judgement: Judgement::of(of_mptcp.as_ref(), of_tcp.as_ref()),
        }
    }

    /// Network of both sides: `lossy read, ipv6`.
    fn network(&self) -> String {
        let marks: String = self.mptcp_cell.marks().iter().map(|mark| format!(", {mark}")).collect();
        format!("{} {}{marks}", self.mptcp_cell.scenario.name(), self.access.name())
    }
}

/// Every cell over MPTCP against the same cell over TCP.
pub(crate) fn duels(outcomes: &[CellOutcome]) -> Vec<Duel> {
    let of_mptcp = outcomes.iter().filter(|outcome| outcome.cell.transport == Transport::Mptcp);
    let pairs = of_mptcp.filter_map(|mptcp| {
        let same = Cell { transport: Transport::Tcp, ..mptcp.cell };
        outcomes.iter().find(|outcome| outcome.cell == same).map(|tcp| (mptcp, tcp))
    });
    pairs.flat_map(|(mptcp, tcp)| Access::BOTH.map(|access| Duel::of(mptcp, tcp, access))).collect()
}

/// The fastest settings of MPTCP against the fastest of TCP, for each network and direction that was measured.
pub(crate) fn best_duels(outcomes: &[CellOutcome]) -> Vec<Duel> {
    let network = |cell: &Cell| (cell.family, cell.tls, cell.scenario);
    let mut networks = Vec::new();
    for outcome in outcomes {
        if !networks.contains(&network(&outcome.cell)) {
            networks.push(network(&outcome.cell));
        }
    }
    let mut duels = Vec::new();
    for wanted in networks {
        for access in Access::BOTH {
            let best = |transport: Transport| {
                let candidates = outcomes.iter().filter(|outcome| {
                    outcome.cell.transport == transport && network(&outcome.cell) == wanted
                });
                let figures = candidates.filter_map(|outcome| Some((outcome.figure(access)?, outcome)));
                figures.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, outcome)| outcome)
            };
            if let (Some(mptcp), Some(tcp)) = (best(Transport::Mptcp), best(Transport::Tcp)) {
                duels.push(Duel::of(mptcp, tcp, access));
            }
        }
    }
    duels
}

/// The duels of single cells as a table.
pub(crate) fn duel_table(duels: &[Duel]) -> Table {
    let mut table = Table::new(&["cell", "MPTCP MB/s", "TCP MB/s", "ratio", "MPTCP"]);
    for duel in duels {
        let scenario = duel.mptcp_cell.scenario.name();
        let cell = format!("{scenario} {}, {}", duel.mptcp_cell.settings(), duel.access.name());
        table.row(row(cell, duel));
    }
    table
}

/// The duels of each side's best settings as a table.
pub(crate) fn best_table(duels: &[Duel]) -> Table {
    let mut table = Table::new(&[
        "links",
        "best MPTCP MB/s",
        "best TCP MB/s",
        "ratio",
        "MPTCP",
        "settings of MPTCP",
        "settings of TCP",
    ]);
    for duel in duels {
        let mut cells = row(duel.network(), duel);
        cells.extend([duel.mptcp_cell, duel.tcp_cell].map(|cell| cell.settings()));
        table.row(cells);
    }
    table
}

fn row(name: String, duel: &Duel) -> Vec<String> {
    let median = |side: Option<Estimate>| side.map(|estimate| estimate.median);
    vec![
        name,
        spread(duel.mptcp.as_ref()),
        spread(duel.tcp.as_ref()),
        ratio(median(duel.mptcp), median(duel.tcp)),
        duel.judgement.word().to_owned(),
    ]
}

/// The sentence for an operator, from the duels of the best settings.
pub(crate) fn sentence(best: &[Duel]) -> String {
    let of = |judgement: Judgement| -> Vec<String> {
        best.iter().filter(|duel| duel.judgement == judgement).map(Duel::network).collect()
    };
    let (wins, loses) = (of(Judgement::Wins), of(Judgement::Loses));
    let undecided = best.len() - wins.len() - loses.len();
    let advice = match (wins.is_empty(), loses.is_empty()) {
        (true, true) => {
            return format!(
                "Neither MPTCP nor several paths over TCP is better over these links, as far as {} comparisons of their \
                 best settings show: use several paths, which need no support of the kernel.",
                best.len()
            );
        }
        (true, false) => "Use several paths over TCP".to_owned(),
        (false, true) => "Use MPTCP".to_owned(),
        (false, false) if wins.len() > loses.len() => {
            format!("Use MPTCP, but several paths over TCP for {}", loses.join("; "))
        }
        (false, false) => format!("Use several paths over TCP, but MPTCP for {}", wins.join("; ")),
    };
    format!(
        "{advice}: with the best settings of each, MPTCP wins {} and loses {} of {} comparisons; {undecided} are undecided.",
        wins.len(),
        loses.len(),
        best.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Congestion, Family};
    use crate::scenario::Scenario;

    fn cell(transport: Transport, congestion: Congestion) -> Cell {
        Cell { transport, congestion, queues: Some(4), ..Cell::product(Scenario::Lossy) }
    }

    /// Five reads around `read`, and as many writes around `write`.
    fn outcome(cell: Cell, read: f64, write: f64) -> CellOutcome {
        let around = |figure: f64| [-2.0, -1.0, 0.0, 1.0, 2.0].map(|step| figure + step).to_vec();
        CellOutcome { read_mb_s: around(read), write_mb_s: around(write), ..CellOutcome::new(cell) }
    }

    #[test]
    fn only_a_difference_beyond_the_runs_and_three_percent_decides() {
        let judged = |mptcp: &[f64], tcp: &[f64]| {
            let [mptcp, tcp] = [mptcp, tcp].map(Estimate::of);
            Judgement::of(mptcp.as_ref(), tcp.as_ref())
        };
        let hundred = [98.0, 99.0, 100.0, 101.0, 102.0];
        assert_eq!(judged(&[103.0, 104.0, 105.0, 106.0, 107.0], &hundred), Judgement::Wins);
        assert_eq!(judged(&hundred, &[103.0, 104.0, 105.0, 106.0, 107.0]), Judgement::Loses);
        assert_eq!(
            judged(&[102.0, 110.0, 120.0, 130.0, 140.0], &hundred),
            Judgement::Undecided,
            "they touch"
        );
        assert_eq!(judged(&[102.1; 5], &hundred), Judgement::Undecided, "2 % are too little");
        assert_eq!(judged(&[200.0; 3], &hundred), Judgement::Undecided, "three runs are too few");
        assert_eq!(judged(&[], &hundred), Judgement::Undecided);
    }

    #[test]
    fn a_cell_meets_the_same_over_tcp() {
        let outcomes = [
            outcome(cell(Transport::Tcp, Congestion::Cubic), 100.0, 300.0),
            outcome(cell(Transport::Mptcp, Congestion::Cubic), 200.0, 200.0),
            outcome(cell(Transport::Mptcp, Congestion::Bbr), 500.0, 500.0),
        ];
        let duels = duels(&outcomes);
        let found: Vec<_> = duels.iter().map(|duel| duel.judgement).collect();
        assert_eq!(found, [Judgement::Wins, Judgement::Loses], "bbr has no counterpart");
        let table = duel_table(&duels).markdown();
        let row = "| lossy 4 latency, cubic, 4 queues, read | 200 (198-202) | 100 (98-102) | 2.00 | wins |";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn the_best_meet_the_best_of_their_network() {
        let other_family = Cell { family: Family::Ipv6, ..cell(Transport::Tcp, Congestion::Bbr) };
        let outcomes = [
            outcome(cell(Transport::Tcp, Congestion::Cubic), 100.0, 300.0),
            outcome(cell(Transport::Tcp, Congestion::Bbr), 400.0, 300.0),
            outcome(cell(Transport::Mptcp, Congestion::Cubic), 200.0, 310.0),
            outcome(cell(Transport::Mptcp, Congestion::Bbr), 150.0, 380.0),
            outcome(other_family, 900.0, 900.0),
        ];
        let best = best_duels(&outcomes);
        let found: Vec<_> = best
            .iter()
            .map(|duel| (duel.judgement, duel.mptcp_cell.congestion, duel.tcp_cell.congestion))
            .collect();
        assert_eq!(found[0], (Judgement::Loses, Congestion::Cubic, Congestion::Bbr));
        assert_eq!((found.len(), found[1].0, found[1].1), (2, Judgement::Wins, Congestion::Bbr));
        assert!(best_table(&best).text().contains("lossy write"));
    }

    #[test]
    fn the_sentence_says_what_to_use() {
        let [faster, slower] = [Transport::Mptcp, Transport::Tcp].map(|transport| {
            let other = if transport == Transport::Tcp { Transport::Mptcp } else { Transport::Tcp };
            best_duels(&[
                outcome(cell(transport, Congestion::Bbr), 400.0, 400.0),
                outcome(cell(other, Congestion::Bbr), 200.0, 200.0),
            ])
        });
        assert_eq!(
            sentence(&faster),
            "Use MPTCP: with the best settings of each, MPTCP wins 2 and loses 0 of 2 comparisons; 0 are undecided."
        );
        assert!(sentence(&slower).starts_with("Use several paths over TCP: "));
        let mixed = [faster[0].clone(), slower[1].clone()];
        let said = sentence(&mixed);
        assert!(said.starts_with("Use several paths over TCP, but MPTCP for lossy read: "), "{said}");
        let most = [faster[0].clone(), faster[1].clone(), slower[1].clone()];
        assert!(sentence(&most).starts_with("Use MPTCP, but several paths over TCP for lossy write: "));
        let even = Duel { judgement: Judgement::Undecided, ..faster[0].clone() };
        assert!(sentence(&[even]).starts_with("Neither"));
    }
}
