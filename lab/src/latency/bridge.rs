//! A small NBD server on the loopback, so that fio can ask what speaks no NBD: it passes on one request at a time and keeps
//! the time of each. It knows the fixed newstyle handshake and simple replies, and keeps out where requests go.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::backend::Backend;

/// NBD's protocol document: the handshake.
const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const FIXED_NEWSTYLE_NO_ZEROES: u16 = 3;
const NO_ZEROES: u32 = 2;
const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 0x8000_0001;
const OPTION_BYTES_MAX: u32 = 4096;
/// An export that can be flushed (HAS_FLAGS, SEND_FLUSH).
const EXPORT_FLAGS: u16 = 5;
/// The transmission.
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const REQUEST_BYTES_MAX: u32 = 1 << 20;
const EIO: u32 = 5;
const EINVAL: u32 = 22;

/// Makes what a connection's requests go to.
pub(crate) type Opener = dyn Fn() -> Result<Backend, String> + Send + Sync;

/// A server. Dropping it ends it, when the connections have ended.
pub(crate) struct Bridge {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    times: Mutex<Vec<Duration>>,
    failure: Mutex<Option<String>>,
}

impl Bridge {
    /// Serves what `open` makes for each connection.
    ///
    /// # Errors
    /// It cannot listen.
    pub(crate) fn start(open: Box<Opener>) -> Result<Bridge, String> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("the bridge: {error}"))?;
        let address = listener.local_addr().map_err(|error| format!("the bridge: {error}"))?;
        let shared = Arc::new(Shared::default());
        let for_thread = shared.clone();
        let listening = std::thread::spawn(move || listen(&listener, &*open, &for_thread));
        Ok(Bridge { address, shared, listening: Some(listening) })
    }

    /// Time of every command in the backend, in the order of their ends. The next call has later
    /// ones only.
    pub(crate) fn take_times(&self) -> Vec<Duration> {
        std::mem::take(&mut self.shared.times.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why requests failed, if any did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // A connection ends the wait.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.listening.take() {
            let _ = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, open: &Opener, shared: &Shared) {
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            if shared.stopped.load(Ordering::Relaxed) {
                break;
            }
            let Ok(stream) = stream else { continue };
            scope.spawn(move || {
                // A client that just goes away is not a failure; an error behind the bridge is.
                let served = open().and_then(|backend| serve(stream, backend, shared));
                if let Err(reason) = served {
                    *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                }
            });
        }
    });
}

/// Serves one connection, to its end.
fn serve(stream: TcpStream, backend: Backend, shared: &Shared) -> Result<(), String> {
    let _ = stream.set_nodelay(true);
    let mut connection = Connection { stream, backend, times: Vec::new(), data: Vec::new(), failure: None };
    let served = match connection.greet() {
        Ok(true) => connection.transmit(),
        Ok(false) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    shared.times.lock().unwrap_or_else(PoisonError::into_inner).append(&mut connection.times);
    served.and(connection.failure.map_or(Ok(()), Err))
}

struct Connection {
    stream: TcpStream,
    backend: Backend,
    times: Vec<Duration>,
    data: Vec<u8>,
    /// Failure behind the bridge, of which NBD gives the client a number only.
    failure: Option<String>,
}

impl Connection {
    /// The handshake. False when the client wants no transmission.
    fn greet(&mut self) -> std::io::Result<bool> {
        let wrong = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
        let mut greeting = [MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes()].concat();
        greeting.extend(FIXED_NEWSTYLE_NO_ZEROES.to_be_bytes());
        self.stream.write_all(&greeting)?;
        let client_flags = u32::from_be_bytes(self.take()?);
        loop {
            if u64::from_be_bytes(self.take()?) != OPTION_MAGIC {
                return Err(wrong("the client sends no option"));
            }
            let (option, length) = (u32::from_be_bytes(self.take()?), u32::from_be_bytes(self.take()?));
            if length > OPTION_BYTES_MAX {
                return Err(wrong("the client sends an option that is too long"));
            }
            self.stream.read_exact(&mut vec![0; length as usize])?;
            let size = self.backend.size_bytes().to_be_bytes();
            let export = [&size[..], &EXPORT_FLAGS.to_be_bytes()].concat();
            match option {
                OPTION_EXPORT_NAME => {
                    let zeroes = if client_flags & NO_ZEROES == 0 { 124 } else { 0 };
                    self.stream.write_all(&[&export[..], &vec![0; zeroes]].concat())?;
                    return Ok(true);
                }
                OPTION_GO | OPTION_INFO => {
                    self.answer(option, REPLY_INFO, &[&[0, 0], &export[..]].concat())?;
                    self.answer(option, REPLY_ACK, &[])?;
                    if option == OPTION_GO {
                        return Ok(true);
                    }
                }
                OPTION_ABORT => {
                    self.answer(option, REPLY_ACK, &[])?;
                    return Ok(false);
                }
                _ => self.answer(option, REPLY_UNSUPPORTED, &[])?,
            }
        }
    }

    fn answer(&mut self, option: u32, kind: u32, data: &[u8]) -> std::io::Result<()> {
        let mut bytes = REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend([option, kind, data.len() as u32].iter().flat_map(|word| word.to_be_bytes()));
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    fn take<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Requests, until the client has no more.
    fn transmit(&mut self) -> Result<(), String> {
        loop {
            let Ok(request) = self.take::<28>() else { return Ok(()) };
            let word = |at: usize| {
                u32::from_be_bytes([request[at], request[at + 1], request[at + 2], request[at + 3]])
            };
            let (kind, length) = (word(4) as u16, word(24));
            let offset = u64::from(word(16)) << 32 | u64::from(word(20));
            if word(0) != REQUEST_MAGIC {
                return Err("the client sends no request".to_owned());
            }
            if kind == DISCONNECT {
                return Ok(());
            }
            if length > REQUEST_BYTES_MAX {
                return Err(format!("the client asks for {length} bytes at a time"));
            }
            let outcome = self.execute(kind, offset, length as usize);
            let (error, sent) = match outcome {
                Ok(sent) => (0, sent),
                Err(error) => (error, 0),
            };
            let mut reply = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
            reply.extend(error.to_be_bytes());
            reply.extend(&request[8..16]);
            reply.extend(&self.data[..sent]);
            if self.stream.write_all(&reply).is_err() {
                return Ok(());
            }
        }
    }

    /// Does it, and says how many bytes of data the client gets, or NBD's number of an error.
    fn execute(&mut self, kind: u16, offset: u64, length: usize) -> Result<usize, u32> {
        let fits = offset.checked_add(length as u64).is_some_and(|end| end <= self.backend.size_bytes());
        self.data.resize(length, 0);
        if kind == WRITE {
            // It is on its way whether or not it can be used.
            self.stream.read_exact(&mut self.data).map_err(|_| EIO)?;
        }
        let took = match kind {
            READ | WRITE if !fits => return Err(EINVAL),
            READ => self.backend.read(offset, &mut self.data),
            WRITE => self.backend.write(offset, &self.data),
            FLUSH => self.backend.flush(),
            _ => return Err(EINVAL),
        };
        let took = took.map_err(|reason| _ = self.failure.insert(reason)).map_err(|()| EIO)?;
        self.times.push(took);
        Ok(if kind == READ { length } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Bridge {
        Bridge::start(Box::new(|| Ok(Backend::Memory((0..=255).cycle().take(8192).collect())))).unwrap()
    }

    fn connected(bridge: &Bridge) -> TcpStream {
        let stream = TcpStream::connect(bridge.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn received(stream: &mut TcpStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn option(stream: &mut TcpStream, option: u32, data: &[u8]) {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend([option, data.len() as u32].iter().flat_map(|word| word.to_be_bytes()));
        stream.write_all(&[&bytes[..], data].concat()).unwrap();
    }

    /// Greets, is refused what the bridge does not know, and gets the export of 8,192 bytes.
    fn transmission(stream: &mut TcpStream) {
        assert_eq!(received(stream, 18)[..8], *b"NBDMAGIC");
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        option(stream, 8, &[]);
        assert_eq!(received(stream, 20)[12..16], REPLY_UNSUPPORTED.to_be_bytes());
        option(stream, OPTION_GO, &[0; 6]);
        let info = received(stream, 32);
        assert_eq!((&info[12..16], &info[22..30]), (&3u32.to_be_bytes()[..], &8192u64.to_be_bytes()[..]));
        assert_eq!(received(stream, 20)[12..16], REPLY_ACK.to_be_bytes());
    }

    fn request(stream: &mut TcpStream, kind: u16, offset: u64, length: u32) {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(*b"a cookie");
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        stream.write_all(&bytes).unwrap();
    }

    fn error(stream: &mut TcpStream) -> u32 {
        let reply = received(stream, 16);
        assert_eq!((&reply[..4], &reply[8..]), (&SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &b"a cookie"[..]));
        u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]])
    }

    #[test]
    fn reads_what_was_written() {
        let bridge = memory();
        let mut stream = connected(&bridge);
        transmission(&mut stream);
        request(&mut stream, READ, 254, 4);
        assert_eq!((error(&mut stream), received(&mut stream, 4)), (0, vec![254, 255, 0, 1]));
        request(&mut stream, WRITE, 8190, 2);
        stream.write_all(b"ab").unwrap();
        assert_eq!(error(&mut stream), 0);
        request(&mut stream, FLUSH, 0, 0);
        assert_eq!(error(&mut stream), 0);
        request(&mut stream, READ, 8189, 3);
        assert_eq!((error(&mut stream), received(&mut stream, 3)), (0, vec![253, b'a', b'b']));
        request(&mut stream, DISCONNECT, 0, 0);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert_eq!((bridge.take_times().len(), bridge.failure()), (4, None));
    }

    #[test]
    fn what_lies_outside_is_refused_and_the_next_is_served() {
        let bridge = memory();
        let mut stream = connected(&bridge);
        transmission(&mut stream);
        for (kind, offset, length) in [(READ, 8190, 3), (READ, u64::MAX, 1), (77, 0, 1)] {
            request(&mut stream, kind, offset, length);
            assert_eq!(error(&mut stream), EINVAL, "{kind} at {offset}");
        }
        request(&mut stream, WRITE, 8192, 2);
        stream.write_all(b"ab").unwrap();
        assert_eq!(error(&mut stream), EINVAL);
        request(&mut stream, READ, 0, 1);
        assert_eq!((error(&mut stream), received(&mut stream, 1)), (0, vec![0]));
    }

    #[test]
    fn nonsense_ends_the_connection_and_no_other() {
        let bridge = memory();
        for nonsense in [&[0xff; 64][..], &[0; 12]] {
            let mut stream = connected(&bridge);
            received(&mut stream, 18);
            stream.write_all(nonsense).unwrap();
            assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
        }
        let mut stream = connected(&bridge);
        transmission(&mut stream);
        request(&mut stream, READ, 0, REQUEST_BYTES_MAX + 1);
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
        let mut other = connected(&bridge);
        transmission(&mut other);
        request(&mut other, READ, 1, 1);
        assert_eq!((error(&mut other), received(&mut other, 1)), (0, vec![1]));
        assert!(bridge.failure().is_some());
    }
}
