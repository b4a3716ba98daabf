//! What a hostile host says: NVMe/TCP's bytes, written down once more from the specification, so that nothing of the
//! program under trial has a part in its own trial. It keeps out when which of them are sent.

use std::io::{Error, ErrorKind, Read, Result};

/// The subsystem that every target has for hosts that look for the others.
pub(crate) const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// PDU types (TCP transport 3.3.2).
const CAPSULE_COMMAND: u8 = 0x04;
const DATA_TO_HOST: u8 = 0x07;
pub(crate) const CAPSULE_RESPONSE: u8 = 0x05;
pub(crate) const IC_RESPONSE: u8 = 0x01;
/// Bytes of a command capsule's header, and of ICReq.
const CAPSULE_HEADER: usize = 72;
const IC_REQUEST: usize = 128;
/// A flag of C2HData: no response capsule follows, all went well.
const SUCCESS: u8 = 1 << 3;
/// A source range of Copy, format 0 (NVM Command Set 3.3.2).
const COPY_RANGE: usize = 32;
/// Data of Connect (Base 6.3).
const CONNECT_DATA: usize = 1024;
/// No PDU that a target sends to these hosts is longer.
const PDU_BYTES_MAX: usize = 2 << 20;

/// ICReq: the first thing a host says.
pub(crate) fn ic_request() -> Vec<u8> {
    let mut pdu = vec![0; IC_REQUEST];
    pdu[2] = IC_REQUEST as u8;
    pdu[4] = IC_REQUEST as u8;
    pdu
}

/// A capsule with a command of `opcode` and room for `data` bytes behind it.
fn capsule(opcode: u8, cid: u16, data: usize) -> Vec<u8> {
    let mut pdu = vec![0; CAPSULE_HEADER + data];
    pdu[0] = CAPSULE_COMMAND;
    pdu[2] = CAPSULE_HEADER as u8;
    pdu[3] = if data > 0 { CAPSULE_HEADER as u8 } else { 0 };
    let length = pdu.len() as u32;
    pdu[4..8].copy_from_slice(&length.to_le_bytes());
    pdu[8] = opcode;
    // SGLs, as all commands over fabrics have them.
    pdu[9] = 0x40;
    pdu[10..12].copy_from_slice(&cid.to_le_bytes());
    pdu
}

/// The name of a host.
pub(crate) fn host_nqn(host: u64) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-9000-{host:012x}")
}

/// Fields of a Connect command.
pub(crate) struct Connect<'a> {
    /// Makes this host differ from others.
    pub(crate) host: u64,
    pub(crate) subsystem: &'a str,
    pub(crate) queue: u16,
    /// Controller that an admin queue was given; 0xffff asks for a new one.
    pub(crate) controller: u16,
    /// Entries of the queue.
    pub(crate) entries: u16,
    pub(crate) keep_alive_ms: u32,
}

impl Connect<'_> {
    /// The capsule of it.
    pub(crate) fn pdu(&self) -> Vec<u8> {
        let mut pdu = capsule(0x7f, 0, CONNECT_DATA);
        // Fabrics command type 1; the data is in the capsule, at offset 0.
        pdu[12] = 0x01;
        pdu[40..44].copy_from_slice(&(CONNECT_DATA as u32).to_le_bytes());
        pdu[47] = 0x01;
        pdu[50..52].copy_from_slice(&self.queue.to_le_bytes());
        pdu[52..54].copy_from_slice(&(self.entries - 1).to_le_bytes());
        pdu[56..60].copy_from_slice(&self.keep_alive_ms.to_le_bytes());
        let data = &mut pdu[CAPSULE_HEADER..];
        data[..8].copy_from_slice(&self.host.to_be_bytes());
        data[8] = 0x80;
        data[16..18].copy_from_slice(&self.controller.to_le_bytes());
        let name = host_nqn(self.host);
        data[256..256 + self.subsystem.len()].copy_from_slice(self.subsystem.as_bytes());
        data[512..512 + name.len()].copy_from_slice(name.as_bytes());
        pdu
    }
}

/// Property Set of CC: the controller is to work.
pub(crate) fn enable() -> Vec<u8> {
    let mut pdu = capsule(0x7f, 1, 0);
    pdu[52..56].copy_from_slice(&0x14_u32.to_le_bytes());
    // Completion entries of 16 bytes, submission entries of 64, enabled.
    pdu[56..64].copy_from_slice(&0x0046_0001_u64.to_le_bytes());
    pdu
}

/// A Read (`writes` false) or a Write whose data is to be asked for, from block 0 on.
pub(crate) fn transfer(writes: bool, cid: u16, nsid: u32, blocks: u16, bytes: u32) -> Vec<u8> {
    let mut pdu = capsule(if writes { 0x01 } else { 0x02 }, cid, 0);
    pdu[12..16].copy_from_slice(&nsid.to_le_bytes());
    pdu[40..44].copy_from_slice(&bytes.to_le_bytes());
    // Transport SGL data block: whatever the transport does to move it.
    pdu[47] = 0x5a;
    pdu[56..58].copy_from_slice(&(blocks - 1).to_le_bytes());
    pdu
}

/// A Copy of `ranges` times `blocks` blocks from `from` on, to `to`.
pub(crate) fn copy(cid: u16, nsid: u32, ranges: u16, blocks: u16, (from, to): (u64, u64)) -> Vec<u8> {
    let data = COPY_RANGE * usize::from(ranges);
    let mut pdu = capsule(0x19, cid, data);
    pdu[12..16].copy_from_slice(&nsid.to_le_bytes());
    pdu[40..44].copy_from_slice(&(data as u32).to_le_bytes());
    // The ranges are in the capsule, at offset 0.
    pdu[47] = 0x01;
    pdu[48..56].copy_from_slice(&to.to_le_bytes());
    pdu[56] = (ranges - 1) as u8;
    for (number, range) in pdu[CAPSULE_HEADER..].chunks_exact_mut(COPY_RANGE).enumerate() {
        let start = from + number as u64 * u64::from(blocks);
        range[8..16].copy_from_slice(&start.to_le_bytes());
        range[16..18].copy_from_slice(&(blocks - 1).to_le_bytes());
    }
    pdu
}

/// Waits until a Read has ended.
pub(crate) fn read_ends(from: &mut impl Read) -> Result<()> {
    loop {
        let pdu = read_pdu(from)?;
        match (pdu[0], completion(&pdu)) {
            (DATA_TO_HOST, _) if pdu[1] & SUCCESS != 0 => return Ok(()),
            (DATA_TO_HOST, _) => {}
            (_, Some((_, 0))) => return Ok(()),
            (_, Some((_, status))) => {
                return Err(Error::other(format!("a Read ended with status {status:#x}")));
            }
            _ => return Err(Error::new(ErrorKind::InvalidData, "neither data nor a response")),
        }
    }
}

/// The next PDU that comes.
pub(crate) fn read_pdu(from: &mut impl Read) -> Result<Vec<u8>> {
    let mut head = [0; 8];
    from.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if !(8..=PDU_BYTES_MAX).contains(&length) {
        return Err(Error::new(ErrorKind::InvalidData, "a PDU of an impossible length"));
    }
    let mut pdu = vec![0; length];
    pdu[..8].copy_from_slice(&head);
    from.read_exact(&mut pdu[8..])?;
    Ok(pdu)
}

/// Bytes of a response capsule, without digests.
pub(crate) const CAPSULE_RESPONSE_LENGTH: usize = 24;

/// The command that a response capsule answers, if it went well.
pub(crate) fn command_id(pdu: &[u8]) -> Option<u16> {
    completion(pdu).filter(|(_, status)| *status == 0).map(|_| u16::from_le_bytes([pdu[20], pdu[21]]))
}

/// Fields of a response capsule: the first word of the completion, and its status without the
/// phase.
pub(crate) fn completion(pdu: &[u8]) -> Option<(u32, u16)> {
    if pdu.len() < 24 || pdu[0] != CAPSULE_RESPONSE {
        return None;
    }
    let word = u32::from_le_bytes([pdu[8], pdu[9], pdu[10], pdu[11]]);
    Some((word, u16::from_le_bytes([pdu[22], pdu[23]]) >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_what_they_say() {
        let connect = Connect {
            host: 1,
            subsystem: "nqn.a",
            queue: 0,
            controller: 0xffff,
            entries: 32,
            keep_alive_ms: 5000,
        };
        for pdu in [
            ic_request(),
            connect.pdu(),
            enable(),
            transfer(true, 7, 1, 256, 1 << 20),
            copy(1, 1, 4, 1024, (0, 8192)),
        ] {
            let said = u32::from_le_bytes([pdu[4], pdu[5], pdu[6], pdu[7]]);
            assert_eq!(said as usize, pdu.len());
        }
    }

    #[test]
    fn a_completion_is_read_and_nothing_else() {
        let mut pdu = [0; 24];
        (pdu[0], pdu[4], pdu[8], pdu[22]) = (CAPSULE_RESPONSE, 24, 9, 0x04);
        assert_eq!(completion(&read_pdu(&mut &pdu[..]).unwrap()), Some((9, 2)));
        assert_eq!(completion(&pdu[..20]), None);
        assert!(read_ends(&mut &pdu[..]).is_err());
        pdu[22] = 0;
        assert!(read_ends(&mut &pdu[..]).is_ok());
        pdu[4] = 4;
        assert!(read_pdu(&mut &pdu[..]).is_err());
    }
}
