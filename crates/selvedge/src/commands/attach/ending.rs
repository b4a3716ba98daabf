//! End of a process whose disks may be in use: the first signal waits for their users, the next one does not.

/// Progress of the end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// Set once a signal has come while a disk was in use.
    waits: bool,
}

/// Step of a process that was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EndingStep {
    /// Serve on.
    GoOn,
    /// Serve on until this user has released the disk, which is to be reported.
    Wait(String),
    /// Remove the disks.
    End,
}

impl Ending {
    /// Returns the next step, after a signal if `is_asked`; `user` looks for a user of the disks.
    pub(super) fn step(&mut self, is_asked: bool, user: impl Fn() -> Option<String>) -> EndingStep {
        match (is_asked, self.waits) {
            (false, false) => EndingStep::GoOn,
            (true, true) => EndingStep::End,
            (_, waits) => match user() {
                Some(_) if waits => EndingStep::GoOn,
                Some(user) => {
                    self.waits = true;
                    EndingStep::Wait(user)
                }
                None => EndingStep::End,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted() -> Option<String> {
        Some("/dev/ublkb0 is mounted on /mnt".to_owned())
    }

    #[test]
    fn a_disk_that_is_not_in_use_ends_with_the_first_signal() {
        let mut ending = Ending::default();
        assert_eq!(ending.step(false, || unreachable!("no signal has come")), EndingStep::GoOn);
        assert_eq!(ending.step(true, || None), EndingStep::End);
    }

    #[test]
    fn a_disk_in_use_ends_when_it_is_released_or_with_the_second_signal() {
        for is_released in [true, false] {
            let mut ending = Ending::default();
            assert_eq!(ending.step(true, mounted), EndingStep::Wait(mounted().unwrap()));
            assert_eq!(ending.step(false, mounted), EndingStep::GoOn);
            let user = || mounted().filter(|_| !is_released);
            assert_eq!(ending.step(!is_released, user), EndingStep::End);
        }
    }
}
