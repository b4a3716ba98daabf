//! Connect options in the kernel's syntax, separated by commas (`nvmf_parse_options` of Linux'
//! drivers/nvme/host/fabrics.c). Secrets are left out in output.

use std::fmt;

use zeroize::Zeroizing;

/// Options for one controller, in the order in which they are written.
#[derive(Default)]
pub struct FabricsOptions(Vec<FabricsOption>);

struct FabricsOption {
    name: &'static str,
    value: Option<Zeroizing<String>>,
    is_secret: bool,
}

impl FabricsOptions {
    /// Adds an option that is there or not.
    pub fn flag(&mut self, name: &'static str, is_on: bool) {
        if is_on {
            self.0.push(FabricsOption { name, value: None, is_secret: false });
        }
    }

    /// Adds an option with its value, where there is one.
    ///
    /// # Errors
    /// When the kernel would read it as several options.
    pub fn set(&mut self, name: &'static str, value: Option<impl fmt::Display>) -> Result<(), String> {
        let Some(value) = value.map(|value| value.to_string()) else { return Ok(()) };
        self.add(name, Zeroizing::new(value), false)
    }

    /// Adds a secret, where there is one.
    ///
    /// # Errors
    /// As above.
    pub fn set_secret(&mut self, name: &'static str, value: Option<Zeroizing<String>>) -> Result<(), String> {
        value.map_or(Ok(()), |value| self.add(name, value, true))
    }

    fn add(&mut self, name: &'static str, value: Zeroizing<String>, is_secret: bool) -> Result<(), String> {
        if value.is_empty() || value.contains([',', '\n', '\0']) {
            let shown = if is_secret { "…" } else { value.as_str() };
            return Err(format!("{name}={shown:?} cannot be given to the kernel: it ends options at commas"));
        }
        self.0.push(FabricsOption { name, value: Some(value), is_secret });
        Ok(())
    }

    /// The names of the options.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|option| option.name)
    }

    /// All of it, for the kernel.
    pub fn reveal(&self) -> Zeroizing<String> {
        // Large enough from the start, so that no copy is left where it was.
        let length = self.0.iter().map(|option| {
            option.name.len() + option.value.as_ref().map_or(0, |value| value.len()) + ",=".len()
        });
        let mut text = Zeroizing::new(String::with_capacity(length.sum()));
        for option in &self.0 {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(option.name);
            if let Some(value) = &option.value {
                text.push('=');
                text.push_str(value);
            }
        }
        text
    }
}

impl fmt::Display for FabricsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, option) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{}", option.name)?;
            match &option.value {
                Some(_) if option.is_secret => f.write_str("=…")?,
                Some(value) => write!(f, "={}", **value)?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_the_kernel_reads_them() {
        let mut options = FabricsOptions::default();
        options.set("transport", Some("tcp")).unwrap();
        options.set("nr_io_queues", Some(4)).unwrap();
        options.set("host_iface", None::<&str>).unwrap();
        options.set_secret("dhchap_secret", Some(Zeroizing::new("DHHC-1:00:abc:".to_owned()))).unwrap();
        options.flag("hdr_digest", true);
        options.flag("data_digest", false);
        assert_eq!(*options.reveal(), "transport=tcp,nr_io_queues=4,dhchap_secret=DHHC-1:00:abc:,hdr_digest");
        assert_eq!(options.to_string(), "transport=tcp,nr_io_queues=4,dhchap_secret=…,hdr_digest");
        assert_eq!(
            options.names().collect::<Vec<_>>(),
            ["transport", "nr_io_queues", "dhchap_secret", "hdr_digest"]
        );
    }

    #[test]
    fn one_option_cannot_become_two() {
        let mut options = FabricsOptions::default();
        for wrong in ["eth0,discovery", "eth0\ntls", ""] {
            assert!(options.set("host_iface", Some(wrong)).is_err(), "{wrong:?}");
        }
        let secret = options.set_secret("dhchap_secret", Some(Zeroizing::new("DHHC-1:a,tls".to_owned())));
        assert!(!secret.unwrap_err().contains("DHHC"));
        assert!(options.reveal().is_empty());
    }
}
