//! Bytes of NBD as a client has them, written and read apart from the server's code: what both took for right would not be
//! noticed. No I/O.

/// A server's greeting: it knows fixed newstyle, and sends no zeroes.
pub(crate) const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
/// A client's answer to that.
pub(crate) const CLIENT_FLAGS: [u8; 4] = 3_u32.to_be_bytes();
/// Bytes of an option's reply before its data.
pub(crate) const OPTION_REPLY_BYTES: usize = 20;
/// Reply to an option that was taken.
pub(crate) const ACK: u32 = 1;

const OPTION_GO: u32 = 7;
const OPTION_STRUCTURED: u32 = 8;
const OPTION_EXTENDED: u32 = 11;

/// Requests.
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const WRITE_ZEROES: u16 = 6;

/// Command flags.
const FLAG_FUA: u16 = 1 << 0;
const FLAG_NO_HOLE: u16 = 1 << 1;
const FLAG_DF: u16 = 1 << 2;
const FLAG_PAYLOAD_LEN: u16 = 1 << 5;
/// Transmission flags of a disk that takes all requests: SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES and CAN_MULTI_CONN.
const CAN_ALL: u16 = 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;

/// Magic numbers.
const REQUEST: u32 = 0x2560_9513;
const REQUEST_EXTENDED: u32 = 0x21e4_1c71;
const REPLY_SIMPLE: u32 = 0x6744_6698;
const REPLY_STRUCTURED: u32 = 0x668e_33ef;
const REPLY_EXTENDED: u32 = 0x6e8a_278c;

/// Kinds of chunks.
const CHUNK_NONE: u16 = 0;
const CHUNK_DATA: u16 = 1;
const CHUNK_ERROR: u16 = 1 << 15;

/// Form of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Simple,
    Structured,
    Extended,
}

impl Form {
    pub(crate) const ALL: [Self; 3] = [Self::Simple, Self::Structured, Self::Extended];
}

/// Options of a client that wants this form and this disk.
pub(crate) fn options(form: Form, disk: &str) -> Vec<(u32, Vec<u8>)> {
    let form = match form {
        Form::Simple => None,
        Form::Structured => Some(OPTION_STRUCTURED),
        Form::Extended => Some(OPTION_EXTENDED),
    };
    let name = [&(disk.len() as u32).to_be_bytes(), disk.as_bytes(), &[0, 0]].concat();
    form.map(|option| (option, Vec::new())).into_iter().chain([(OPTION_GO, name)]).collect()
}

/// An option's bytes.
pub(crate) fn option(option: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &option.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// Kind of an option's reply, and the length of its data.
pub(crate) fn option_reply(head: &[u8]) -> (u32, usize) {
    (number(&head[12..16]) as u32, number(&head[16..20]) as usize)
}

/// True if an option's reply refuses it.
pub(crate) const fn is_refusal(kind: u32) -> bool {
    kind >> 31 != 0
}

/// Transmission flags, where an option's reply has some.
pub(crate) fn transmission_flags(data: &[u8]) -> Option<u16> {
    (data.len() == 12 && data[..2] == [0, 0]).then(|| number(&data[10..12]) as u16)
}

/// True if a disk takes all requests.
pub(crate) const fn can_all(flags: u16) -> bool {
    flags & CAN_ALL == CAN_ALL
}

/// Flags of a write.
pub(crate) const fn durable(is_durable: bool) -> u16 {
    if is_durable { FLAG_FUA } else { 0 }
}

/// Flags of zeroes that have to have room.
pub(crate) const fn no_hole(has_room: bool) -> u16 {
    if has_room { FLAG_NO_HOLE } else { 0 }
}

/// Flags of a read that is to come as one, where that can be asked for.
pub(crate) fn whole(form: Form, is_whole: bool) -> u16 {
    if is_whole && form != Form::Simple { FLAG_DF } else { 0 }
}

/// A request's bytes before its data.
pub(crate) fn request(
    form: Form,
    kind: u16,
    flags: u16,
    cookie: u64,
    (offset, length): (u64, u64),
) -> Vec<u8> {
    let is_extended = form == Form::Extended;
    let flags = if is_extended && kind == WRITE { flags | FLAG_PAYLOAD_LEN } else { flags };
    let magic = if is_extended { REQUEST_EXTENDED } else { REQUEST };
    let short = (length as u32).to_be_bytes();
    let long = length.to_be_bytes();
    let length: &[u8] = if is_extended { &long } else { &short };
    let head = [&magic.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
    [&head[..], &cookie.to_be_bytes(), &offset.to_be_bytes(), length].concat()
}

/// Part of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) is_last: bool,
    pub(crate) error: u32,
    /// Data, with its offset; that of a simple reply is given by its request.
    pub(crate) data: Option<(u64, Vec<u8>)>,
}

/// The first reply of the input, and its bytes; `None` when not all of it has come. `read_of` is the offset and length of the
/// data that a request asks for.
///
/// # Errors
/// Fault of the reply.
pub(crate) fn reply(
    input: &[u8],
    form: Form,
    read_of: impl Fn(u64) -> (u64, usize),
) -> Result<Option<(usize, Reply)>, String> {
    let head_bytes = match form {
        Form::Simple => 16,
        Form::Structured => 20,
        Form::Extended => 32,
    };
    let Some(head) = input.get(..head_bytes) else { return Ok(None) };
    let (magic, expected) = (number(&head[..4]) as u32, magic(form));
    if magic != expected {
        return Err(format!("a reply begins with {magic:#x} instead of {expected:#x}"));
    }
    if form == Form::Simple {
        let (error, cookie) = (number(&head[4..8]) as u32, number(&head[8..16]));
        let (offset, length) = if error == 0 { read_of(cookie) } else { (0, 0) };
        let Some(data) = input.get(head_bytes..head_bytes + length) else { return Ok(None) };
        let data = (length > 0).then(|| (offset, data.to_vec()));
        return Ok(Some((head_bytes + length, Reply { cookie, is_last: true, error, data })));
    }
    let (flags, kind, cookie) = (number(&head[4..6]), number(&head[6..8]) as u16, number(&head[8..16]));
    let length = number(if form == Form::Extended { &head[24..] } else { &head[16..] }) as usize;
    let Some(payload) = input.get(head_bytes..head_bytes + length) else { return Ok(None) };
    let mut reply = Reply { cookie, is_last: flags & 1 != 0, error: 0, data: None };
    match kind {
        CHUNK_NONE if length == 0 => {}
        CHUNK_DATA if length > 8 => reply.data = Some((number(&payload[..8]), payload[8..].to_vec())),
        _ if kind & CHUNK_ERROR != 0 && length >= 6 => reply.error = number(&payload[..4]) as u32,
        _ => return Err(format!("a reply has a chunk of kind {kind} and {length} bytes")),
    }
    Ok(Some((head_bytes + length, reply)))
}

const fn magic(form: Form) -> u32 {
    match form {
        Form::Simple => REPLY_SIMPLE,
        Form::Structured => REPLY_STRUCTURED,
        Form::Extended => REPLY_EXTENDED,
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}
