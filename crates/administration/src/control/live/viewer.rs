//! A viewer, as the body of an answer that goes on: events, until its time is over or the server
//! ends.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use tokio::time::timeout;

use super::super::limits::VIEW_DURATION;
use super::hub::Message;

/// The end of the server, which no answer outlives: the sender is gone.
#[derive(Clone, Debug)]
pub(in crate::control) struct Ending(pub(in crate::control) watch::Receiver<()>);

/// A viewer that has not begun to look.
#[derive(Debug)]
pub(in crate::control) struct Viewer {
    messages: Receiver<Message>,
    /// True if the viewer wants one tick only.
    once: bool,
}

impl Viewer {
    pub(super) fn new(messages: Receiver<Message>, once: bool) -> Self {
        Self { messages, once }
    }

    /// Returns the stream of events. Its duration is bounded: a viewer that continues sends a new
    /// request, whose rights are checked again.
    pub(in crate::control) fn view(self, ending: Option<Ending>) -> View {
        let end = async move {
            let ended = async move {
                match ending {
                    Some(Ending(mut sender)) => drop(sender.changed().await),
                    None => std::future::pending().await,
                }
            };
            // Whichever comes first.
            let _ = timeout(VIEW_DURATION, ended).await;
        };
        View { viewer: self, is_over: false, end: Box::pin(end) }
    }
}

/// A viewer that looks.
pub(in crate::control) struct View {
    viewer: Viewer,
    is_over: bool,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.viewer.fmt(f)
    }
}

impl Body for View {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over || self.end.as_mut().poll(context).is_ready() {
            // A future that is done must not be asked again.
            self.is_over = true;
            return Poll::Ready(None);
        }
        self.viewer.messages.poll_recv(context).map(|message| {
            let bytes = match message? {
                Message::Roster(bytes) | Message::Findings(bytes) => bytes,
                Message::Tick(bytes) => {
                    self.is_over = self.viewer.once;
                    bytes
                }
            };
            Some(Ok(Frame::data(bytes)))
        })
    }
}
