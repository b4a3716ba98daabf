//! Default ports of services, as IANA assigned them.

/// Port of NVMe/TCP.
pub const SERVICE_DEFAULT: u16 = 4420;
/// Port of NVMe/TCP discovery services.
pub const DISCOVERY_SERVICE_DEFAULT: u16 = 8009;
