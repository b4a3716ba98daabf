//! A connection of an NBD client: options and requests that are mostly as the protocol has them, with any bytes in between, cut
//! in two ways that have to come to the same.

use arbitrary::{Result, Unstructured};
use nbd::limits::PAYLOAD_BYTES_MAX;
use nbd::{Command, Export, Handshake, Headers, ProtocolError, Request, Session, Step, Tls};

/// Plays what the bytes say.
pub fn check(bytes: &[u8]) {
    // Too few bytes for a choice are a short connection.
    let _ = connection(&mut Unstructured::new(bytes));
}

fn exports() -> Vec<Export> {
    let name = |name: &str| name.to_owned();
    vec![
        Export { name: name("1"), description: name("a disk"), size: 1 << 30, ..Export::default() },
        Export { name: name("2"), size: 1 << 40, block_bytes: 4096, is_read_only: true, ..Export::default() },
    ]
}

fn connection(input: &mut Unstructured<'_>) -> Result<()> {
    let tls = *input.choose(&[Tls::Off, Tls::Offered, Tls::Required])?;
    let mut stream = if input.ratio(9, 10)? { 3u32.to_be_bytes().to_vec() } else { Vec::new() };
    let mut is_extended = false;
    for _ in 0..input.int_in_range(0..=8)? {
        option(input, &mut stream, &mut is_extended)?;
    }
    for _ in 0..input.int_in_range(0..=8)? {
        request(input, &mut stream, is_extended)?;
    }
    if input.ratio(1, 4)? && !stream.is_empty() {
        let at = input.choose_index(stream.len())?;
        stream[at] ^= 1 << input.int_in_range(0..=7)?;
    }
    let mut cuts = Vec::new();
    for _ in 0..input.int_in_range(0..=6)? {
        cuts.push(input.int_in_range(0..=stream.len())?);
    }
    cuts.sort_unstable();
    assert_eq!(play(tls, &stream, &cuts), play(tls, &stream, &[]), "the cuts between pieces matter");
    Ok(())
}

fn option(input: &mut Unstructured<'_>, stream: &mut Vec<u8>, is_extended: &mut bool) -> Result<()> {
    let option = input.int_in_range(0u32..=12)?;
    *is_extended |= option == 11;
    let name: &[u8] = input.choose(&[&b"1"[..], b"2", b"", b"3"])?;
    let name = [&(name.len() as u32).to_be_bytes(), name].concat();
    let data = match input.int_in_range(0..=4)? {
        0 => Vec::new(),
        1 => [&name[..], &[0, 2, 0, 1, 0, 2]].concat(),
        2 => [&name[..], &[0, 0, 0, 1, 0, 0, 0, 15], b"base:allocation"].concat(),
        3 => name[4..].to_vec(),
        _ => input.arbitrary::<Vec<u8>>()?,
    };
    stream.extend(b"IHAVEOPT");
    stream.extend(option.to_be_bytes());
    stream.extend((data.len() as u32).to_be_bytes());
    stream.extend(data);
    Ok(())
}

fn request(input: &mut Unstructured<'_>, stream: &mut Vec<u8>, is_extended: bool) -> Result<()> {
    let (kind, flags) = (input.int_in_range(0u16..=9)?, input.int_in_range(0u16..=63)?);
    let length =
        if input.ratio(3, 4)? { u64::from(input.int_in_range(0u8..=9)?) * 512 } else { input.arbitrary()? };
    let offset: u64 =
        if input.ratio(3, 4)? { u64::from(input.arbitrary::<u16>()?) * 512 } else { input.arbitrary()? };
    let magic: u32 = if is_extended { 0x21e4_1c71 } else { 0x2560_9513 };
    stream.extend(magic.to_be_bytes());
    stream.extend([flags.to_be_bytes(), kind.to_be_bytes()].concat());
    stream.extend([7u64.to_be_bytes(), offset.to_be_bytes()].concat());
    let has_data = if is_extended { flags & 32 != 0 } else { kind == 1 };
    if is_extended {
        stream.extend(length.to_be_bytes());
    } else {
        stream.extend((length as u32).to_be_bytes());
    }
    if has_data {
        stream.extend(std::iter::repeat_n(5, length.min(8192) as usize));
    }
    Ok(())
}

/// Result of a connection.
#[derive(Debug, Default, PartialEq)]
struct Played {
    output: Vec<u8>,
    /// The option that chooses an export comes behind one that begins TLS.
    is_secure: bool,
    session: Option<Session>,
    commands: Vec<Result<Command, nbd::Errno>>,
    error: Option<ProtocolError>,
}

fn play(tls: Tls, stream: &[u8], cuts: &[usize]) -> Played {
    let (exports, mut handshake, mut played) = (exports(), Handshake::with_tls(tls), Played::default());
    let (mut at, mut skip) = (0usize, 0usize);
    for end in cuts.iter().copied().chain([stream.len()]) {
        while at <= end {
            let taken = skip.min(end - at);
            (at, skip) = (at + taken, skip - taken);
            if skip > 0 {
                break;
            }
            let bytes = &stream[at..end];
            let step = match played.session {
                None => option_step(&mut handshake, bytes, &exports, &mut played),
                Some(session) => request_step(&session, bytes, &exports, &mut played, &mut skip),
            };
            match step {
                Ok(Some(count)) => {
                    assert!(played.session.is_none() || played.is_secure || tls != Tls::Required);
                    assert!(count > 0 && count <= bytes.len());
                    at += count;
                }
                Ok(None) => break,
                Err(error) => {
                    played.error = error;
                    return played;
                }
            }
        }
    }
    played
}

/// The next option: how long it was, if it has come; an error without a reason is the client's own wish.
fn option_step(
    handshake: &mut Handshake,
    bytes: &[u8],
    exports: &[Export],
    played: &mut Played,
) -> std::result::Result<Option<usize>, Option<ProtocolError>> {
    match handshake.step(bytes, exports, &mut played.output).map_err(Some)? {
        Step::NeedsMore => Ok(None),
        Step::Took(count) => Ok(Some(count)),
        Step::Secures(count) => {
            // As if TLS' handshake took no bytes.
            assert!(!std::mem::replace(&mut played.is_secure, true), "TLS begins once");
            handshake.secured();
            Ok(Some(count))
        }
        Step::Chosen(count, session) => {
            assert!(session.export < exports.len());
            assert!(!session.has_allocation || session.headers != Headers::Simple);
            played.session = Some(session);
            Ok(Some(count))
        }
        Step::Ended => Err(None),
    }
}

fn request_step(
    session: &Session,
    bytes: &[u8],
    exports: &[Export],
    played: &mut Played,
    skip: &mut usize,
) -> std::result::Result<Option<usize>, Option<ProtocolError>> {
    let Some((count, request)) = Request::read(bytes, session.headers).map_err(Some)? else {
        return Ok(None);
    };
    assert!(request.payload_bytes <= PAYLOAD_BYTES_MAX);
    *skip = request.payload_bytes as usize;
    let export = &exports[session.export];
    let command = request.command(session, export, export.size);
    match command {
        Ok(Command::Disconnect | Command::Flush) | Err(_) => {}
        Ok(command) => {
            let (end, block) = (request.offset.checked_add(request.length), u64::from(export.block_bytes));
            assert!(end.is_some_and(|end| end <= export.size), "{command:?} goes past the end");
            assert!(request.offset.is_multiple_of(block) && request.length.is_multiple_of(block));
            assert_eq!(request.payload_bytes > 0, matches!(command, Command::Write { .. }));
            let writes =
                matches!(command, Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. });
            assert!(!writes || !export.is_read_only);
        }
    }
    played.commands.push(command);
    Ok(Some(count))
}
