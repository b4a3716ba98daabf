//! Progress of a read or write of which the system may move fewer bytes than it was asked for: the
//! rest is asked for again, until all is moved or the system says that there is no more. How it is
//! asked is the machinery's.

use std::io;

/// The bytes of a read or write that have been moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transfer {
    moved: usize,
}

impl Transfer {
    /// Offset of the rest.
    pub(crate) const fn moved(self) -> usize {
        self.moved
    }

    /// The system has moved this number of further bytes, or says why not (an error's number). `None` when the rest is to be asked for,
    /// else how it has ended. `whole` is how many there are in all.
    pub(crate) fn step(
        &mut self,
        answer: Result<usize, i32>,
        whole: usize,
        writes: bool,
    ) -> Option<io::Result<usize>> {
        match answer {
            Ok(moved) => {
                self.moved += moved;
                if self.moved >= whole {
                    Some(Ok(self.moved))
                } else if moved > 0 {
                    None
                } else if writes {
                    // Asked again it may say so forever.
                    Some(Err(io::ErrorKind::WriteZero.into()))
                } else {
                    // The end of the file.
                    Some(Ok(self.moved))
                }
            }
            Err(libc::EINTR | libc::EAGAIN) => None,
            Err(error) => Some(Err(io::Error::from_raw_os_error(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of a transfer of ten bytes with these answers, and the offset of each of its steps.
    fn play(writes: bool, answers: &[Result<usize, i32>]) -> (Option<io::Result<usize>>, Vec<usize>) {
        let (mut transfer, mut places) = (Transfer::default(), Vec::new());
        for answer in answers {
            places.push(transfer.moved());
            if let Some(end) = transfer.step(*answer, 10, writes) {
                return (Some(end), places);
            }
        }
        (None, places)
    }

    #[test]
    fn what_is_left_is_asked_for_from_where_it_begins() {
        for writes in [false, true] {
            let (end, places) =
                play(writes, &[Ok(3), Err(libc::EINTR), Ok(2), Err(libc::EAGAIN), Ok(4), Ok(1)]);
            assert_eq!((end.unwrap().unwrap(), places), (10, vec![0, 3, 3, 5, 5, 9]));
            assert_eq!(play(writes, &[Ok(10)]).0.unwrap().unwrap(), 10);
            assert!(play(writes, &[Ok(9)]).0.is_none(), "one is left");
        }
    }

    #[test]
    fn what_ends_in_the_middle_is_no_success() {
        let failure = |answers: &[_]| play(true, answers).0.unwrap().unwrap_err();
        assert_eq!(failure(&[Ok(4), Err(libc::ENOSPC)]).raw_os_error(), Some(libc::ENOSPC));
        assert_eq!(failure(&[Ok(4), Ok(0)]).kind(), io::ErrorKind::WriteZero);
        let read = play(false, &[Ok(4), Ok(0)]).0.unwrap().unwrap();
        assert_eq!(read, 4, "the file is at its end, and who reads finds out");
        assert_eq!(
            play(false, &[Ok(4), Err(libc::EIO)]).0.unwrap().unwrap_err().raw_os_error(),
            Some(libc::EIO)
        );
    }

    #[test]
    fn nothing_is_moved_at_once() {
        assert_eq!(Transfer::default().step(Ok(0), 0, true).unwrap().unwrap(), 0);
    }
}
