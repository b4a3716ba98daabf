//! What a client is to be sent: answers of the handshake, then replies with their data, in order.

use std::collections::VecDeque;
use std::io;

use engine::limits::{SEALED_SPACE_BYTES, SEND_PARTS_MAX};
use engine::ring::{Buffer, BufferPool, Socket, Span};
use engine::secure_stream::SecureStream;
use nbd::Head;
use secure_channel::SealError;

/// Reply, or more data of the reply before.
struct ReplyChunk {
    head: Option<Head>,
    data: Option<Buffer>,
}

impl ReplyChunk {
    fn head(&self) -> &[u8] {
        self.head.as_deref().unwrap_or_default()
    }

    fn data(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.head().len() + self.data().len()
    }
}

/// All that has not been sent.
#[derive(Default)]
pub(crate) struct Output {
    /// Answers of the handshake.
    pub(crate) text: Vec<u8>,
    text_sent: usize,
    chunks: VecDeque<ReplyChunk>,
    /// Bytes of the first chunk that have been sent.
    chunk_sent: usize,
    /// Set when some of it is sent.
    pub(crate) has_sent: bool,
}

impl Output {
    /// Adds a reply, or data of the reply before.
    pub(crate) fn put(&mut self, head: Option<Head>, data: Option<Buffer>) {
        self.chunks.push_back(ReplyChunk { head, data });
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.text.is_empty()
    }

    /// Sends as much as there is room for, and says whether it was all. The buffers go back to the pool, and `freed` is what they
    /// could hold.
    pub(crate) fn send(
        &mut self,
        socket: &Socket,
        pool: &mut BufferPool,
        freed: &mut usize,
    ) -> io::Result<bool> {
        while !self.is_empty() {
            let mut spans = [Span::EMPTY; SEND_PARTS_MAX];
            let count = self.spans(&mut spans);
            match socket.send(&spans[..count]) {
                Ok(sent) => self.sent(sent, pool, freed),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The same by TLS: data is sealed into a buffer of the pool, and leaves from there.
    pub(crate) fn send_sealed(
        &mut self,
        socket: &Socket,
        secure: &mut SecureStream,
        pool: &mut BufferPool,
        freed: &mut usize,
    ) -> io::Result<bool> {
        loop {
            if !secure.outbound.send(socket, |space| pool.give(space))? {
                return Ok(false);
            }
            if self.is_empty() && !secure.outbound.wants_turn() {
                return Ok(true);
            }
            if secure.is_worn() {
                secure.renew();
            }
            let sealed = self.seal(secure, pool).map_err(io::Error::other)?;
            self.sent(sealed, pool, freed);
        }
    }

    /// Seals as much as one space takes, and says how many bytes that were.
    fn seal(&self, secure: &mut SecureStream, pool: &mut BufferPool) -> Result<usize, SealError> {
        let text = &self.text[self.text_sent..];
        let chunks = self.chunks.iter().flat_map(|chunk| [chunk.head(), chunk.data()]);
        let mut skip = self.chunk_sent;
        let pieces = std::iter::once(text).chain(chunks.filter_map(|bytes| {
            let of_piece = skip.min(bytes.len());
            skip -= of_piece;
            (of_piece < bytes.len()).then(|| &bytes[of_piece..])
        }));
        let mut sealing = secure.outbound.begin(self.unsent_bytes(), |bytes| pool.take(bytes));
        let (mut sealed, mut is_all) = (0, true);
        for piece in pieces {
            let taken = sealing.push(piece);
            sealed += taken;
            if taken < piece.len() {
                is_all = false;
                break;
            }
        }
        sealing.finish(is_all).map(|()| sealed)
    }

    /// Bytes that have not been sent, or as many as are sealed at once.
    fn unsent_bytes(&self) -> usize {
        let mut bytes = self.text.len() - self.text_sent;
        for chunk in &self.chunks {
            bytes += chunk.len();
            if bytes >= SEALED_SPACE_BYTES {
                return SEALED_SPACE_BYTES;
            }
        }
        bytes
    }

    /// Answers of the handshake that have not been sent.
    pub(crate) fn unsent_text(&self) -> &[u8] {
        &self.text[self.text_sent..]
    }

    /// All bytes that have not been sent.
    pub(crate) fn unsent(&self) -> Vec<u8> {
        let mut bytes = self.unsent_text().to_vec();
        let before = bytes.len();
        self.chunks
            .iter()
            .flat_map(|chunk| [chunk.head(), chunk.data()])
            .for_each(|chunk| bytes.extend(chunk));
        bytes.drain(before..before + self.chunk_sent);
        bytes
    }

    /// Drops the bytes, which another process sends.
    pub(crate) fn drop_text(&mut self) {
        self.text.clear();
        self.text_sent = 0;
    }

    /// The first bytes that are to be sent, and in how many spans they are.
    fn spans<'a>(&'a self, spans: &mut [Span<'a>; SEND_PARTS_MAX]) -> usize {
        let mut count = 0;
        let mut add = |bytes: &'a [u8]| {
            if !bytes.is_empty() {
                spans[count] = Span::new(bytes);
                count += 1;
            }
            count + 2 <= SEND_PARTS_MAX
        };
        add(&self.text[self.text_sent..]);
        let mut skip = self.chunk_sent;
        for chunk in &self.chunks {
            let head = chunk.head();
            let of_head = skip.min(head.len());
            add(&head[of_head..]);
            if !add(&chunk.data()[skip - of_head..]) {
                break;
            }
            skip = 0;
        }
        count
    }

    fn sent(&mut self, mut count: usize, pool: &mut BufferPool, freed: &mut usize) {
        self.has_sent |= count > 0;
        let of_text = count.min(self.text.len() - self.text_sent);
        self.text_sent += of_text;
        count -= of_text;
        if self.text_sent == self.text.len() {
            self.text.clear();
            self.text_sent = 0;
        }
        self.chunk_sent += count;
        while let Some(chunk) = self.chunks.front()
            && self.chunk_sent >= chunk.len()
        {
            self.chunk_sent -= chunk.len();
            if let Some(ReplyChunk { data: Some(buffer), .. }) = self.chunks.pop_front() {
                *freed += buffer.capacity();
                pool.give(buffer);
            }
        }
    }

    /// Drops all of it, and returns the bytes that its buffers could hold.
    pub(crate) fn clear(&mut self, pool: &mut BufferPool) -> usize {
        self.text = Vec::new();
        (self.text_sent, self.chunk_sent) = (0, 0);
        let mut freed = 0;
        for buffer in self.chunks.drain(..).filter_map(|chunk| chunk.data) {
            freed += buffer.capacity();
            pool.give(buffer);
        }
        freed
    }
}
