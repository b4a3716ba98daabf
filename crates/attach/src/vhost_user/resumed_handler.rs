//! Socket of a front end that another process has heard. The crate that hears front ends keeps the
//! negotiated features to itself and cannot be given them: they are negotiated again over a socket
//! pair of our own, before it hears the front end's.

use std::io::{self, Read as _, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use vhost::vhost_user::{BackendReqHandler, VhostUserBackendReqHandler};

/// The messages that are said, and the version of the protocol.
const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_PROTOCOL_FEATURES: u32 = 16;
const VERSION: u32 = 1;
/// Bytes of a header.
const HEADER_BYTES: usize = 12;
/// Time limit that is never reached: each message is there before it is read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Handler of a front end on this connection, with these features negotiated.
///
/// # Errors
/// When the system refuses.
pub(super) fn resumed_handler<S: VhostUserBackendReqHandler>(
    connection: impl AsFd,
    (features, protocol_features): (u64, u64),
    session: Arc<S>,
) -> io::Result<BackendReqHandler<S>> {
    let (mut own, heard) = UnixStream::pair()?;
    own.set_read_timeout(Some(PATIENCE))?;
    let mut handler = BackendReqHandler::from_stream(heard, session);
    let failed = |error: vhost::vhost_user::Error| io::Error::other(error.to_string());
    own.write_all(&message(GET_FEATURES, None))?;
    handler.handle_request().map_err(failed)?;
    own.read_exact(&mut [0; HEADER_BYTES + size_of::<u64>()])?;
    // The protocol's first: with them acknowledgements would be sent, which are asked for by a flag that is not set here.
    for (request, value) in [(SET_PROTOCOL_FEATURES, protocol_features), (SET_FEATURES, features)] {
        own.write_all(&message(request, Some(value)))?;
        handler.handle_request().map_err(failed)?;
    }
    put_in_place_of(connection, &handler)?;
    Ok(handler)
}

fn message(request: u32, value: Option<u64>) -> Vec<u8> {
    let length = if value.is_some() { size_of::<u64>() as u32 } else { 0 };
    let header = [request, VERSION, length].into_iter().flat_map(u32::to_ne_bytes);
    header.chain(value.into_iter().flat_map(u64::to_ne_bytes)).collect()
}

/// Has the handler hear this connection from now on, under the number of the descriptor that it has.
fn put_in_place_of<S: VhostUserBackendReqHandler>(
    connection: impl AsFd,
    handler: &BackendReqHandler<S>,
) -> io::Result<()> {
    // SAFETY: the handler owns this descriptor, lives longer than this function and is not used in it. Here the descriptor is not
    // closed: it refers to another socket afterwards, and stays the handler's.
    #[allow(unsafe_code)]
    let mut own = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(handler.as_raw_fd()) });
    Ok(rustix::io::dup2(connection, &mut own)?)
}
