//! Default ports of services, as IANA assigned them.

/// Port of NVMe/TCP.
pub(crate) const SERVICE_DEFAULT: u16 = 4420;
/// Port of NVMe/TCP discovery services.
pub(crate) const DISCOVERY_SERVICE_DEFAULT: u16 = 8009;
