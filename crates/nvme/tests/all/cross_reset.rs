//! The Cross-Controller Reset command and its log page: where the bytes stand, and that no bytes make them panic.
//!
//! What a target does with the command is tested where the target is.

use nvme::SubmissionEntry;
use nvme::cross_reset::ControllerInstance;
use nvme::features::{AsyncEvent, AsyncEventConfig};
use nvme::identify::bits::optional_async_events;
use nvme::log_page::{
    CROSS_RESET_ENTRIES_MAX, CrossResetEntry, CrossResetLog, CrossResetParseError, CrossResetStatus,
};
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn every_field_stands_where_the_specification_has_it() {
    let instance =
        ControllerInstance { controller_id: 0x1234, uniquifier: 0x56, random_number: 0x0123_4567_89ab_cdef };
    let entry = instance.encode_reset();
    let bytes = entry.as_bytes();
    assert_eq!((bytes[0], &bytes[4..8]), (0x38, &[0; 4][..]));
    assert_eq!(bytes[40..44], [0x34, 0x12, 0x56, 0]);
    assert_eq!(bytes[44..48], [0; 4]);
    assert_eq!(bytes[48..56], 0x0123_4567_89ab_cdef_u64.to_le_bytes());
    assert_eq!(bytes[56..64], [0; 8]);

    let entry = CrossResetEntry {
        impacted_controller_id: 0x0102.into(),
        uniquifier: 3,
        reserved_3: 0,
        asked_controller_id: 0x0506.into(),
        status: CrossResetStatus::Failed as u8,
        flags: 1,
    };
    let log = CrossResetLog { entries: vec![entry] };
    let expected = [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 3, 0, 6, 5, 2, 1];
    assert_eq!(log.encode(), expected);
    assert_eq!(CrossResetLog::length_bytes(1), expected.len());

    assert_eq!(AsyncEvent::CROSS_CONTROLLER_RESET_COMPLETED.encode(), 0x001e_f402);
    assert_eq!(AsyncEventConfig::CROSS_CONTROLLER_RESET, optional_async_events::CROSS_CONTROLLER_RESET);
}

#[test]
fn pages_that_cannot_be_are_refused() {
    let truncated = |announced, bytes| Err(CrossResetParseError::Truncated { announced, bytes });
    assert_eq!(CrossResetLog::parse(&[]), truncated(0, 0));
    assert_eq!(CrossResetLog::parse(&[1, 0, 0, 0, 0, 0, 0]), truncated(0, 7));
    assert_eq!(CrossResetLog::parse(&[2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), truncated(2, 17));
    let mut page = vec![0; 8 + 8 * 512];
    page[..2].copy_from_slice(&512_u16.to_le_bytes());
    assert_eq!(CrossResetLog::parse(&page), Err(CrossResetParseError::TooMany { announced: 512 }));
    page[..2].copy_from_slice(&511_u16.to_le_bytes());
    assert_eq!(CrossResetLog::parse(&page).map(|log| log.entries.len()), Ok(CROSS_RESET_ENTRIES_MAX));
    let crowded = CrossResetLog { entries: vec![CrossResetEntry::default(); 600] };
    assert_eq!(CrossResetLog::parse(&crowded.encode()).map(|log| log.entries.len()), Ok(511));
}

proptest! {
    #[test]
    fn an_instance_survives_the_command(controller_id: u16, uniquifier: u8, random_number: u64) {
        let instance = ControllerInstance { controller_id, uniquifier, random_number };
        prop_assert_eq!(ControllerInstance::decode(&instance.encode_reset()), instance);
    }

    #[test]
    fn any_entry_is_some_instance(bytes in vec(any::<u8>(), 64)) {
        let entry = SubmissionEntry::read_from_bytes(&bytes).expect("64 bytes");
        let instance = ControllerInstance::decode(&entry);
        let again = instance.encode_reset();
        prop_assert_eq!(again.cdw10.get(), entry.cdw10.get() & 0x00ff_ffff);
        prop_assert_eq!((again.cdw12, again.cdw13), (entry.cdw12, entry.cdw13));
    }

    #[test]
    fn a_page_survives_and_no_bytes_panic(bytes in vec(any::<u8>(), 0..8192), entries in 0..60_u8) {
        let _ = CrossResetLog::parse(&bytes);
        let mut page = bytes;
        if page.len() >= 2 {
            (page[0], page[1]) = (entries, 0);
        }
        if let Ok(log) = CrossResetLog::parse(&page) {
            let encoded = log.encode();
            prop_assert_eq!(&encoded[8..], &page[8..encoded.len()]);
            prop_assert_eq!(CrossResetLog::parse(&encoded), Ok(log));
        }
    }
}
