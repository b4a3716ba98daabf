//! The handshake, fixed newstyle: the client's options, one after the other, until it has chosen an export. TLS itself is not here: when a
//! client begins it, the handshake waits until its user says that the connection is secure.

use crate::context_query::{ALLOCATION, ALLOCATION_ID, ContextQuery};
use crate::export_option::{ExportOption, info};
use crate::fields::Fields;
use crate::limits::{HANDSHAKE_OUTPUT_BYTES_MAX, OPTION_BYTES_MAX};
use crate::{Export, ProtocolError};

const GREETING: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const FIXED_NEWSTYLE: u16 = 1 << 0;
const NO_ZEROES: u16 = 1 << 1;
/// Bytes of an option before its data.
const OPTION_HEAD_BYTES: usize = 16;
/// Zeroes after size and flags in the answer to NBD_OPT_EXPORT_NAME, unless the client declines
/// them.
const ZEROES: usize = 124;

mod option {
    pub(super) const EXPORT_NAME: u32 = 1;
    pub(super) const ABORT: u32 = 2;
    pub(super) const LIST: u32 = 3;
    pub(super) const STARTTLS: u32 = 5;
    pub(super) const INFO: u32 = 6;
    pub(super) const GO: u32 = 7;
    pub(super) const STRUCTURED_REPLY: u32 = 8;
    pub(super) const LIST_META_CONTEXT: u32 = 9;
    pub(super) const SET_META_CONTEXT: u32 = 10;
    pub(super) const EXTENDED_HEADERS: u32 = 11;
}

mod reply {
    pub(super) const ACK: u32 = 1;
    pub(super) const SERVER: u32 = 2;
    pub(super) const INFO: u32 = 3;
    pub(super) const META_CONTEXT: u32 = 4;
    pub(super) const UNSUPPORTED: u32 = 1 << 31 | 1;
    pub(super) const INVALID: u32 = 1 << 31 | 3;
    pub(super) const TLS_REQUIRED: u32 = 1 << 31 | 5;
    pub(super) const UNKNOWN: u32 = 1 << 31 | 6;
    pub(super) const SHUTDOWN: u32 = 1 << 31 | 7;
    pub(super) const EXTENDED_HEADERS_REQUIRED: u32 = 1 << 31 | 10;
}

/// The form of requests and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// Replies of one piece.
    #[default]
    Simple,
    /// Replies in chunks.
    Structured,
    /// Replies in chunks, and 64 bits for lengths.
    Extended,
}

/// Use of TLS by a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// The server has no TLS.
    #[default]
    Off,
    /// Clients may begin it.
    Offered,
    /// A client has to begin TLS first, and gets no other answer before.
    Required,
}

/// Result of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Index of the export.
    pub export: usize,
    /// The form of requests and replies.
    pub headers: Headers,
    /// True if the client may ask for the status of blocks.
    pub has_allocation: bool,
}

/// Result of reading a client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Too few: nothing was taken of them.
    NeedsMore,
    /// An option, this number of bytes long.
    Took(usize),
    /// The option with which the client begins TLS, this number of bytes long. What follows is TLS' handshake, and whatever has
    /// come behind it already is not an option: when it is complete, [`Handshake::secured`] is to be called.
    Secures(usize),
    /// The option with which the client has chosen an export; requests follow.
    Chosen(usize, Session),
    /// The option with which the client ends it; once what is put out is sent, the connection is to be closed.
    Ended,
}

/// State of a handshake between two options, from which another process can continue it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeState {
    /// The client's flags, once they have come.
    pub client_flags: Option<u32>,
    /// TLS has begun.
    pub is_secure: bool,
    /// The form of replies that was agreed on.
    pub headers: Headers,
    /// The export whose block status the client has chosen to ask for, by its place.
    pub allocation_of: Option<usize>,
}

/// A connection before an export is chosen.
#[derive(Clone, Debug, Default)]
pub struct Handshake {
    /// The client's flags, once they have come.
    client_flags: Option<u32>,
    tls: Tls,
    /// TLS has begun.
    is_secure: bool,
    headers: Headers,
    /// The export whose block status the client has chosen to ask for.
    allocation_of: Option<usize>,
    /// The server ends.
    is_refused: bool,
}

impl Handshake {
    /// Handshake of a server with or without TLS.
    pub fn with_tls(tls: Tls) -> Self {
        Self { tls, ..Self::default() }
    }

    /// Handshake that another process has begun.
    pub const fn going_on(state: HandshakeState, tls: Tls) -> Self {
        let HandshakeState { client_flags, is_secure, headers, allocation_of } = state;
        Self { client_flags, tls, is_secure, headers, allocation_of, is_refused: false }
    }

    /// State for the process that continues the handshake.
    pub const fn state(&self) -> HandshakeState {
        let Self { client_flags, is_secure, headers, allocation_of, .. } = *self;
        HandshakeState { client_flags, is_secure, headers, allocation_of }
    }

    /// Continues behind TLS. Options that were agreed in clear are dropped: an attacker may have sent them.
    pub const fn secured(&mut self) {
        self.is_secure = true;
        self.headers = Headers::Simple;
        self.allocation_of = None;
    }

    /// Refuses the client, as the server ends: the next option is answered with NBD_REP_ERR_SHUTDOWN, and is the last.
    pub const fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Appends the server's first message.
    pub fn greet(&self, output: &mut Vec<u8>) {
        output.extend(GREETING.to_be_bytes());
        output.extend(OPTION_MAGIC.to_be_bytes());
        output.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    }

    /// Takes the next option from the front of `input`, and puts the answer behind `output`. With too much output already it
    /// needs more: first that is to be sent.
    ///
    /// # Errors
    /// When the connection cannot go on.
    pub fn step(
        &mut self,
        input: &[u8],
        exports: &[Export],
        output: &mut Vec<u8>,
    ) -> Result<Step, ProtocolError> {
        let mut fields = Fields(input);
        if self.client_flags.is_none() {
            let Some(flags) = fields.u32() else { return Ok(Step::NeedsMore) };
            if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                return Err(ProtocolError::ClientFlags(flags));
            }
            self.client_flags = Some(flags);
            return Ok(Step::Took(4));
        }
        let Some(magic) = fields.u64() else { return Ok(Step::NeedsMore) };
        if magic != OPTION_MAGIC {
            return Err(ProtocolError::OptionMagic(magic));
        }
        let (Some(option), Some(length)) = (fields.u32(), fields.u32()) else { return Ok(Step::NeedsMore) };
        if length as usize > OPTION_BYTES_MAX {
            return Err(ProtocolError::OptionLength { option, length });
        }
        let Some(data) = fields.bytes(length as usize) else { return Ok(Step::NeedsMore) };
        if output.len() > HANDSHAKE_OUTPUT_BYTES_MAX {
            return Ok(Step::NeedsMore);
        }
        self.option(option, data, exports, output)
    }

    /// Takes an option of which all has come.
    fn option(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &[Export],
        output: &mut Vec<u8>,
    ) -> Result<Step, ProtocolError> {
        let taken = OPTION_HEAD_BYTES + data.len();
        let lacks_tls = self.tls == Tls::Required && !self.is_secure;
        if self.is_refused && option != option::ABORT {
            // NBD_OPT_EXPORT_NAME has no answer for errors.
            if option != option::EXPORT_NAME {
                Answer { option, output }.end(reply::SHUTDOWN);
            }
            return Ok(Step::Ended);
        }
        if option == option::EXPORT_NAME {
            return match lacks_tls {
                true => Err(ProtocolError::TlsRequired),
                false => self.export_name(data, exports, output).map(|session| Step::Chosen(taken, session)),
            };
        }
        let mut answer = Answer { option, output };
        match option {
            option::ABORT => {
                answer.end(reply::ACK);
                return Ok(Step::Ended);
            }
            option::STARTTLS if self.tls != Tls::Off => {
                if self.is_secure || !data.is_empty() {
                    answer.end(reply::INVALID);
                } else {
                    answer.end(reply::ACK);
                    return Ok(Step::Secures(taken));
                }
            }
            _ if lacks_tls => answer.end(reply::TLS_REQUIRED),
            option::INFO | option::GO => {
                let found = self.export_info(data, exports, &mut answer);
                if let (Some(export), option::GO) = (found, option) {
                    return Ok(Step::Chosen(taken, self.session(export)));
                }
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(data, exports, &mut answer);
            }
            option::LIST | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS if !data.is_empty() => {
                answer.end(reply::INVALID);
            }
            option::LIST => list(exports, &mut answer),
            option::STRUCTURED_REPLY if self.headers == Headers::Extended => {
                answer.end(reply::EXTENDED_HEADERS_REQUIRED);
            }
            option::STRUCTURED_REPLY => self.agree(Headers::Structured, &mut answer),
            option::EXTENDED_HEADERS => self.agree(Headers::Extended, &mut answer),
            // NBD_OPT_STARTTLS among them, where there is no TLS.
            _ => answer.end(reply::UNSUPPORTED),
        }
        Ok(Step::Took(taken))
    }

    fn agree(&mut self, headers: Headers, answer: &mut Answer<'_>) {
        self.headers = headers;
        answer.end(reply::ACK);
    }

    fn session(&self, export: usize) -> Session {
        let has_allocation = self.allocation_of == Some(export);
        Session { export, headers: self.headers, has_allocation }
    }

    fn export_name(
        &self,
        data: &[u8],
        exports: &[Export],
        output: &mut Vec<u8>,
    ) -> Result<Session, ProtocolError> {
        if self.headers == Headers::Extended {
            return Err(ProtocolError::ExtendedExportName);
        }
        let at = std::str::from_utf8(data).ok().and_then(|name| find(exports, name));
        let Some(at) = at else {
            return Err(ProtocolError::NoExport(String::from_utf8_lossy(data).into_owned()));
        };
        output.extend(exports[at].size.to_be_bytes());
        output.extend(exports[at].flags(self.headers).to_be_bytes());
        if self.client_flags.unwrap_or(0) & u32::from(NO_ZEROES) == 0 {
            output.extend([0; ZEROES]);
        }
        Ok(self.session(at))
    }

    /// Answers NBD_OPT_INFO or NBD_OPT_GO, and says which export it was about where it was successful.
    fn export_info(&self, data: &[u8], exports: &[Export], answer: &mut Answer<'_>) -> Option<usize> {
        let Some(asked) = ExportOption::read(data) else {
            answer.end(reply::INVALID);
            return None;
        };
        let Some(at) = find(exports, asked.name) else {
            answer.end(reply::UNKNOWN);
            return None;
        };
        let export = &exports[at];
        let (size, flags) = (export.size.to_be_bytes(), export.flags(self.headers).to_be_bytes());
        answer.put(reply::INFO, &[&info::EXPORT.to_be_bytes(), &size, &flags]);
        if asked.wants_name {
            answer.put(reply::INFO, &[&info::NAME.to_be_bytes(), export.name.as_bytes()]);
        }
        if asked.wants_description {
            answer.put(reply::INFO, &[&info::DESCRIPTION.to_be_bytes(), export.description.as_bytes()]);
        }
        let [least, preferred, most] = export.sizes().map(u32::to_be_bytes);
        answer.put(reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes(), &least, &preferred, &most]);
        answer.end(reply::ACK);
        Some(at)
    }

    fn contexts(&mut self, data: &[u8], exports: &[Export], answer: &mut Answer<'_>) {
        let chooses = answer.option == option::SET_META_CONTEXT;
        if chooses {
            self.allocation_of = None;
        }
        if self.headers == Headers::Simple {
            return answer.end(reply::INVALID);
        }
        let Some(query) = ContextQuery::read(data) else { return answer.end(reply::INVALID) };
        let Some(at) = find(exports, query.export) else { return answer.end(reply::UNKNOWN) };
        let is_listed = !chooses && (query.is_empty || query.names_base);
        if query.names_allocation || is_listed {
            let id = if chooses { ALLOCATION_ID } else { 0 };
            answer.put(reply::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION.as_bytes()]);
            if chooses {
                self.allocation_of = Some(at);
            }
        }
        answer.end(reply::ACK);
    }
}

/// The export with this name; the first is meant by no name.
fn find(exports: &[Export], name: &str) -> Option<usize> {
    let named = exports.iter().position(|export| export.name == name);
    named.or_else(|| (name.is_empty() && !exports.is_empty()).then_some(0))
}

fn list(exports: &[Export], answer: &mut Answer<'_>) {
    for export in exports {
        let length = (export.name.len() as u32).to_be_bytes();
        answer.put(reply::SERVER, &[&length, export.name.as_bytes(), export.description.as_bytes()]);
    }
    answer.end(reply::ACK);
}

/// Replies to one option.
struct Answer<'a> {
    option: u32,
    output: &'a mut Vec<u8>,
}

impl Answer<'_> {
    fn put(&mut self, kind: u32, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.output.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        for field in [self.option, kind, length as u32] {
            self.output.extend(field.to_be_bytes());
        }
        parts.iter().for_each(|part| self.output.extend(*part));
    }

    fn end(&mut self, kind: u32) {
        self.put(kind, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer to an option of a client whose flags have come.
    fn answered(handshake: &mut Handshake, option: u32) -> (Step, Vec<u8>) {
        let mut output = Vec::new();
        let input = [b"IHAVEOPT", &option.to_be_bytes()[..], &0u32.to_be_bytes()].concat();
        (handshake.step(&input, &[], &mut output).unwrap(), output)
    }

    #[test]
    fn a_server_that_ends_answers_one_more_option_with_the_reason() {
        let state = HandshakeState { client_flags: Some(3), ..HandshakeState::default() };
        for option in [option::LIST, option::STARTTLS, option::GO, 99] {
            let mut handshake = Handshake::going_on(state, Tls::Required);
            assert!(matches!(answered(&mut handshake, 99).0, Step::Took(16)), "{option}");
            handshake.refuse();
            let (step, output) = answered(&mut handshake, option);
            assert_eq!(step, Step::Ended, "{option}");
            let head =
                [OPTION_REPLY_MAGIC.to_be_bytes(), (u64::from(option) << 32 | 0x8000_0007).to_be_bytes()];
            assert_eq!(output, [&head.concat()[..], &[0; 4]].concat(), "{option}");
        }
        let mut handshake = Handshake::going_on(state, Tls::Off);
        handshake.refuse();
        assert_eq!(answered(&mut handshake, option::EXPORT_NAME), (Step::Ended, Vec::new()));
    }
}
