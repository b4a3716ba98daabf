//! The Reservation Notification log page, which tells a host what others did to its reservations.
//!
//! The target keeps the pages that wait to be read, and counts them.

use core::mem::offset_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wire_value::from_wire;

use crate::identify::zeroed_default;

/// Reservation Notification log page, 64 bytes (LID 80h, Base 5.1.12.1).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ReservationNotificationLog {
    /// Number of this page, which wraps around to 1: 0 is the count of an empty page (LPC).
    pub page_count: U64,
    /// Kind of event: [`ReservationNotification`] (RNLPT).
    pub kind: u8,
    /// Pages that wait behind this one, 255 for as many or more (NALP).
    pub available_pages: u8,
    /// Reserved.
    pub reserved_10: [u8; 2],
    /// Namespace it happened to (NSID).
    pub nsid: U32,
    /// Reserved.
    pub reserved_16: [u8; 48],
}

const _: () = assert!(size_of::<ReservationNotificationLog>() == 64);
const _: () = assert!(offset_of!(ReservationNotificationLog, nsid) == 12);

/// Event that a Reservation Notification log page reports (RNLPT, Base 5.1.12.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReservationNotification {
    /// No event: the page is empty.
    #[default]
    Empty = 0,
    /// The host's registration was preempted.
    RegistrationPreempted = 1,
    /// A reservation that let all registrants in was released.
    ReservationReleased = 2,
    /// The host's reservation was preempted.
    ReservationPreempted = 3,
}

from_wire! { ReservationNotification: Empty RegistrationPreempted ReservationReleased ReservationPreempted }

impl ReservationNotificationLog {
    /// A page that reports `kind` of namespace `nsid`, with `available` pages waiting behind it.
    pub fn new(page_count: u64, kind: ReservationNotification, available: usize, nsid: u32) -> Self {
        Self {
            page_count: page_count.into(),
            kind: kind as u8,
            available_pages: u8::try_from(available).unwrap_or(u8::MAX),
            nsid: nsid.into(),
            ..Self::default()
        }
    }

    /// Kind of event, `None` for a reserved value.
    pub const fn kind(&self) -> Option<ReservationNotification> {
        ReservationNotification::from_wire(self.kind)
    }
}

zeroed_default!(ReservationNotificationLog);
