//! TLS of NBD clients: what the files of its flags say.

use std::path::Path;

use attach::ServerTls;
use engine::secret_file;
use secure_channel::NamedPsk;

use crate::control::tls::{self, OwnCertificate};
use crate::failure::Failure;
use crate::flags::nbd_tls::{NbdTlsFlags, NbdTlsUse};

/// Bytes of a file of keys: some thousand clients.
const KEYS_BYTES_MAX: u64 = 256 << 10;

/// Reads the files.
pub(super) fn read(flags: &NbdTlsFlags) -> Result<Option<ServerTls>, Failure> {
    let tls = match (&flags.nbd_tls_cert, &flags.nbd_tls_key, &flags.nbd_tls_psk_file) {
        (Some(certificate), Some(key), _) => {
            let own = OwnCertificate { certificate: certificate.clone(), key: key.clone() };
            with_certificate(&own, flags.nbd_tls_client_ca.as_deref()).map_err(Failure::usage)?
        }
        (_, _, Some(path)) => ServerTls::with_keys(keys(path).map_err(Failure::usage)?),
        _ if flags.nbd_tls.is_some() => {
            return Err(Failure::usage(
                "--nbd-tls needs a certificate (--nbd-tls-cert, --nbd-tls-key) or keys (--nbd-tls-psk-file)",
            ));
        }
        _ => return Ok(None),
    };
    Ok(Some(match flags.nbd_tls.unwrap_or_default() {
        NbdTlsUse::Required => tls,
        NbdTlsUse::Offered => tls.offered(),
    }))
}

fn with_certificate(own: &OwnCertificate, client_ca: Option<&Path>) -> Result<ServerTls, String> {
    let (chain, key) = tls::read_own(own)?;
    let authorities = client_ca.map(|path| tls::roots(path, &tls::certificates(path)?)).transpose()?;
    ServerTls::with_certificate(chain, key, authorities).map_err(|error| match error {
        attach::CertificateError::Own(error) => tls::unfit(own, &error),
        attach::CertificateError::Authorities(error) => {
            format!("{}: {error}", client_ca.unwrap_or(&own.certificate).display())
        }
    })
}

/// The keys of clients, of which each has another name.
fn keys(path: &Path) -> Result<Vec<NamedPsk>, String> {
    let shown = path.display();
    let text = secret_file::text(path, KEYS_BYTES_MAX).map_err(|error| error.to_string())?;
    let mut keys: Vec<NamedPsk> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let key: NamedPsk = line.parse().map_err(|error| format!("{shown}, line {number}: {error}"))?;
        if keys.iter().any(|other| other.name() == key.name()) {
            return Err(format!("{shown}, line {number}: there is a key of `{}` above", key.name()));
        }
        keys.push(key);
    }
    if keys.is_empty() {
        return Err(format!("{shown} has no key: `psktool -u NAME -p {shown}` makes one"));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_of_keys_is_read_and_what_is_wrong_with_it_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.psk");
        let read = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            keys(&path)
        };
        let key = "0f".repeat(32);
        let two = read(&format!("# of the rack\nalice:{key}\n\nbob:{key}\n"), 0o600).unwrap();
        assert_eq!(two.iter().map(NamedPsk::name).collect::<Vec<_>>(), ["alice", "bob"]);
        for (text, mode, said) in [
            (format!("alice:{key}\n"), 0o644, "is readable by other users"),
            (format!("alice:{key}\nalice:{key}\n"), 0o600, "line 2: there is a key of `alice`"),
            ("\nalice:0f0f\n".to_owned(), 0o600, "line 2: its key has 2 bytes"),
            ("alice\n".to_owned(), 0o600, "line 1: it is not NAME:KEY"),
            ("# none\n".to_owned(), 0o600, "has no key"),
        ] {
            let refused = read(&text, mode).unwrap_err();
            assert!(refused.contains(said) && !refused.contains(&key), "{refused}");
        }
    }
}
