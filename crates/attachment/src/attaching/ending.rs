//! End of a process whose disks may be in use: the first signal waits for their users, the next one does not.

/// Request to end that has come since the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndRequest {
    None,
    /// A closed terminal, of which the shell and the kernel send a signal each (SIGHUP): it never insists.
    HangUp,
    /// SIGINT or SIGTERM.
    Signal,
}

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
    /// Returns the next step; `user` looks for a user of the disks.
    pub(super) fn step(&mut self, request: EndRequest, user: impl Fn() -> Option<String>) -> EndingStep {
        match (request, self.waits) {
            (EndRequest::None, false) => EndingStep::GoOn,
            (EndRequest::Signal, true) => EndingStep::End,
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
        assert_eq!(ending.step(EndRequest::None, || unreachable!("no signal has come")), EndingStep::GoOn);
        assert_eq!(ending.step(EndRequest::Signal, || None), EndingStep::End);
    }

    #[test]
    fn a_disk_in_use_ends_when_it_is_released_or_with_the_second_signal() {
        for is_released in [true, false] {
            let mut ending = Ending::default();
            assert_eq!(ending.step(EndRequest::Signal, mounted), EndingStep::Wait(mounted().unwrap()));
            assert_eq!(ending.step(EndRequest::None, mounted), EndingStep::GoOn);
            let user = || mounted().filter(|_| !is_released);
            let request = if is_released { EndRequest::None } else { EndRequest::Signal };
            assert_eq!(ending.step(request, user), EndingStep::End);
        }
    }

    #[test]
    fn a_closed_terminal_never_removes_a_disk_in_use() {
        let mut ending = Ending::default();
        assert_eq!(ending.step(EndRequest::HangUp, mounted), EndingStep::Wait(mounted().unwrap()));
        assert_eq!(ending.step(EndRequest::HangUp, mounted), EndingStep::GoOn, "the other of both signals");
        assert_eq!(ending.step(EndRequest::HangUp, || None), EndingStep::End);
    }
}
