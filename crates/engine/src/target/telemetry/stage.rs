//! What a command's time is spent on while it is under way.

/// A part of a command's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Its data is on the way from the host.
    Receive,
    /// Limits of its namespace hold it back.
    Limits,
    /// It waits for a buffer within its queue's share.
    Buffer,
    /// The storage has it, or the reservation worker.
    Storage,
    /// Others go first: who has claimed its blocks, the other one of its pair, and whoever had the rest of its queue's turn.
    Others,
}

/// How many stages there are.
pub(crate) const STAGES: usize = Stage::ALL.len();

impl Stage {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 5] = [Self::Receive, Self::Limits, Self::Buffer, Self::Storage, Self::Others];

    /// Its name in metrics.
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

/// How long one command was in each stage, in nanoseconds; the last is what is left of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageTimes([u64; STAGES]);

impl StageTimes {
    /// It was in this stage for this time.
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
