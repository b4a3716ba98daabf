//! Where the control API is reached, as people write it: a Unix socket, TCP or nowhere. Making the socket is the API's.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// An address of the control API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
    /// There is to be none.
    None,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a control address: write unix:PATH, tcp:ADDR:PORT or none");
        // What can be nothing but a path needs no word in front of it.
        if text.starts_with(['/', '.']) || text.ends_with(".sock") && !text.contains(':') {
            return Ok(Self::Unix(text.into()));
        }
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => address.parse().map(Self::Tcp).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["unix:/run/a.sock", "tcp:127.0.0.1:80", "tcp:[::1]:80", "none"] {
            assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()).as_deref(), Ok(text));
        }
        for path in ["/run/a.sock", "./a", "../a.sock", "a.sock"] {
            assert_eq!(path.parse(), Ok(Endpoint::Unix(path.into())));
        }
        for text in ["", "unix:", "a", "non", "tcp:", "tcp:80", "tcp:host:80", "http:x"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
