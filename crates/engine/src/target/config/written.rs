//! Formats of single settings, the same in every form of a configuration: a target.toml, the
//! control API's bodies, and stored state. Errors are reported by the reader, which knows their
//! place.

use std::collections::BTreeMap;
use std::fmt;

use nvme::discovery::Nqn;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use uuid::Uuid;

use super::error::SettingError;
use crate::limits::{NAMESPACES_MAX, WRITE_DELAY_MS_MAX};
use crate::transport::congestion;
use crate::units::{Size, parse_time};

/// Block size where none is given: every backend can serve it, and every disk likes it.
pub const BLOCK_SIZE_DEFAULT: u32 = 4096;
/// Model number of a subsystem by default.
pub const MODEL_DEFAULT: &str = "Selvedge";
/// The port of NVMe/TCP discovery services that IANA assigned.
const DISCOVERY_SERVICE_DEFAULT: &str = "8009";

/// A text that is checked when it is read.
struct Checked<T>(T);

/// The checks themselves, by what they make.
trait Check: Sized {
    fn check(text: &str) -> Result<Self, SettingError>;
}

impl<'de, T: Check> Deserialize<'de> for Checked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        T::check(&text).map(Self).map_err(de::Error::custom)
    }
}

impl Check for Nqn {
    fn check(text: &str) -> Result<Self, SettingError> {
        // A comma or a space, which earlier versions took, is refused where a configuration is new.
        Self::new(text).map_err(|reason| SettingError::Nqn { text: text.to_owned(), reason })
    }
}

impl Check for Uuid {
    fn check(text: &str) -> Result<Self, SettingError> {
        parse_uuid(text)
    }
}

/// A UUID in any of its usual spellings.
///
/// # Errors
/// What is wrong with it.
pub fn parse_uuid(text: &str) -> Result<Uuid, SettingError> {
    match Uuid::parse_str(text) {
        Ok(uuid) if uuid.is_nil() => Err(SettingError::UuidZero),
        Ok(uuid) => Ok(uuid),
        Err(reason) => Err(SettingError::Uuid { text: text.to_owned(), reason }),
    }
}

/// A time for which writes are held back, in milliseconds.
///
/// # Errors
/// What is wrong with it.
pub fn parse_write_delay(text: &str) -> Result<u32, SettingError> {
    match u32::try_from(parse_time(text)?.as_millis()) {
        Ok(delay_ms) if delay_ms <= WRITE_DELAY_MS_MAX => Ok(delay_ms),
        _ => Err(SettingError::WriteDelay(text.to_owned())),
    }
}

/// A serial number fits its field: 20 printable characters.
///
/// # Errors
/// What is wrong with it.
pub fn check_serial(serial: &str) -> Result<String, SettingError> {
    let printable = serial.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if serial.trim().is_empty() || serial.len() > 20 || !printable {
        return Err(SettingError::Serial(serial.to_owned()));
    }
    Ok(serial.to_owned())
}

/// The block sizes that a target offers.
///
/// # Errors
/// Those that it does.
pub fn check_block_size(bytes: u64) -> Result<u32, SettingError> {
    match bytes {
        512 | 4096 => Ok(bytes as u32),
        _ => Err(SettingError::BlockSize { bytes }),
    }
}

/// A subsystem's name must not be the Discovery subsystem's.
///
/// # Errors
/// That it is.
pub fn check_subsystem_nqn(nqn: &Nqn) -> Result<(), SettingError> {
    if nqn.is_discovery() {
        return Err(SettingError::DiscoveryName(nqn.clone()));
    }
    Ok(())
}

pub(super) fn model_default() -> String {
    MODEL_DEFAULT.to_owned()
}

pub(super) fn service_default() -> String {
    DISCOVERY_SERVICE_DEFAULT.to_owned()
}

/// The default where a value is null.
pub(super) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A namespace's identifier; 0, which is never written, stands for one that is still to be assigned.
pub(super) fn nsid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match Option::<u32>::deserialize(deserializer)? {
        None => Ok(0),
        Some(nsid) if (1..=NAMESPACES_MAX).contains(&nsid) => Ok(nsid),
        Some(_) => Err(de::Error::custom(format!("nsid must be 1 to {NAMESPACES_MAX}"))),
    }
}

/// A port's number, in the same way.
pub(super) fn port_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match Option::<u16>::deserialize(deserializer)? {
        None => Ok(0),
        Some(0) => Err(de::Error::custom("port numbers begin at 1")),
        Some(id) => Ok(id),
    }
}

/// The bytes of a block; 0, which is never written, stands for a size that is still to be determined.
pub(super) fn block_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match Option::<Size>::deserialize(deserializer)? {
        None => Ok(0),
        Some(Size(bytes)) => check_block_size(bytes).map_err(de::Error::custom),
    }
}

pub(super) fn uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Uuid>, D::Error> {
    Option::<Checked<Uuid>>::deserialize(deserializer).map(|uuid| uuid.map(|uuid| uuid.0))
}

pub(super) fn ana_group<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Option::<u32>::deserialize(deserializer).map(|group| group.unwrap_or(1))
}

pub(super) fn nqns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<Checked<Nqn>>::deserialize(deserializer)?;
    Ok(names.into_iter().map(|name| name.0.to_string()).collect())
}

pub(super) fn nqn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Checked::<Nqn>::deserialize(deserializer)?.0.to_string())
}

pub(super) fn optional_nqn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = Option::<Checked<Nqn>>::deserialize(deserializer)?;
    Ok(name.map(|name| name.0.to_string()))
}

pub(super) fn subsystem_nqn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let Checked(nqn) = Checked::<Nqn>::deserialize(deserializer)?;
    check_subsystem_nqn(&nqn).map_err(de::Error::custom)?;
    Ok(nqn.to_string())
}

pub(super) fn serial<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        // The target's to give.
        None => Ok(String::new()),
        Some(serial) => check_serial(&serial).map_err(de::Error::custom),
    }
}

pub(super) fn model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(deserializer).map(|model| model.unwrap_or_else(model_default))
}

/// Checks that a congestion control has the form of a name. Its presence in the kernel is checked
/// when listening.
///
/// # Errors
/// That it has not.
pub fn check_congestion(name: Option<&str>) -> Result<(), SettingError> {
    match name {
        Some(name) if !congestion::is_name(name) => Err(SettingError::Congestion(name.to_owned())),
        _ => Ok(()),
    }
}

pub(super) fn congestion<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    check_congestion(name.as_deref()).map_err(de::Error::custom)?;
    Ok(name)
}

/// Milliseconds as a number, or a time with its unit.
pub(super) fn write_delay_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    struct Delay;
    impl Visitor<'_> for Delay {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("milliseconds, or a time with its unit such as \"500ms\"")
        }

        fn visit_i64<E: de::Error>(self, ms: i64) -> Result<u32, E> {
            parse_write_delay(&format!("{ms}ms")).map_err(E::custom)
        }

        fn visit_u64<E: de::Error>(self, ms: u64) -> Result<u32, E> {
            parse_write_delay(&format!("{ms}ms")).map_err(E::custom)
        }

        fn visit_unit<E: de::Error>(self) -> Result<u32, E> {
            Ok(0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<u32, E> {
            if !text.ends_with(|last: char| last.is_ascii_alphabetic()) {
                return Err(E::custom(format!("`{text}` has no unit: write {text}ms or {text}s")));
            }
            parse_write_delay(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Delay)
}

/// A service is a number, and some write it as text.
pub(super) fn service<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Service;
    impl Visitor<'_> for Service {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a port number up to 65535")
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
            u16::try_from(number).map(|n| n.to_string()).map_err(|_| out_of_range(number))
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
            u16::try_from(number).map(|n| n.to_string()).map_err(|_| out_of_range(number))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
    }
    fn out_of_range<E: de::Error>(number: impl fmt::Display) -> E {
        E::custom(format!("service {number} is not a port: ports are 0 to 65535"))
    }
    deserializer.deserialize_any(Service)
}

/// Values by port number, with the numbers as texts, since names of fields are texts in all
/// formats.
pub(super) mod by_port {
    use super::*;

    pub(in crate::target::config) fn serialize<T: Serialize, S: Serializer>(
        states: &BTreeMap<u16, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(states.len()))?;
        for (port, state) in states {
            map.serialize_entry(&port.to_string(), state)?;
        }
        map.end()
    }

    pub(in crate::target::config) fn deserialize<'de, T, D>(
        deserializer: D,
    ) -> Result<BTreeMap<u16, T>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        let states = BTreeMap::<String, T>::deserialize(deserializer)?;
        let number = |port: &str| {
            port.parse().map_err(|_| de::Error::custom(format!("`{port}` is not a port number")))
        };
        states.into_iter().map(|(port, state)| Ok((number(&port)?, state))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::config::ReferralConfig;

    #[test]
    fn settings_are_refused_with_the_reason() {
        let uuid = |text: &str| parse_uuid(text).map(drop);
        let write_delay = |text: &str| parse_write_delay(text).map(drop);
        for (refused, said) in [
            (Nqn::check("a\nb").map(drop), "`a\nb`: the NQN has a control character"),
            (uuid("00000000-0000-0000-0000-000000000000"), "a UUID of zeroes names nothing"),
            (write_delay("1x"), "`1x` is not a time: write 10, 10s, 500ms or 2m"),
            (check_serial("").map(drop), "serial `` must be 1 to 20 printable ASCII characters"),
            (check_block_size(1).map(drop), "a block of 1 byte is not offered: 512 and 4096 are"),
            (
                check_subsystem_nqn(&Nqn::discovery()),
                "nqn.2014-08.org.nvmexpress.discovery is the NQN of the discovery subsystem, which every target has",
            ),
            (
                check_congestion(Some("a b")),
                "`a b` is not a congestion control name, such as cubic, bbr or system",
            ),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), said);
        }
        let malformed = uuid("ef90").unwrap_err().to_string();
        assert!(malformed.starts_with("`ef90` is not a UUID: "), "{malformed}");
        let late = write_delay("1h").unwrap_err().to_string();
        assert_eq!(late, format!("writes can be held back for at most {WRITE_DELAY_MS_MAX}ms, not 1h"));
    }

    #[test]
    fn a_discovery_service_has_a_port() {
        let referral = |service: &str| ReferralConfig {
            address: "10.0.0.1".to_owned(),
            service: service.to_owned(),
            nqn: None,
        };
        assert!(referral("8009").check().is_ok());
        for service in ["0", "65536", "http"] {
            let refused = referral(service).check().unwrap_err().to_string();
            assert_eq!(
                refused,
                format!("`{service}` is not a port of a discovery service, which is 1 to 65535")
            );
        }
    }
}
