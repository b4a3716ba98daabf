//! The ports that services have where nobody chooses others, as IANA assigned them.

/// NVMe/TCP's.
pub(crate) const SERVICE_DEFAULT: u16 = 4420;
/// That of NVMe/TCP discovery services.
pub(crate) const DISCOVERY_SERVICE_DEFAULT: u16 = 8009;
