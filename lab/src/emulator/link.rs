//! One direction of a link as arithmetic: what is lost, what finds the queue full, and when the rest arrives. It knows
//! no device, and time is a number that it is given.

use std::ops::Range;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::segment::Shape;

/// Unit of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LossUnit {
    /// A packet as the kernel hands it over, up to 64 KiB, as netem loses them.
    Skb,
    /// A packet on the wire, as a real link loses them.
    Mtu,
}

/// Properties of a link, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Megabits per second, above 0.
    pub(crate) rate_mbit: f64,
    /// Delay one way, in milliseconds.
    pub(crate) delay_ms: f64,
    /// Probability of a loss, 0 to 1.
    pub(crate) loss: f64,
    pub(crate) mode: LossUnit,
    /// Bytes that wait at most before the link, in kilobytes; what comes then is dropped.
    pub(crate) queue_kb: u64,
    /// A link that is not up swallows everything.
    pub(crate) up: bool,
}

impl Default for Settings {
    /// A gigabit without delay or loss. The queue is as long as netem's default of 1,000 packets of many segments is in
    /// the seed's experiment.
    fn default() -> Self {
        Self { rate_mbit: 1000.0, delay_ms: 0.0, loss: 0.0, mode: LossUnit::Skb, queue_kb: 16_000, up: true }
    }
}

impl Settings {
    /// Time to send `bytes` at this rate, in nanoseconds.
    fn transmission_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * 8000.0 / self.rate_mbit) as u64
    }

    fn delay_ns(&self) -> u64 {
        (self.delay_ms * 1e6) as u64
    }
}

/// Counters of one direction, in segments and bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub(crate) delivered_segments: u64,
    pub(crate) delivered_bytes: u64,
    /// At random.
    pub(crate) lost_segments: u64,
    /// By a full queue.
    pub(crate) dropped_segments: u64,
    /// By a cut.
    pub(crate) swallowed_segments: u64,
    /// By the device that was to take them.
    pub(crate) refused_segments: u64,
}

/// Segments of one packet that stay together, and when they arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) segments: Range<usize>,
    pub(crate) wire_bytes: u64,
    pub(crate) arrival_ns: u64,
}

/// Direction of a link.
#[derive(Debug)]
pub(crate) struct Direction {
    dice: Dice,
    /// Time at which the last accepted byte leaves.
    busy_until_ns: u64,
    /// Time of the last arrival: packets keep their order, also when the delay has become smaller
    /// meanwhile.
    last_arrival_ns: u64,
    runs: Vec<Run>,
    pub(crate) counters: Counters,
}

impl Direction {
    /// A direction whose losses depend on `seed` and on what it carries, and on nothing else.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            busy_until_ns: 0,
            last_arrival_ns: 0,
            runs: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Parts of a packet that arrive, with their times, in order. The rest is counted.
    pub(crate) fn carry(&mut self, settings: &Settings, shape: &Shape, now_ns: u64) -> &[Run] {
        self.runs.clear();
        let segments = shape.segments();
        if !settings.up {
            self.counters.swallowed_segments += segments as u64;
            return &self.runs;
        }
        self.busy_until_ns = self.busy_until_ns.max(now_ns);
        match settings.mode {
            LossUnit::Skb => self.carry_run(settings, shape, 0..segments, now_ns),
            // Without loss and with room for all, there is nothing to decide for each segment.
            LossUnit::Mtu
                if settings.loss == 0.0 && self.has_room(settings, shape.wire_bytes(0..segments), now_ns) =>
            {
                self.carry_run(settings, shape, 0..segments, now_ns);
            }
            LossUnit::Mtu => {
                for segment in 0..segments {
                    self.carry_run(settings, shape, segment..segment + 1, now_ns);
                }
            }
        }
        &self.runs
    }

    /// Drops all segments on the way, as when a cable is cut.
    pub(crate) fn forget(&mut self, segments: u64) {
        self.counters.swallowed_segments += segments;
        self.busy_until_ns = 0;
    }

    fn carry_run(&mut self, settings: &Settings, shape: &Shape, segments: Range<usize>, now_ns: u64) {
        let count = segments.len() as u64;
        let wire_bytes = shape.wire_bytes(segments.clone());
        if self.dice.hits(settings.loss) {
            self.counters.lost_segments += count;
            return;
        }
        // A queue that is not full takes a whole packet, so that a short one still takes the longest.
        if !self.has_room(settings, 0, now_ns) {
            self.counters.dropped_segments += count;
            return;
        }
        self.busy_until_ns += settings.transmission_ns(wire_bytes);
        let arrival_ns = (self.busy_until_ns + settings.delay_ns()).max(self.last_arrival_ns);
        self.last_arrival_ns = arrival_ns;
        match self.runs.last_mut() {
            Some(last) if last.segments.end == segments.start => {
                last.segments.end = segments.end;
                last.wire_bytes += wire_bytes;
                last.arrival_ns = arrival_ns;
            }
            _ => self.runs.push(Run { segments, wire_bytes, arrival_ns }),
        }
    }

    /// True if the queue, with `more` bytes in it, is not full.
    fn has_room(&self, settings: &Settings, more: u64, now_ns: u64) -> bool {
        let waiting_ns = self.busy_until_ns.saturating_sub(now_ns) + settings.transmission_ns(more);
        waiting_ns <= settings.transmission_ns(settings.queue_kb * 1000)
    }
}

/// Chance that can be repeated (xorshift64*).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike, and the state must not be 0.
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = dice.next());
        dice
    }

    /// The next 32 bits.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number from 0 up to, and without, 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        f64::from(self.next()) / 4_294_967_296.0
    }

    /// True with this probability. Nothing is thrown where it is 0, so that links without loss cost nothing.
    fn hits(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::VNET_HEADER;
    use super::*;

    /// A packet that takes `wire_bytes` on the wire, in one segment.
    fn single(wire_bytes: usize) -> Shape {
        Shape::of(&vec![0; VNET_HEADER + wire_bytes - 14])
    }

    /// A packet of ten segments with 1,448 bytes of payload and 66 of headers each.
    fn ten() -> Shape {
        let mut bytes = vec![0; VNET_HEADER + 52 + 10 * 1448];
        bytes[1] = 1;
        bytes[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
        bytes[VNET_HEADER] = 0x45;
        bytes[VNET_HEADER + 9] = 6;
        bytes[VNET_HEADER + 20 + 12] = 8 << 4;
        let shape = Shape::of(&bytes);
        assert_eq!(shape.segments(), 10);
        shape
    }

    fn arrivals(runs: &[Run]) -> Vec<u64> {
        runs.iter().map(|run| run.arrival_ns).collect()
    }

    #[test]
    fn a_gigabit_takes_eight_nanoseconds_a_byte_and_then_the_delay() {
        let settings = Settings { delay_ms: 5.0, ..Settings::default() };
        let mut direction = Direction::new(1);
        assert_eq!(arrivals(direction.carry(&settings, &single(1000), 100)), [100 + 8_000 + 5_000_000]);
        // The second waits for the first; the third finds the link idle.
        assert_eq!(arrivals(direction.carry(&settings, &single(500), 200)), [100 + 12_000 + 5_000_000]);
        assert_eq!(arrivals(direction.carry(&settings, &single(500), 50_000)), [50_000 + 4_000 + 5_000_000]);
    }

    #[test]
    fn a_packet_of_many_segments_pays_for_all_their_headers() {
        let mut direction = Direction::new(1);
        for mode in [LossUnit::Skb, LossUnit::Mtu] {
            let settings = Settings { mode, ..Settings::default() };
            let at_ns = direction.busy_until_ns;
            let runs = direction.carry(&settings, &ten(), at_ns);
            assert_eq!(runs, [Run { segments: 0..10, wire_bytes: 15_140, arrival_ns: at_ns + 10 * 12_112 }]);
        }
    }

    #[test]
    fn a_full_queue_drops() {
        let settings = Settings { queue_kb: 3, ..Settings::default() };
        let mut direction = Direction::new(1);
        let taken = (0..10).filter(|_| !direction.carry(&settings, &single(1000), 0).is_empty()).count();
        // Three fill the queue, and the fourth still finds it not overfull.
        assert_eq!((taken, direction.counters.dropped_segments), (4, 6));
        assert!(direction.carry(&settings, &single(1000), 8_001).len() == 1);
    }

    #[test]
    fn a_full_queue_drops_the_end_of_a_packet_on_a_real_link() {
        let settings = Settings { queue_kb: 3, mode: LossUnit::Mtu, ..Settings::default() };
        let mut direction = Direction::new(1);
        let runs = direction.carry(&settings, &ten(), 0);
        assert_eq!(runs, [Run { segments: 0..2, wire_bytes: 3028, arrival_ns: 2 * 12_112 }]);
        assert_eq!(direction.counters.dropped_segments, 8);
    }

    #[test]
    fn loss_of_segments_leaves_the_runs_between() {
        let settings = Settings { loss: 0.3, mode: LossUnit::Mtu, ..Settings::default() };
        let mut direction = Direction::new(7);
        let (mut kept, mut packets_in_parts) = (0, 0);
        for _ in 0..10_000 {
            let now_ns = direction.busy_until_ns;
            let runs = direction.carry(&settings, &ten(), now_ns).to_vec();
            kept += runs.iter().map(|run| run.segments.len()).sum::<usize>();
            packets_in_parts += usize::from(runs.len() > 1);
            assert!(runs.windows(2).all(|pair| pair[0].segments.end < pair[1].segments.start));
            assert!(runs.windows(2).all(|pair| pair[0].arrival_ns < pair[1].arrival_ns));
        }
        assert_eq!(kept as u64 + direction.counters.lost_segments, 100_000);
        let share = direction.counters.lost_segments as f64 / 100_000.0;
        assert!((0.29..0.31).contains(&share), "{share}");
        assert!(packets_in_parts > 5_000);
    }

    #[test]
    fn netems_way_loses_all_segments_or_none() {
        let settings = Settings { loss: 0.5, ..Settings::default() };
        let mut direction = Direction::new(3);
        for _ in 0..100 {
            let now_ns = direction.busy_until_ns;
            let runs = direction.carry(&settings, &ten(), now_ns);
            assert!(runs.is_empty() || runs[0].segments == (0..10));
        }
        assert!((200..800).contains(&direction.counters.lost_segments));
    }

    #[test]
    fn the_same_seed_loses_the_same() {
        let settings = Settings { loss: 0.2, mode: LossUnit::Mtu, ..Settings::default() };
        let all = |seed| {
            let mut direction = Direction::new(seed);
            (0..50).flat_map(|_| direction.carry(&settings, &ten(), 0).to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(all(5), all(5));
        assert_ne!(all(5), all(6));
    }

    #[test]
    fn a_cut_link_swallows() {
        let settings = Settings { up: false, ..Settings::default() };
        let mut direction = Direction::new(1);
        assert!(direction.carry(&settings, &ten(), 0).is_empty());
        direction.forget(5);
        assert_eq!(direction.counters, Counters { swallowed_segments: 15, ..Counters::default() });
    }

    #[test]
    fn nothing_overtakes_when_the_delay_shrinks() {
        let far = Settings { delay_ms: 20.0, ..Settings::default() };
        let mut direction = Direction::new(1);
        let first = arrivals(direction.carry(&far, &single(1000), 0));
        assert_eq!(arrivals(direction.carry(&Settings::default(), &single(1000), 1_000_000)), first);
    }

    #[test]
    fn a_changed_rate_counts_from_the_next_packet_on() {
        let mut direction = Direction::new(1);
        direction.carry(&Settings::default(), &single(1000), 0);
        let slow = Settings { rate_mbit: 250.0, ..Settings::default() };
        assert_eq!(arrivals(direction.carry(&slow, &single(1000), 0)), [8_000 + 32_000]);
    }
}
