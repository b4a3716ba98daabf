//! Time at which all gateways of a group reread their files of secrets, and for how long they
//! accept the replaced ones. The secrets themselves are in no shared state.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// Last replacement of the secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretRotation {
    /// Number of replacements.
    pub(crate) generation: u64,
    /// Until when the replaced ones are accepted, by the clock on the wall, in milliseconds since 1970.
    until_ms: u64,
    /// And for how long at most, in milliseconds: a gateway whose clock is late must not accept them for much longer.
    overlap_ms: u64,
}

impl SecretRotation {
    /// The next replacement; the former secrets are accepted for this time.
    pub(crate) fn next(&self, overlap: Duration, now: SystemTime) -> Self {
        let overlap_ms = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
        Self { generation: self.generation + 1, until_ms: ms(now).saturating_add(overlap_ms), overlap_ms }
    }

    /// For how long a gateway that learns of it now accepts those before.
    pub(crate) fn overlap(&self, now: SystemTime) -> Duration {
        Duration::from_millis(self.until_ms.saturating_sub(ms(now)).min(self.overlap_ms))
    }
}

fn ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlap_ends_at_one_time_for_all() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
        let rotation = SecretRotation::default().next(minute, now);
        assert_eq!(rotation.generation, 1);
        assert_eq!(rotation.overlap(now), minute);
        assert_eq!(rotation.overlap(now + 50 * second), 10 * second);
        assert_eq!(rotation.overlap(now + 2 * minute), Duration::ZERO);
        assert_eq!(rotation.overlap(now - 100 * second), minute, "a clock that is late");
        let next = rotation.next(Duration::ZERO, now);
        assert_eq!((next.generation, next.overlap(now)), (2, Duration::ZERO));
        assert_eq!(
            SecretRotation::default().next(Duration::MAX, now).overlap(now).as_millis(),
            (u64::MAX - 1_000_000).into()
        );
    }
}
