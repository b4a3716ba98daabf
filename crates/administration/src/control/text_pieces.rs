//! A long text as the body of an answer, written piece by piece as its client reads: one that does
//! not read costs the memory of the source, and not that of the text.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// Bytes of memory that a response takes until it is read, where they are not those of its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held(pub(super) usize);

/// A text that is not written yet.
pub(super) struct TextPieces {
    pieces: Box<dyn Iterator<Item = String> + Send>,
    /// Bytes of the text that are left.
    left: u64,
    held: Held,
}

impl TextPieces {
    /// The text that `begin` returns, always the same one, from a source with this number of bytes. It
    /// is written twice: the first time for its length, which clients expect before it.
    pub(super) fn new<I>(source_bytes: usize, begin: impl Fn() -> I) -> Self
    where
        I: Iterator<Item = String> + Send + 'static,
    {
        let left = begin().map(|piece| piece.len() as u64).sum();
        Self { pieces: Box::new(begin()), left, held: Held(source_bytes) }
    }

    /// Memory that the text takes until it is read.
    pub(super) const fn held(&self) -> Held {
        self.held
    }
}

impl fmt::Debug for TextPieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextPieces({} bytes, {:?})", self.left, self.held)
    }
}

impl Body for TextPieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.pieces.next() else { return Poll::Ready(None) };
        self.left = self.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_piece_is_written_when_the_one_before_it_was_taken() {
        let written = Arc::new(AtomicUsize::new(0));
        let begin = || {
            let written = written.clone();
            (0..3).map(move |number| {
                written.fetch_add(1, Ordering::Relaxed);
                format!("piece {number}\n")
            })
        };
        let mut text = TextPieces::new(7, begin);
        assert_eq!((text.held().0, text.size_hint().exact()), (7, Some(24)));
        assert_eq!(written.swap(0, Ordering::Relaxed), 3, "for the length");
        let mut context = Context::from_waker(std::task::Waker::noop());
        for number in 1..=3 {
            assert!(!text.is_end_stream());
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut text).poll_frame(&mut context) else {
                panic!("a piece is there")
            };
            assert_eq!(frame.into_data().unwrap(), format!("piece {}\n", number - 1));
            assert_eq!(written.load(Ordering::Relaxed), number);
        }
        assert!(text.is_end_stream() && text.size_hint().exact() == Some(0));
        assert!(matches!(Pin::new(&mut text).poll_frame(&mut context), Poll::Ready(None)));
    }
}
