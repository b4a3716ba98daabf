//! s2n-tls: what it is set to, and its callbacks. It asks for bytes and gives bytes in callbacks, and logs secrets in another one.
//! While it works, all of that goes through one place of this thread, so that no pointer to anything of ours is ever kept in it.
//! What its errors mean is not known here.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::task::Poll;

use s2n_tls::config::Config;
use s2n_tls::connection::Connection;
use s2n_tls::enums::{Blinding, Mode, PskHmac, Version};
pub(crate) use s2n_tls::error::{Error, ErrorType};
use s2n_tls::psk::Psk;
use s2n_tls::security::Policy;
use secure_channel::{Hash, Peer, Suite};

use crate::key::Key;
use crate::key_log::Secrets;

/// Offers of a side. The names are the library's, of policies that it never changes: TLS 1.3 alone
/// in all three.
#[derive(Clone, Copy)]
enum Side {
    Controller,
    Host,
    HostOfAes256,
}

impl Side {
    const fn policy(self) -> &'static str {
        match self {
            // X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024, x25519, secp256r1, secp384r1, secp521r1. It has ChaCha20
            // as well, in the third place, which a controller that wants one of the others never comes to.
            Self::Controller => "ELBSecurityPolicy-TLS13-1-3-PQ-2025-09",
            // Both suites of NVMe and no other; the same groups without x25519.
            Self::Host => "ELBSecurityPolicy-TLS13-1-3-FIPS-PQ-2025-09",
            // AES-256 alone, with secp384r1. A controller that chooses the suite before the key (OpenSSL's does) would
            // take AES-128 of a host that offers both, and then find no key that goes with it.
            Self::HostOfAes256 => "ELBSecurityPolicy-TLS13-1-3-RFC9151-FIPS-2023-07",
        }
    }

    /// Made once: a configuration is read by all threads, and never changed.
    fn config(self) -> Result<Config, Error> {
        static CONFIGS: [OnceLock<Config>; 3] = [const { OnceLock::new() }; 3];
        let place = &CONFIGS[self as usize];
        if let Some(config) = place.get() {
            return Ok(config.clone());
        }
        let made = self.make_config()?;
        Ok(place.get_or_init(|| made).clone())
    }

    fn make_config(self) -> Result<Config, Error> {
        let mut builder = Config::builder();
        builder.set_security_policy(&Policy::from_version(self.policy())?)?;
        builder.with_system_certs(false)?;
        // Blinding hides differences in time of CBC suites; there are none here.
        builder.set_max_blinding_delay(0)?;
        // SAFETY: the callback uses no context.
        #[allow(unsafe_code)]
        unsafe {
            builder.set_key_log_callback(Some(log_secret), std::ptr::null_mut())?;
        }
        builder.build()
    }
}

/// Makes the library do its work of once per process: it reads the system's certificates, which are
/// not used here and may be missing, and asks for randomness. A process that gives up rights calls
/// this before.
///
/// # Errors
/// When the library cannot be set up, in its own words.
pub fn prepare() -> Result<(), String> {
    for side in [Side::Controller, Side::Host, Side::HostOfAes256] {
        side.config().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A handshake of the library's.
pub(crate) struct Library {
    connection: Connection,
}

impl Library {
    pub(crate) fn new(peer: Peer, keys: &[Key]) -> Result<Self, Error> {
        let (mode, side) = match peer {
            Peer::Host => (Mode::Server, Side::Controller),
            Peer::Controller if keys.iter().all(|key| key.suite == Suite::Aes256Gcm) => {
                (Mode::Client, Side::HostOfAes256)
            }
            Peer::Controller => (Mode::Client, Side::Host),
        };
        let config = side.config()?;
        let mut connection = Connection::new(mode);
        connection.set_config(config)?;
        connection.set_blinding(Blinding::SelfService)?;
        connection.set_receive_callback(Some(receive))?;
        connection.set_send_callback(Some(send))?;
        for key in keys {
            let mut psk = Psk::builder()?;
            psk.set_identity(&key.identity)?;
            psk.set_secret(&key.secret)?;
            psk.set_hmac(match key.suite.hash() {
                Hash::Sha256 => PskHmac::SHA256,
                Hash::Sha384 => PskHmac::SHA384,
            })?;
            connection.append_psk(&psk.build()?)?;
        }
        Ok(Self { connection })
    }

    /// Goes on with these bytes of the peer's, of which it takes all unless it fails, and says whether the handshake is
    /// complete.
    pub(crate) fn negotiate(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        secrets: &mut Secrets,
    ) -> Result<bool, Error> {
        let exchange = Exchange {
            input: input.to_vec(),
            taken: 0,
            output: std::mem::take(output),
            secrets: std::mem::take(secrets),
        };
        EXCHANGE.set(Some(exchange));
        let polled = self.connection.poll_negotiate().map_ok(|_| ());
        let Some(exchange) = EXCHANGE.take() else { return Ok(false) };
        *output = exchange.output;
        *secrets = exchange.secrets;
        match polled {
            Poll::Pending => Ok(false),
            Poll::Ready(result) => result.map(|()| true),
        }
    }

    /// The alert that the peer has sent.
    pub(crate) fn alert(&self) -> Option<u8> {
        self.connection.alert()
    }

    /// The identity of the key that both ends have agreed on.
    pub(crate) fn identity(&self) -> Option<Vec<u8>> {
        let length = self.connection.negotiated_psk_identity_length().ok().filter(|length| *length > 0)?;
        let mut identity = vec![0; length];
        self.connection.negotiated_psk_identity(&mut identity).ok()?;
        Some(identity)
    }

    pub(crate) fn is_tls_1_3(&self) -> bool {
        self.connection.actual_protocol_version().is_ok_and(|version| version == Version::TLS13)
    }

    /// The name of the suite that both ends have agreed on.
    pub(crate) fn suite(&self) -> Option<&str> {
        self.connection.cipher_suite().ok()
    }

    /// The name of the group that both ends have agreed on.
    pub(crate) fn group(&self) -> Option<&str> {
        self.connection.selected_key_exchange_group()
    }
}

/// Buffers and secrets of a handshake, for the library's callbacks.
struct Exchange {
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
    secrets: Secrets,
}

thread_local! {
    static EXCHANGE: RefCell<Option<Exchange>> = const { RefCell::new(None) };
}

/// Value of a callback that failed.
const FAILED: c_int = -1;

#[allow(unsafe_code)]
fn set_errno(errno: c_int) {
    // SAFETY: the C library gives the address of this thread's own number.
    unsafe { *libc::__errno_location() = errno }
}

/// Lends the exchange of this thread to a callback. Nothing in a callback panics, since that would end the process.
fn with_exchange(callback: impl FnOnce(&mut Exchange) -> Option<c_int>) -> c_int {
    let returned = EXCHANGE.try_with(|exchange| callback(exchange.try_borrow_mut().ok()?.as_mut()?));
    match returned {
        Ok(Some(value)) => value,
        Ok(None) | Err(_) => {
            set_errno(libc::EAGAIN);
            FAILED
        }
    }
}

/// # Safety
/// `buffer` has room for `length` bytes.
#[allow(unsafe_code)]
unsafe extern "C" fn receive(_: *mut c_void, buffer: *mut u8, length: u32) -> c_int {
    with_exchange(|exchange| {
        let input = exchange.input.get(exchange.taken..)?;
        let bytes = input.len().min(usize::try_from(length).ok()?);
        if bytes == 0 {
            return None;
        }
        // SAFETY: `input` has at least these bytes and so has, by its length, `buffer`; they are not the same memory.
        unsafe { std::ptr::copy_nonoverlapping(input.as_ptr(), buffer, bytes) };
        exchange.taken += bytes;
        c_int::try_from(bytes).ok()
    })
}

/// # Safety
/// `bytes` are `length` bytes.
#[allow(unsafe_code)]
unsafe extern "C" fn send(_: *mut c_void, bytes: *const u8, length: u32) -> c_int {
    with_exchange(|exchange| {
        if bytes.is_null() {
            return None;
        }
        // SAFETY: the library says that there are as many bytes, and does not touch them meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, usize::try_from(length).ok()?) };
        exchange.output.extend_from_slice(bytes);
        c_int::try_from(length).ok()
    })
}

/// The type of the connection is left open, since it is one of the library's C half that the Rust half does not name.
///
/// # Safety
/// `line` are `length` bytes.
#[allow(unsafe_code)]
unsafe extern "C" fn log_secret<C>(_: *mut c_void, _: *mut C, line: *mut u8, length: usize) -> c_int {
    with_exchange(|exchange| {
        if line.is_null() {
            return None;
        }
        // SAFETY: the library says that there are as many bytes, and does not touch them meanwhile.
        let line = unsafe { std::slice::from_raw_parts(line, length) };
        exchange.secrets.read(line);
        Some(0)
    })
}
