//! The receiving half of a connection: cuts the byte stream into PDUs, checks every header and digest. It
//! keeps no payload: the owner takes data where it will be used. It does not know which commands are
//! outstanding.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::decode_error::DecodeError;
use super::digest::{DIGEST_LENGTH, Digest, crc32c};
use super::handshake::Digests;
use super::pdu::{
    CapsuleCommand, CapsuleResponse, CommonHeader, DataPdu, FatalError, Initialize, PduType, ReadyToTransfer,
    Terminate, flags,
};
use crate::{CompletionEntry, SubmissionEntry};

const COMMON_LENGTH: usize = size_of::<CommonHeader>();
/// The longest that is gathered: a termination request with the longest header of a faulty PDU.
const HEADER_LENGTH_MAX: usize = size_of::<Terminate>() + Terminate::HEADER_LENGTH_MAX;

/// Byte offsets in the common header, for termination requests.
const KIND_AT: u32 = 0;
const FLAGS_AT: u32 = 1;
const HEADER_LENGTH_AT: u32 = 2;
const DATA_OFFSET_AT: u32 = 3;
const PDU_LENGTH_AT: u32 = 4;
/// Byte offset of DATAL in a data PDU.
const DATA_LENGTH_AT: u32 = 16;

/// End of the connection that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The controller receives commands and data.
    Controller,
    /// The host receives completions, data and R2Ts.
    Host,
}

/// Received unit of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// ICReq, or ICResp at a host.
    Initialize(Initialize),
    /// A command; `data_length` bytes of in-capsule data follow.
    Command {
        /// The submission entry.
        entry: SubmissionEntry,
        /// Bytes of data to take before the next event.
        data_length: usize,
    },
    /// A completion.
    Response(CompletionEntry),
    /// A data PDU whose `length` bytes follow.
    Data(DataPdu),
    /// A request for data.
    ReadyToTransfer(ReadyToTransfer),
    /// The data of the PDU has come whole. `digest_matches` is false when its digest says otherwise: the
    /// command fails with Transient Transport Error, the connection goes on (TCP 3.3.1.1.2).
    DataEnd {
        /// True if the data matches its digest.
        digest_matches: bool,
    },
    /// The peer ends the connection.
    Terminate {
        /// Fatal error status (FES), a number the specification may not know.
        error: u16,
        /// Fatal error information (FEI).
        information: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    Padding {
        left: usize,
    },
    Data,
    DataDigest,
    /// Bytes came that no conforming peer sends: the stream behind them cannot be parsed.
    Faulty(DecodeError),
}

/// The receiving state machine. Call `next` with what has come until it returns `None`; after an event that
/// announces data, take the data with `take_data` or receive it elsewhere and tell `data_received`, then go
/// on.
#[derive(Debug)]
pub struct Receiver {
    role: Role,
    digests: Digests,
    initialized: bool,
    has_stray_flags: bool,
    has_unset_offsets: bool,
    data_length_max: u32,
    state: State,
    stash: [u8; HEADER_LENGTH_MAX],
    /// Bytes of a header or digest that came in pieces; 0 in between.
    stashed: usize,
    /// Length of the faulty header at the start of the stash.
    faulty: usize,
    data_left: usize,
    data_digested: bool,
    digest: Digest,
}

impl Receiver {
    /// A receiver that waits for the first PDU. No PDU may carry more than `data_length_max` bytes of data.
    pub fn new(role: Role, data_length_max: u32) -> Self {
        Self {
            role,
            digests: Digests::default(),
            initialized: false,
            has_stray_flags: false,
            has_unset_offsets: false,
            data_length_max,
            state: State::Header,
            stash: [0; HEADER_LENGTH_MAX],
            stashed: 0,
            faulty: 0,
            data_left: 0,
            data_digested: false,
            digest: Digest::default(),
        }
    }

    /// From now on expects these digests.
    pub fn set_digests(&mut self, digests: Digests) {
        self.digests = digests;
    }

    /// True if it stands between two PDUs, or within the header of one.
    pub fn is_between_data(&self) -> bool {
        self.state == State::Header
    }

    /// Takes the bytes of a header that have come. `None` unless it stands between two PDUs or
    /// within a header.
    pub fn take_begun_header(&mut self) -> Option<&[u8]> {
        if self.state != State::Header {
            return None;
        }
        let begun = core::mem::take(&mut self.stashed);
        Some(&self.stash[..begun])
    }

    /// From now on expects commands: the connection was set up elsewhere, with these digests.
    pub fn go_on_with(&mut self, digests: Digests) {
        self.initialized = true;
        self.digests = digests;
    }

    /// True if a host has set flags of digests that were not agreed on. There are none behind its
    /// headers, and a controller need not mind.
    pub const fn has_stray_flags(&self) -> bool {
        self.has_stray_flags
    }

    /// True if a host has sent data without a data offset (PDO 0). It can only be right behind the
    /// header, and a controller need not mind.
    pub const fn has_unset_offsets(&self) -> bool {
        self.has_unset_offsets
    }

    /// Bytes of the current PDU's data that may be taken now. While it is not 0, `next` returns `None`.
    #[inline]
    pub fn data_left(&self) -> usize {
        // Padding in front of the data is skipped by `next`, and only then the data can be taken.
        if self.state == State::Data { self.data_left } else { 0 }
    }

    /// The header that `next` found faulty, for the termination request: without its digest, and only its
    /// common part when that is already wrong, so that what is sent does not depend on how the bytes came.
    pub fn faulty_header(&self) -> &[u8] {
        &self.stash[..self.faulty]
    }

    /// Takes up to `limit` bytes of the current PDU's data from the front of `input`.
    #[inline]
    pub fn take_data<'a>(&mut self, input: &mut &'a [u8], limit: usize) -> &'a [u8] {
        let length = self.data_left().min(input.len()).min(limit);
        let (taken, rest) = input.split_at(length);
        *input = rest;
        self.data_received(taken);
        taken
    }

    /// Records that the next data of the current PDU was received elsewhere.
    ///
    /// # Panics
    /// When it is more than the PDU has left.
    #[inline]
    pub fn data_received(&mut self, bytes: &[u8]) {
        assert!(self.state == State::Data || bytes.is_empty(), "data outside of a data PDU");
        if self.data_digested {
            self.digest.update(bytes);
        }
        self.data_left = self.data_left.checked_sub(bytes.len()).expect("more data than the PDU has");
    }

    /// Records that the next `length` bytes of the current PDU's data were received elsewhere, which have no digest.
    ///
    /// # Panics
    /// When they have one, or are more than the PDU has left.
    pub fn data_placed(&mut self, length: usize) {
        assert!(self.state == State::Data && !self.data_digested, "data that has to be looked at");
        self.data_left = self.data_left.checked_sub(length).expect("more data than the PDU has");
    }

    /// The next event in `input`, which moves on past what was used. `None` wants more bytes, or the data
    /// taken.
    ///
    /// # Errors
    /// Bytes that no conforming peer sends; the receiver is of no more use, and says the same if asked again.
    #[inline]
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, DecodeError> {
        loop {
            match self.state {
                State::Header => return self.header(input),
                State::Faulty(error) => return Err(error),
                State::Padding { left } => {
                    let skipped = left.min(input.len());
                    *input = &input[skipped..];
                    if skipped < left {
                        self.state = State::Padding { left: left - skipped };
                        return Ok(None);
                    }
                    self.state = State::Data;
                }
                State::Data if self.data_left > 0 => return Ok(None),
                State::Data if self.data_digested => self.state = State::DataDigest,
                State::Data => {
                    self.state = State::Header;
                    return Ok(Some(Event::DataEnd { digest_matches: true }));
                }
                State::DataDigest => {
                    if !self.gather(input, DIGEST_LENGTH) {
                        return Ok(None);
                    }
                    let digest_matches = self.stash[..DIGEST_LENGTH] == self.digest.value().to_le_bytes();
                    self.state = State::Header;
                    self.stashed = 0;
                    return Ok(Some(Event::DataEnd { digest_matches }));
                }
            }
        }
    }

    /// Fills the stash up to `length` bytes; whether it is full.
    fn gather(&mut self, input: &mut &[u8], length: usize) -> bool {
        let missing = length.saturating_sub(self.stashed).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.stash[self.stashed..self.stashed + missing].copy_from_slice(taken);
        self.stashed += missing;
        *input = rest;
        self.stashed >= length
    }

    /// A header, read where it is when it lies whole within the input, as most do. It is compiled into the
    /// owner's loop, so that the event need not be copied, which costs more than all checks.
    #[inline(always)]
    fn header(&mut self, input: &mut &[u8]) -> Result<Option<Event>, DecodeError> {
        let whole = *input;
        let planned = if self.stashed == 0 && whole.len() >= COMMON_LENGTH {
            match self.plan(whole) {
                Ok(plan) if whole.len() >= plan.gathered => Some(plan),
                Ok(_) => None,
                Err(error) => return Err(self.fault(&whole[..COMMON_LENGTH], error)),
            }
        } else {
            None
        };
        let (plan, bytes) = if let Some(plan) = planned {
            let (bytes, rest) = whole.split_at(plan.gathered);
            if let Err(error) = plan.check(bytes) {
                return Err(self.fault(&bytes[..plan.header_length], error));
            }
            *input = rest;
            self.begin(&plan);
            (plan, bytes)
        } else {
            let Some(plan) = self.gather_header(input)? else { return Ok(None) };
            self.begin(&plan);
            (plan, &self.stash[..plan.gathered])
        };
        Ok(Some(plan.event(bytes)))
    }

    /// Puts a header that comes in pieces together in the stash; its plan when it is whole and checked.
    #[inline(never)]
    fn gather_header(&mut self, input: &mut &[u8]) -> Result<Option<Plan>, DecodeError> {
        if !self.gather(input, COMMON_LENGTH) {
            return Ok(None);
        }
        let plan = match self.plan(&self.stash) {
            Ok(plan) => plan,
            Err(error) => return Err(self.fault_in_stash(COMMON_LENGTH, error)),
        };
        if !self.gather(input, plan.gathered) {
            return Ok(None);
        }
        if let Err(error) = plan.check(&self.stash[..plan.gathered]) {
            return Err(self.fault_in_stash(plan.header_length, error));
        }
        self.stashed = 0;
        Ok(Some(plan))
    }

    /// Keeps a faulty header that was read where it is, and ends all receiving.
    #[cold]
    fn fault(&mut self, header: &[u8], error: DecodeError) -> DecodeError {
        self.stash[..header.len()].copy_from_slice(header);
        self.fault_in_stash(header.len(), error)
    }

    /// Ends all receiving because of the header of `length` in the stash.
    fn fault_in_stash(&mut self, length: usize, error: DecodeError) -> DecodeError {
        self.faulty = length;
        self.state = State::Faulty(error);
        error
    }

    /// Checks the common header, and plans how the rest of the PDU is taken. Of several wrong fields the one
    /// that comes first has to be named, so that they are checked in their order.
    #[inline(always)]
    fn plan(&self, bytes: &[u8]) -> Result<Plan, DecodeError> {
        let Ok((common, _)) = CommonHeader::ref_from_prefix(bytes) else {
            return Err(DecodeError::field(KIND_AT));
        };
        let Some(kind) = PduType::from_number(common.kind) else {
            return Err(DecodeError::field(KIND_AT));
        };
        self.check_order(kind)?;
        let header_length = kind.header_length();
        let pdu_length = common.pdu_length.get() as usize;
        let mut plan = Plan {
            kind,
            header_length,
            header_digested: self.digests.header && !kind.is_without_digest(),
            gathered: header_length,
            padding: 0,
            data: 0,
            data_digested: false,
            has_stray_flags: false,
            has_unset_offset: false,
        };
        if matches!(kind, PduType::HostTerminate | PduType::ControllerTerminate) {
            if usize::from(common.header_length) != header_length {
                return Err(DecodeError::field(HEADER_LENGTH_AT));
            }
            if !(header_length..=HEADER_LENGTH_MAX).contains(&pdu_length) {
                return Err(DecodeError::field(PDU_LENGTH_AT));
            }
            plan.gathered = pdu_length;
            return Ok(plan);
        }
        if plan.header_digested {
            plan.gathered += DIGEST_LENGTH;
        }
        let data_digest = common.flags & flags::DATA_DIGEST != 0;
        let has_data = kind.carries_data() && pdu_length > plan.gathered;
        // A PDU with data carries the data digest when it was agreed on; one without has no use for the flag.
        let header_digest = common.flags & flags::HEADER_DIGEST != 0;
        let is_missing =
            (plan.header_digested && !header_digest) || (self.digests.data && has_data && !data_digest);
        plan.has_stray_flags =
            (header_digest && !plan.header_digested) || (data_digest && !self.digests.data);
        if is_missing || (plan.has_stray_flags && self.role == Role::Host) {
            return Err(DecodeError::field(FLAGS_AT));
        }
        if usize::from(common.header_length) != header_length {
            return Err(DecodeError::field(HEADER_LENGTH_AT));
        }
        if has_data {
            plan.has_unset_offset = common.data_offset == 0 && self.role == Role::Controller;
            let offset = if plan.has_unset_offset { plan.gathered } else { usize::from(common.data_offset) };
            return self.plan_data(plan, offset, pdu_length);
        }
        if pdu_length != plan.gathered {
            return Err(DecodeError::field(PDU_LENGTH_AT));
        }
        Ok(plan)
    }

    /// Plans the data of a PDU that has some: padding, data and digest.
    #[inline]
    fn plan_data(&self, plan: Plan, offset: usize, pdu_length: usize) -> Result<Plan, DecodeError> {
        if offset < plan.gathered || offset > pdu_length || !offset.is_multiple_of(4) {
            return Err(DecodeError::field(DATA_OFFSET_AT));
        }
        let digest_length = if self.digests.data { DIGEST_LENGTH } else { 0 };
        let data = pdu_length.saturating_sub(offset + digest_length);
        if data == 0 {
            return Err(DecodeError::field(PDU_LENGTH_AT));
        }
        if data > self.data_length_max as usize {
            // Only for data that a controller asked for there is an error of its own, with no information.
            return Err(match plan.kind {
                PduType::DataToController => DecodeError::new(FatalError::TransferLimitExceeded, 0),
                _ => DecodeError::field(PDU_LENGTH_AT),
            });
        }
        Ok(Plan { padding: offset - plan.gathered, data, data_digested: self.digests.data, ..plan })
    }

    /// Checks that a PDU of `kind` may come to this end now.
    #[inline]
    fn check_order(&self, kind: PduType) -> Result<(), DecodeError> {
        let mine = match kind {
            PduType::InitializeRequest
            | PduType::HostTerminate
            | PduType::CapsuleCommand
            | PduType::DataToController => Role::Controller,
            _ => Role::Host,
        };
        if mine != self.role {
            return Err(DecodeError::field(KIND_AT));
        }
        let opens = matches!(kind, PduType::InitializeRequest | PduType::InitializeResponse);
        let ends = matches!(kind, PduType::HostTerminate | PduType::ControllerTerminate);
        if opens == self.initialized && !ends {
            return Err(DecodeError::new(FatalError::PduSequence, 0));
        }
        Ok(())
    }

    /// Goes on to what follows the header.
    #[inline]
    fn begin(&mut self, plan: &Plan) {
        if matches!(plan.kind, PduType::InitializeRequest | PduType::InitializeResponse) {
            self.initialized = true;
        }
        if plan.has_stray_flags {
            self.has_stray_flags = true;
        }
        if plan.has_unset_offset {
            self.has_unset_offsets = true;
        }
        if plan.data > 0 {
            self.data_left = plan.data;
            self.data_digested = plan.data_digested;
            if plan.data_digested {
                self.digest.reset();
            }
            self.state = match plan.padding {
                0 => State::Data,
                left => State::Padding { left },
            };
        }
    }
}

/// Plan for receiving a PDU, from its common header.
#[derive(Clone, Copy)]
struct Plan {
    kind: PduType,
    header_length: usize,
    header_digested: bool,
    /// Bytes of header and header digest; of a termination request, all of it.
    gathered: usize,
    padding: usize,
    data: usize,
    data_digested: bool,
    has_stray_flags: bool,
    has_unset_offset: bool,
}

impl Plan {
    /// Checks what has been gathered: the digest of the header, and that a data PDU says one length only.
    #[inline(always)]
    fn check(&self, gathered: &[u8]) -> Result<(), DecodeError> {
        if self.header_digested {
            let (header, received) = gathered.split_at(self.header_length);
            let received = read::<U32>(received).get();
            if received != crc32c(header) {
                return Err(DecodeError::new(FatalError::HeaderDigest, received));
            }
        }
        if matches!(self.kind, PduType::DataToController | PduType::DataToHost) {
            let length = read::<DataPdu>(gathered).length.get();
            if length as usize != self.data || length == 0 {
                return Err(DecodeError::field(DATA_LENGTH_AT));
            }
        }
        Ok(())
    }

    /// The event of a header that was checked. It is built where it is returned: copying it costs more than
    /// all else.
    #[inline(always)]
    fn event(&self, gathered: &[u8]) -> Event {
        match self.kind {
            PduType::InitializeRequest | PduType::InitializeResponse => Event::Initialize(*read(gathered)),
            PduType::HostTerminate | PduType::ControllerTerminate => {
                let pdu: &Terminate = read(gathered);
                Event::Terminate { error: pdu.error.get(), information: pdu.information.get() }
            }
            PduType::CapsuleCommand => {
                Event::Command { entry: read::<CapsuleCommand>(gathered).entry, data_length: self.data }
            }
            PduType::CapsuleResponse => Event::Response(read::<CapsuleResponse>(gathered).entry),
            PduType::DataToController | PduType::DataToHost => Event::Data(*read(gathered)),
            PduType::ReadyToTransfer => Event::ReadyToTransfer(*read(gathered)),
        }
    }
}

/// Reads what stands at the start of `gathered`, which is as long as its plan says.
fn read<T: FromBytes + KnownLayout + Immutable + Unaligned>(gathered: &[u8]) -> &T {
    T::ref_from_prefix(gathered).expect("a header is gathered whole before it is read").0
}
