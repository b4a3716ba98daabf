//! A client that is handed over: when nothing of it is under way, what another process needs to go on with it, and how one begins
//! that another process had.

use std::io;

use engine::ring::Socket;
use engine::secure_stream::{SecureStream, StreamState};
use nbd::limits::PAYLOAD_BYTES_MAX;
use nbd::{Errno, Handshake, HandshakeState, Headers, Replies, Session, Tls};
use secure_channel::{DirectionState, Peer, RecordLimit, Suite, TrafficSecret};
use thiserror::Error;

use crate::client::{Client, Incoming, Phase};
use crate::handed_client::{
    HandedClient, HandedHeaders, HandedIncoming, HandedKey, HandedStage, HandedStream, HandedWrite,
};
use crate::input::Input;
use crate::limits::{HANDED_UNSENT_BYTES_MAX, INPUT_BYTES, PIECE_BYTES};
use crate::requests::{Request, Work};
use crate::storage::Storage;

/// Most bytes received and not processed, of a client that is handed over: a full input, and the
/// piece that its write waits for.
pub(crate) const RECEIVED_BYTES_MAX: usize = INPUT_BYTES + PIECE_BYTES as usize;

/// Reason for which a client of another process is not continued here.
#[derive(Debug, Error)]
pub(crate) enum AdoptionError {
    /// Clients of this process up to the limit.
    #[error("this process has as many clients as it takes")]
    Clients,
    /// Received bytes beyond the limit.
    #[error("more was received from it than a process keeps")]
    Received,
    /// Disk of the old process alone.
    #[error("its disk is not served by the new process, or has other blocks")]
    Disk,
    /// Handshake in TLS without keys, or with keys and not in TLS.
    #[error("its TLS has no keys, or was never begun")]
    NoKeys,
    /// Client without TLS, where it is required now.
    #[error("it does without TLS, which is required now")]
    Clear,
    /// Refused request beyond the limit.
    #[error("a request of it is too long")]
    Request,
    /// Write that no client can have begun.
    #[error("a write of it is not one that was begun")]
    Write,
    /// Cipher suite that this process does not know.
    #[error("its cipher suite is unknown")]
    Suite,
    /// Beginning of a TLS record beyond the limit.
    #[error("the TLS record received so far is longer than permitted")]
    Record,
    /// TLS key that does not go with its cipher suite.
    #[error("a TLS key has a wrong length")]
    KeyLength,
    /// Socket that the ring refuses.
    #[error(transparent)]
    Watch(#[from] io::Error),
}

impl Client {
    /// Takes nothing that it sends from now on, or goes on with that.
    pub(crate) const fn freeze(&mut self, is_frozen: bool) {
        self.is_frozen = is_frozen;
        self.output.has_sent = false;
    }

    /// True if its socket is full of replies, and nothing is under way: its other requests have no buffers.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.commands == 0 && self.awaits_writable()
    }

    /// True if it is stalled, and has read nothing since it was frozen.
    pub(crate) const fn reads_nothing(&self) -> bool {
        self.is_stalled() && !self.output.has_sent
    }

    /// True if it reads its replies, and its requests wait for buffers that others hold.
    pub(crate) fn waits_for_buffers(&self) -> bool {
        self.commands == 0 && !self.listed.is_empty() && !self.awaits_writable()
    }

    /// True if none of its commands is outstanding at a target, and all its replies are ready to be
    /// sent.
    pub(crate) fn is_answered(&self) -> bool {
        let receiving = usize::from(matches!(self.incoming, Incoming::Data { .. }));
        self.commands == 0 && self.listed.is_empty() && self.requests == receiving
    }

    /// True if it waits only for its client. If `is_late`, replies may be unsent; a record of TLS
    /// has to leave whole.
    pub(crate) fn is_quiesced(&self, is_late: bool) -> bool {
        let has_stream_ready = self.secure.as_ref().is_none_or(|secure| secure.state().is_some());
        let has_sent = self.output.is_empty() && (has_stream_ready || self.phase_ends());
        self.is_answered() && (has_sent || is_late && self.secure.is_none() && self.awaits_writable())
    }

    const fn phase_ends(&self) -> bool {
        matches!(self.phase, Phase::Ending | Phase::Gone)
    }

    /// State from which another process can continue it, and the bytes to send first. `None` if
    /// that is impossible: it ends anyway, is in the middle of the TLS handshake, or leaves too
    /// many replies unread.
    pub(crate) fn state(&self, storage: &mut Storage) -> Option<(HandedClient, Vec<u8>)> {
        if !self.is_answered() {
            return None;
        }
        let unsent = self.output.unsent();
        let stream = match &self.secure {
            None => None,
            // A record that has left in part is that of this process.
            Some(_) if !unsent.is_empty() => return None,
            Some(secure) => Some(handed_stream(secure.state()?)),
        };
        let (mut received, mut handed) = (Vec::new(), HandedIncoming::Nothing);
        match &self.incoming {
            Incoming::Nothing => {}
            Incoming::Refused { left } => handed = HandedIncoming::Refused { left: *left },
            Incoming::Data { slot, buffer, filled, .. } => {
                received.extend_from_slice(buffer.as_ref().map_or(&[][..], |buffer| &buffer[..*filled]));
                handed = HandedIncoming::Write(handed_write(storage.requests.get(*slot)?));
            }
        }
        received.extend_from_slice(self.input.bytes());
        let stage = match &self.phase {
            Phase::Handshake(handshake) => {
                let HandshakeState { client_flags, is_secure, headers, allocation_of } = handshake.state();
                let headers = handed_headers(headers);
                HandedStage::Handshake { client_flags, is_secure, headers, allocation_of }
            }
            Phase::Transmission(session) => HandedStage::Transmission {
                disk: session.export,
                headers: handed_headers(session.headers),
                has_allocation: session.has_allocation,
                incoming: handed,
            },
            Phase::Securing(_) | Phase::Ending | Phase::Gone => return None,
        };
        let is_little = unsent.len() <= HANDED_UNSENT_BYTES_MAX && received.len() <= RECEIVED_BYTES_MAX;
        let (peer, unsent_bytes) = (self.peer.clone(), unsent.len());
        is_little.then(|| {
            (HandedClient { peer, stage, received, received_bytes: 0, unsent_bytes, stream }, unsent)
        })
    }

    /// Client of another process, continued here. `disk_indices` are the indices of its disks here.
    ///
    /// # Errors
    /// When it cannot be what a client of that process was, or its disk is another one.
    pub(crate) fn going_on(
        (slot, number): (usize, u64),
        (handed, socket, unsent): (&HandedClient, Socket, Vec<u8>),
        disk_indices: &[Option<usize>],
        (storage, tls): (&mut Storage, Tls),
    ) -> Result<Self, AdoptionError> {
        let HandedClient { peer, stage, received, stream, .. } = handed;
        if received.len() > RECEIVED_BYTES_MAX {
            return Err(AdoptionError::Received);
        }
        let place_of = |disk: &usize| {
            let found = disk_indices.get(*disk).copied().flatten();
            found.ok_or(AdoptionError::Disk)
        };
        let mut client = Self::new((slot, number), socket, peer.clone(), tls);
        client.output.text = unsent;
        client.input = Input::going_on(received);
        if let Some(stream) = stream {
            let stream = SecureStream::going_on(stream_state(stream)?, Peer::Host, RecordLimit::default());
            client.secure = Some(Box::new(stream));
        }
        match stage {
            HandedStage::Handshake { client_flags, is_secure, headers, allocation_of } => {
                if *is_secure != client.secure.is_some() {
                    return Err(AdoptionError::NoKeys);
                }
                let (client_flags, is_secure) = (*client_flags, *is_secure);
                let allocation_of = allocation_of.as_ref().map(place_of).transpose()?;
                let headers = headers_of(*headers);
                let state = HandshakeState { client_flags, is_secure, headers, allocation_of };
                client.phase = Phase::Handshake(Handshake::going_on(state, tls));
            }
            HandedStage::Transmission { disk, headers, has_allocation, incoming } => {
                if tls == Tls::Required && client.secure.is_none() {
                    return Err(AdoptionError::Clear);
                }
                let (export, headers) = (place_of(disk)?, headers_of(*headers));
                let session = Session { export, headers, has_allocation: *has_allocation };
                client.phase = Phase::Transmission(session);
                client.receives(incoming, session, storage)?;
            }
        }
        Ok(client)
    }

    /// Goes on with what of a request was being received.
    fn receives(
        &mut self,
        incoming: &HandedIncoming,
        session: Session,
        storage: &mut Storage,
    ) -> Result<(), AdoptionError> {
        let write = match incoming {
            HandedIncoming::Nothing => return Ok(()),
            HandedIncoming::Refused { left } if *left <= PAYLOAD_BYTES_MAX => {
                self.incoming = Incoming::Refused { left: *left };
                return Ok(());
            }
            HandedIncoming::Refused { .. } => return Err(AdoptionError::Request),
            HandedIncoming::Write(write) => write,
        };
        let block = u64::from(storage.exports[session.export].block_bytes);
        let (length, written) = (u64::from(write.length), u64::from(write.written));
        let is_whole = [write.offset, length, written].iter().all(|bytes| bytes.is_multiple_of(block));
        let is_within = write.offset.checked_add(length).is_some() && write.length <= PAYLOAD_BYTES_MAX;
        if !is_whole || !is_within || written >= length {
            return Err(AdoptionError::Write);
        }
        let error = write.error.map(|code| Errno::of(code).unwrap_or(Errno::InputOutput));
        let work = Work::Write { is_durable: write.is_durable };
        let replies = Replies { headers: session.headers, cookie: write.cookie, offset: write.offset };
        let slot = storage.requests.add(Request {
            client: self.slot,
            disk: session.export,
            work,
            replies,
            length,
            piece_bytes: storage.piece_bytes(session.export, work),
            issued: written,
            commands: 0,
            error,
            is_listed: true,
            whole: Vec::new(),
            reserved_bytes: 0,
        });
        self.requests = 1;
        self.incoming = Incoming::Data { slot, left: write.length - write.written, buffer: None, filled: 0 };
        Ok(())
    }
}

fn handed_write(request: &Request) -> HandedWrite {
    HandedWrite {
        cookie: request.replies.cookie,
        offset: request.replies.offset,
        // Requests with data are limited to less.
        length: request.length as u32,
        written: request.issued as u32,
        error: request.error.map(Errno::code),
        is_durable: matches!(request.work, Work::Write { is_durable: true }),
    }
}

const fn handed_headers(headers: Headers) -> HandedHeaders {
    match headers {
        Headers::Simple => HandedHeaders::Simple,
        Headers::Structured => HandedHeaders::Structured,
        Headers::Extended => HandedHeaders::Extended,
    }
}

const fn headers_of(headers: HandedHeaders) -> Headers {
    match headers {
        HandedHeaders::Simple => Headers::Simple,
        HandedHeaders::Structured => Headers::Structured,
        HandedHeaders::Extended => Headers::Extended,
    }
}

fn handed_stream(state: StreamState) -> HandedStream {
    let key = |state: &DirectionState| HandedKey {
        secret: state.secret.expose().to_vec(),
        records: state.records,
        updates: state.updates,
    };
    HandedStream {
        suite: state.sending.secret.suite().id(),
        sending: key(&state.sending),
        receiving: key(&state.receiving),
        begun: state.begun,
        asked: state.asked,
    }
}

fn stream_state(stream: &HandedStream) -> Result<StreamState, AdoptionError> {
    let suite = Suite::of(stream.suite).ok_or(AdoptionError::Suite)?;
    if stream.begun.len() > secure_channel::RECORD_BYTES_MAX {
        return Err(AdoptionError::Record);
    }
    let direction = |key: &HandedKey| {
        let secret = TrafficSecret::new(suite, &key.secret).ok_or(AdoptionError::KeyLength)?;
        Ok::<_, AdoptionError>(DirectionState { secret, records: key.records, updates: key.updates })
    };
    Ok(StreamState {
        sending: direction(&stream.sending)?,
        receiving: direction(&stream.receiving)?,
        begun: stream.begun.clone(),
        asked: stream.asked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(suite: u16, key_bytes: usize, begun: usize) -> HandedStream {
        let key = HandedKey { secret: vec![1; key_bytes], records: 0, updates: 0 };
        let (sending, receiving) = (key.clone(), key);
        HandedStream { suite, sending, receiving, begun: vec![0; begun], asked: None }
    }

    #[test]
    fn an_impossible_stream_is_refused_with_the_reason() {
        let (suite, too_long) = (Suite::Aes128Gcm.id(), secure_channel::RECORD_BYTES_MAX + 1);
        for (stream, said) in [
            (stream(0, 32, 0), "its cipher suite is unknown"),
            (stream(suite, 7, 0), "a TLS key has a wrong length"),
            (stream(suite, 32, too_long), "the TLS record received so far is longer than permitted"),
        ] {
            assert_eq!(stream_state(&stream).map(drop).unwrap_err().to_string(), said);
        }
    }
}
