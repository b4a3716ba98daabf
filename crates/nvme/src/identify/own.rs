//! Vendor specific bytes of Identify Controller of Selvedge's targets: their name, and behind it
//! what no field of the specification says.

use super::IdentifyController;

/// The name at the beginning of the vendor specific bytes.
const NAME: &[u8] = b"Selvedge";
/// Offset of the flags, behind the name.
const FLAGS_AT: usize = 8;
/// New keys of TLS are taken on a connection (KeyUpdate, RFC 8446, 4.6.3).
const KEY_UPDATES: u8 = 1 << 0;
/// There is a Command Stages log page.
const COMMAND_STAGES: u8 = 1 << 1;

impl IdentifyController {
    /// Says that it is a target of Selvedge's, and takes new TLS keys on a connection.
    pub fn offer_key_updates(&mut self) {
        self.offer(KEY_UPDATES);
    }

    /// Says that it is a target of Selvedge's, and has a Command Stages log page.
    pub fn offer_command_stages(&mut self) {
        self.offer(COMMAND_STAGES);
    }

    fn offer(&mut self, flag: u8) {
        if !self.vendor_specific.starts_with(NAME) {
            self.vendor_specific[..NAME.len()].copy_from_slice(NAME);
            self.vendor_specific[FLAGS_AT] = 0;
        }
        self.vendor_specific[FLAGS_AT] |= flag;
    }

    fn has(&self, flag: u8) -> bool {
        self.vendor_specific.starts_with(NAME) && self.vendor_specific[FLAGS_AT] & flag != 0
    }

    /// True if the target is known to take new TLS keys on a connection. The specification has no
    /// field for that.
    pub fn takes_key_updates(&self) -> bool {
        self.has(KEY_UPDATES)
    }

    /// True if the target has a Command Stages log page
    /// ([`CommandStagesLog`](crate::log_page::CommandStagesLog)).
    pub fn has_command_stages(&self) -> bool {
        self.has(COMMAND_STAGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_says_so_takes_key_updates() {
        let mut identify = IdentifyController::default();
        assert!(!identify.takes_key_updates());
        identify.vendor_specific[FLAGS_AT] = KEY_UPDATES;
        assert!(!identify.takes_key_updates(), "other vendors mean other things by these bytes");
        identify.offer_key_updates();
        assert!(identify.takes_key_updates());
        identify.vendor_specific[FLAGS_AT] = 0;
        assert!(!identify.takes_key_updates());
    }

    #[test]
    fn each_is_offered_by_itself() {
        let mut identify = IdentifyController::default();
        identify.vendor_specific[FLAGS_AT] = u8::MAX;
        identify.offer_command_stages();
        assert!(identify.has_command_stages() && !identify.takes_key_updates());
        identify.offer_key_updates();
        assert!(identify.has_command_stages() && identify.takes_key_updates());
    }
}
