//! Where the control API is reached, as people write it: a Unix socket, TCP with or without TLS, or nowhere. Making the socket is the API's.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use engine::address::HostAddress;

/// An address of the control API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Unix(PathBuf),
    /// TCP, with a port.
    Tcp(HostAddress),
    /// TCP with TLS. A client may know the host by a name.
    Tls {
        host: String,
        port: u16,
    },
    /// There is to be none.
    None,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a control address: write unix:PATH, tls:HOST:PORT, tcp:ADDR:PORT or none"
            )
        };
        // What can be nothing but a path needs no word in front of it.
        if text.starts_with(['/', '.']) || text.ends_with(".sock") && !text.contains(':') {
            return Ok(Self::Unix(text.into()));
        }
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tls", address)) => tls(address).ok_or_else(wrong),
            Some(("https", rest)) => rest.strip_prefix("//").and_then(tls).ok_or_else(wrong),
            Some(("tcp", address)) => with_port(address).map(Self::Tcp).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Tls { host, port } if host.contains(':') => write!(f, "tls:[{host}]:{port}"),
            Self::Tls { host, port } => write!(f, "tls:{host}:{port}"),
            Self::None => f.write_str("none"),
        }
    }
}

impl Endpoint {
    /// Address on which a target listens for TCP, the first of a name's; `None` for other endpoints.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        let (address, port) = match self {
            Self::Tcp(address) => (address.clone(), 0),
            Self::Tls { host, port } => (host.parse::<HostAddress>().ok()?, *port),
            Self::Unix(_) | Self::None => return None,
        };
        address.local(port).ok()?.first()?.socket_addr().ok()
    }

    /// The other addresses of this machine that its name has, on which a target does not listen.
    pub fn other_addresses(&self) -> Vec<String> {
        let found = match self {
            Self::Tcp(address) => address.local(0),
            Self::Tls { host, port } => host.parse().and_then(|host: HostAddress| host.local(*port)),
            Self::Unix(_) | Self::None => Ok(Vec::new()),
        };
        found.unwrap_or_default().iter().skip(1).map(ToString::to_string).collect()
    }
}

/// A host and a port, the host as a URL has it.
fn tls(text: &str) -> Option<Endpoint> {
    let address = with_port(text.trim_end_matches('/'))?;
    Some(Endpoint::Tls { host: address.host(), port: address.port()? })
}

fn with_port(text: &str) -> Option<HostAddress> {
    text.parse().ok().filter(|address: &HostAddress| address.port().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in [
            "unix:/run/a.sock",
            "tcp:127.0.0.1:80",
            "tcp:[::1]:80",
            "tcp:host:80",
            "tcp:[fe80::1%lo]:80",
            "tls:host:80",
            "tls:[::1]:80",
            "tls:10.0.0.1:80",
            "none",
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("https://host:80/".parse::<Endpoint>(), "tls:host:80".parse());
        for path in ["/run/a.sock", "./a", "../a.sock", "a.sock"] {
            assert_eq!(path.parse(), Ok(Endpoint::Unix(path.into())));
        }
        for text in [
            "",
            "unix:",
            "a",
            "non",
            "tcp:",
            "tcp:80",
            "tcp:host",
            "tcp:::1:80",
            "tcp:host:65536",
            "http:x",
            "tls:80",
            "tls::80",
            "tls:::1:80",
            "tls:a/b:80",
            "tls:a:99999",
            "https:host:80",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
