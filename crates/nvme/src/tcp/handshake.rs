//! The opening of a connection: what ICReq and ICResp agree on, checked at both ends.
//! It decides only; the PDUs are framed by `transmit` and unframed by `receive`.

use super::decode_error::DecodeError;
use super::pdu::{FatalError, Initialize, PduType};

const HEADER: u8 = 1;
const DATA: u8 = 2;

/// Byte offsets of fields in ICReq and ICResp, for termination requests.
const FORMAT_VERSION_AT: u32 = 8;
const ALIGNMENT_AT: u32 = 10;
const DIGESTS_AT: u32 = 11;
const LIMIT_AT: u32 = 12;

/// The largest alignment that either end may ask for (HPDA and CPDA, 0's based dwords).
const ALIGNMENT_MAX: u8 = 31;

/// An ICResp may not offer less than this (MAXH2CDATA, TCP 3.6.2.3).
const DATA_LENGTH_MIN: u32 = 4096;

/// Digests that a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Header digests (HDGST).
    pub header: bool,
    /// Data digests (DDGST).
    pub data: bool,
}

impl Digests {
    /// The bits of the DGST field.
    pub const fn bits(self) -> u8 {
        (if self.header { HEADER } else { 0 }) | (if self.data { DATA } else { 0 })
    }

    const fn from_bits(bits: u8) -> Self {
        Self { header: bits & HEADER != 0, data: bits & DATA != 0 }
    }
}

/// Parameters on which the two ends agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Digests in both directions.
    pub digests: Digests,
    /// Alignment of the data within PDUs that this end sends, in bytes: its offset is a multiple of
    /// this, as the other end asked (HPDA at the controller, CPDA at the host).
    pub data_alignment: u8,
    /// True if the request has digests of which this specification knows nothing, and which are
    /// therefore not used.
    pub has_unknown_digests: bool,
    /// R2Ts the host takes at a time for one command, at least 1 (the controller's to keep).
    pub ready_to_transfer_max: u32,
    /// Bytes that one H2CData PDU may carry (the host's to keep).
    pub data_to_controller_max: u32,
}

/// The controller's answer to an ICReq, offering `data_to_controller_max` bytes per H2CData PDU.
///
/// # Errors
/// A parameter that is not supported: another format version, an alignment that is none.
pub fn negotiate(
    request: &Initialize,
    data_to_controller_max: u32,
) -> Result<(Initialize, Negotiated), DecodeError> {
    let unsupported = |at| Err(DecodeError::new(FatalError::UnsupportedParameter, at));
    if request.format_version.get() != 0 {
        return unsupported(FORMAT_VERSION_AT);
    }
    let Some(data_alignment) = alignment(request.data_alignment) else { return unsupported(ALIGNMENT_AT) };
    let has_unknown_digests = request.digests & !(HEADER | DATA) != 0;
    let digests = Digests::from_bits(request.digests);
    // The controller itself takes data wherever it begins (CPDA 0).
    let response = Initialize::new(PduType::InitializeResponse, digests.bits(), data_to_controller_max);
    let ready_to_transfer_max = request.limit.get().saturating_add(1);
    let negotiated = Negotiated {
        digests,
        data_alignment,
        has_unknown_digests,
        ready_to_transfer_max,
        data_to_controller_max,
    };
    Ok((response, negotiated))
}

/// An alignment in bytes from its field, `None` for what no end may ask for.
const fn alignment(field: u8) -> Option<u8> {
    if field > ALIGNMENT_MAX { None } else { Some((field + 1) * 4) }
}

/// The host's check of an ICResp against what it asked for.
///
/// # Errors
/// A parameter the host did not ask for, or one that breaks the specification.
pub fn settle(response: &Initialize, asked: Digests) -> Result<Negotiated, DecodeError> {
    let unsupported = |at| Err(DecodeError::new(FatalError::UnsupportedParameter, at));
    if response.format_version.get() != 0 {
        return unsupported(FORMAT_VERSION_AT);
    }
    let Some(data_alignment) = alignment(response.data_alignment) else { return unsupported(ALIGNMENT_AT) };
    if response.digests != asked.bits() {
        return unsupported(DIGESTS_AT);
    }
    let data_to_controller_max = response.limit.get();
    if data_to_controller_max < DATA_LENGTH_MIN || !data_to_controller_max.is_multiple_of(4) {
        return unsupported(LIMIT_AT);
    }
    Ok(Negotiated {
        digests: asked,
        data_alignment,
        has_unknown_digests: false,
        ready_to_transfer_max: 1,
        data_to_controller_max,
    })
}
