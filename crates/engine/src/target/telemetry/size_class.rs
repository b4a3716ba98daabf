//! How many bytes a command moves, in classes: what is quick for a large one is slow for a small one.

/// A class of commands by their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SizeClass {
    /// Up to 4 KiB, and those without data.
    Small,
    /// Up to 64 KiB.
    Medium,
    /// All others.
    Large,
}

/// Number of size classes.
pub(crate) const SIZES: usize = SizeClass::ALL.len();

impl SizeClass {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// The class of a command that moves this number of bytes.
    pub(crate) const fn of(length: u32) -> Self {
        match length {
            0..=0x1000 => Self::Small,
            0x1001..=0x1_0000 => Self::Medium,
            _ => Self::Large,
        }
    }

    /// Name in metrics: the largest size of a command in the class, in bytes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "4k",
            Self::Medium => "64k",
            Self::Large => "larger",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_stand_at_their_numbers_and_end_where_they_say() {
        for (number, class) in SizeClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number);
        }
        for (length, class) in [(0, SizeClass::Small), (4096, SizeClass::Small), (4097, SizeClass::Medium)] {
            assert_eq!(SizeClass::of(length), class, "{length}");
        }
        assert_eq!(SizeClass::of(64 << 10), SizeClass::Medium);
        assert_eq!(SizeClass::of((64 << 10) + 1), SizeClass::Large);
        assert_eq!(SizeClass::of(u32::MAX), SizeClass::Large);
    }
}
