//! Stages of a command's time while it is under way.

/// A part of a command's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Transfer of the command's data from the host.
    Receive,
    /// Wait for the limits of the namespace.
    Limits,
    /// Wait for a buffer within the queue's share.
    Buffer,
    /// Work of the storage, or of the reservation worker.
    Storage,
    /// Wait for others: a claim on the blocks, the other command of the pair, or other work in the
    /// queue's turn.
    Others,
}

/// Number of stages.
pub(crate) const STAGES: usize = Stage::ALL.len();

impl Stage {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 5] = [Self::Receive, Self::Limits, Self::Buffer, Self::Storage, Self::Others];

    /// Name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Limits => "limits",
            Self::Buffer => "buffer",
            Self::Storage => "storage",
            Self::Others => "others",
        }
    }
}

/// Time of a command in each stage, in nanoseconds; the last is the remainder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageTimes([u64; STAGES]);

impl StageTimes {
    /// Adds time spent in a stage.
    pub(crate) const fn add(&mut self, stage: Stage, took_ns: u64) {
        self.0[stage as usize] += took_ns;
    }

    /// The times of a command that took so long in all: they add up to that.
    pub(crate) fn of(mut self, took_ns: u64) -> [u64; STAGES] {
        let known: u64 = self.0.iter().sum();
        self.add(Stage::Others, took_ns.saturating_sub(known));
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_stand_at_their_numbers() {
        for (number, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, number);
        }
    }

    #[test]
    fn times_add_up() {
        let mut times = StageTimes::default();
        times.add(Stage::Receive, 3);
        times.add(Stage::Storage, 5);
        times.add(Stage::Storage, 2);
        assert_eq!(times.of(15), [3, 0, 0, 7, 5]);
        assert_eq!(times.of(9), [3, 0, 0, 7, 0]);
    }
}
