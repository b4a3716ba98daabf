//! Commands to the emulator while it runs, a line each, as values. Their execution is elsewhere.

use super::link::{LossUnit, Settings};

/// Command on a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// Links, by index, become otherwise.
    Set(Vec<usize>, Change),
    /// Links swallow what goes one way, until they are restored.
    CutOneWay(Vec<usize>, LinkDirection),
    /// The counters of all links.
    Counters,
    Quit,
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkDirection {
    ToHost,
    ToTarget,
}

impl LinkDirection {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            LinkDirection::ToHost => "to-host",
            LinkDirection::ToTarget => "to-target",
        }
    }
}

/// Change of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    RateMbit(f64),
    DelayMs(f64),
    Loss(f64),
    Mode(LossUnit),
    QueueKb(u64),
    Up(bool),
}

impl Change {
    /// A change by the name of the setting and its value.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub(crate) fn parse(name: &str, value: &str) -> Result<Change, String> {
        match name {
            "rate" => number(name, value, 0.001, 1e6).map(Change::RateMbit),
            "delay" => number(name, value, 0.0, 10_000.0).map(Change::DelayMs),
            "loss" => number(name, value, 0.0, 1.0).map(Change::Loss),
            "queue" => number(name, value, 0.0, 1e6).map(|kilobytes| Change::QueueKb(kilobytes as u64)),
            "mode" if value == "skb" => Ok(Change::Mode(LossUnit::Skb)),
            "mode" if value == "mtu" => Ok(Change::Mode(LossUnit::Mtu)),
            "mode" => Err(format!("mode is skb or mtu, not `{value}`")),
            _ => Err(format!("there is no setting `{name}`; there are rate, delay, loss, queue and mode")),
        }
    }

    /// Puts the change into effect.
    pub(crate) fn apply(self, settings: &mut Settings) {
        match self {
            Change::RateMbit(rate) => settings.rate_mbit = rate,
            Change::DelayMs(delay) => settings.delay_ms = delay,
            Change::Loss(loss) => settings.loss = loss,
            Change::Mode(mode) => settings.mode = mode,
            Change::QueueKb(queue) => settings.queue_kb = queue,
            Change::Up(up) => settings.up = up,
        }
    }
}

/// Reads one line, for an emulator of `links` links.
///
/// # Errors
/// What is wrong with it, for a person.
pub(crate) fn parse(line: &str, links: usize) -> Result<Command, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["set", which, name, value] => Ok(Command::Set(indexes(which, links)?, Change::parse(name, value)?)),
        ["cut", which] => Ok(Command::Set(indexes(which, links)?, Change::Up(false))),
        ["cut", which, direction] => match [LinkDirection::ToHost, LinkDirection::ToTarget].iter().find(|known| known.name() == direction) {
            Some(direction) => Ok(Command::CutOneWay(indexes(which, links)?, *direction)),
            None => Err(format!("a link is cut to-host or to-target, not `{direction}`")),
        },
        ["restore", which] => Ok(Command::Set(indexes(which, links)?, Change::Up(true))),
        ["counters"] => Ok(Command::Counters),
        ["quit"] => Ok(Command::Quit),
        _ => Err("known are: set LINK|all rate|delay|loss|queue|mode VALUE, cut LINK [to-host|to-target], restore LINK, counters, quit"
            .to_owned()),
    }
}

/// Links are counted from 1 outside, from 0 inside.
fn indexes(which: &str, links: usize) -> Result<Vec<usize>, String> {
    if which == "all" {
        return Ok((0..links).collect());
    }
    match which.parse::<usize>() {
        Ok(link) if (1..=links).contains(&link) => Ok(vec![link - 1]),
        _ => Err(format!("links are 1 to {links}, or all, not `{which}`")),
    }
}

fn number(name: &str, value: &str, least: f64, most: f64) -> Result<f64, String> {
    match value.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("{name} is a number from {least} to {most}, not `{value}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_link_becomes() {
        assert_eq!(parse("set 2 rate 250", 4), Ok(Command::Set(vec![1], Change::RateMbit(250.0))));
        assert_eq!(parse("  set all delay 0.5 ", 2), Ok(Command::Set(vec![0, 1], Change::DelayMs(0.5))));
        assert_eq!(parse("set 1 mode mtu", 1), Ok(Command::Set(vec![0], Change::Mode(LossUnit::Mtu))));
        assert_eq!(parse("cut 4", 4), Ok(Command::Set(vec![3], Change::Up(false))));
        assert_eq!(parse("cut 4 to-host", 4), Ok(Command::CutOneWay(vec![3], LinkDirection::ToHost)));
        assert_eq!(parse("restore all", 1), Ok(Command::Set(vec![0], Change::Up(true))));
        assert_eq!(parse("quit", 4), Ok(Command::Quit));
    }

    #[test]
    fn refuses_what_no_link_can_be() {
        let wrong = [
            "",
            "set",
            "set 0 rate 1",
            "set 5 rate 1",
            "set 1 rate 0",
            "set 1 rate nan",
            "set 1 loss 1.5",
            "set 1 delay -1",
            "set 1 queue x",
            "set 1 colour 3",
            "set 1 mode both",
            "cut",
            "cut x",
            "cut 1 sideways",
            "quit now",
        ];
        for line in wrong {
            assert!(parse(line, 4).is_err(), "{line}");
        }
    }
}
