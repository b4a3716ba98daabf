//! The listeners of a target's administration that its flags ask for, and the credentials that each
//! accepts.

use std::sync::Arc;

use engine::target::Target;

use super::access::{Access, AllowedStorage};
use super::administration::Administration;
use super::server::Control;
use super::socket::{self, Listening};
use super::tls::{HTTP1, HTTP2, OwnCertificate, ServerTls};
use super::token::Token;
use crate::failure::Failure;
use crate::flags::serve::AdministeredFlags;
use crate::spec::endpoint::Endpoint;

/// Control listeners of a target, with their access rules, before they are opened.
#[derive(Debug)]
pub struct Listeners<'a> {
    flags: &'a AdministeredFlags,
    access: Arc<Access>,
    tls: Option<Arc<ServerTls>>,
    /// Access rules and TLS of the listener for ceph-nvmeof's calls.
    calls: Option<(Arc<Access>, Option<Arc<ServerTls>>)>,
}

impl<'a> Listeners<'a> {
    /// Reads and checks all that the flags name.
    pub fn new(flags: &'a AdministeredFlags) -> Result<Self, Failure> {
        let token = flags.control_token_file.as_deref().map(Token::read).transpose()?;
        let access = Arc::new(Access::new(flags.control_access.as_deref(), token.as_ref())?);
        let own = flags.control_tls_cert.clone().zip(flags.control_tls_key.clone());
        let tls = |spoken| {
            let own = own.clone().map(|(certificate, key)| OwnCertificate { certificate, key });
            let client_ca = flags.control_tls_client_ca.clone();
            let tls = own.map(|own| ServerTls::new(own, client_ca, spoken, access.clone()));
            Ok::<_, Failure>(tls.transpose()?.map(Arc::new))
        };
        let calls = match &flags.ceph_nvmeof_api {
            Some(endpoint) => {
                let access = Access::new(flags.control_access.as_deref(), token.as_ref())?;
                let access = if flags.ceph_nvmeof_api_for_anybody { access.open() } else { access };
                let is_tls = matches!(endpoint, Endpoint::Tls { .. });
                Some((Arc::new(access), if is_tls { tls(HTTP2)? } else { None }))
            }
            None => None,
        };
        let listeners = Self { flags, access: access.clone(), tls: tls(HTTP1)?, calls };
        listeners.check()?;
        Ok(listeners)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.flags.control.len() > 1 && self.flags.control.contains(&Endpoint::None) {
            return Err(Failure::usage("--control none cannot be used with another --control"));
        }
        for endpoint in &self.flags.control {
            self.check_tls("--control", endpoint)?;
            let Some(address) = endpoint.socket_address() else { continue };
            if !self.access.has_remote() {
                return Err(Failure::usage(format!(
                    "{address} would let every client change the target: restrict it with --control-access FILE or \
                     --control-token-file FILE"
                )));
            }
            if matches!(endpoint, Endpoint::Tcp(_)) && !address.ip().is_loopback() {
                tracing::warn!("tokens travel unencrypted to {address}; use tls:{address}");
            }
        }
        self.check_calls()?;
        for endpoint in
            self.flags.control.iter().chain(&self.flags.metrics).chain(&self.flags.ceph_nvmeof_api)
        {
            let others = endpoint.other_addresses();
            if let (Some(address), false) = (endpoint.socket_address(), others.is_empty()) {
                let others = others.join(", ");
                tracing::warn!("{endpoint}: listening on {address} alone; the name has {others}, too");
            }
        }
        let Some(endpoint) = &self.flags.metrics else { return Ok(()) };
        self.check_tls("--metrics", endpoint)?;
        if self.are_metrics_guarded() && !self.access.has_remote() {
            return Err(Failure::usage(format!(
                "{endpoint} would let every client read the metrics: restrict it with --control-access FILE, or allow that with \
                 --metrics-for-anybody"
            )));
        }
        Ok(())
    }

    fn check_calls(&self) -> Result<(), Failure> {
        let Some(endpoint) = &self.flags.ceph_nvmeof_api else { return Ok(()) };
        self.check_tls("--ceph-nvmeof-api", endpoint)?;
        if self.flags.ceph_nvmeof_api_for_anybody {
            tracing::warn!("any client that reaches {endpoint} may change the configuration");
            return Ok(());
        }
        if self.access.has_remote() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{endpoint} would let every client change the target: restrict it to certificates with --control-access FILE, or \
             allow that with --ceph-nvmeof-api-for-anybody"
        )))
    }

    fn check_tls(&self, flag: &str, endpoint: &Endpoint) -> Result<(), Failure> {
        match endpoint {
            Endpoint::Tls { .. } if self.tls.is_none() => Err(Failure::usage(format!(
                "{flag} {endpoint} needs a certificate: --control-tls-cert FILE and --control-tls-key FILE"
            ))),
            _ => Ok(()),
        }
    }

    /// True if readers of the metrics have to authenticate.
    fn are_metrics_guarded(&self) -> bool {
        let address = self.flags.metrics.as_ref().and_then(Endpoint::socket_address);
        !self.flags.metrics_for_anybody && address.is_some_and(|address| !address.ip().is_loopback())
    }

    /// List of the storage that all administrators may name; `None` without limit.
    pub fn storage(&self) -> Option<AllowedStorage> {
        self.access.storage()
    }

    fn tls_of(&self, endpoint: &Endpoint) -> Option<Arc<ServerTls>> {
        if matches!(endpoint, Endpoint::Tls { .. }) { self.tls.clone() } else { None }
    }

    /// Starts the listener for Prometheus, if a flag asks for it.
    pub fn start_metrics(&self, administration: &Arc<Administration>) -> Result<Option<Control>, Failure> {
        let Some(endpoint) = &self.flags.metrics else { return Ok(None) };
        let access = self.are_metrics_guarded().then(|| self.access.clone());
        Control::start_metrics(endpoint, access, self.tls_of(endpoint), administration.clone()).map(Some)
    }

    /// Starts the listener for ceph-nvmeof's calls, if a flag asks for it.
    pub fn start_calls(&self, administration: &Arc<Administration>) -> Result<Option<Control>, Failure> {
        let Some((endpoint, (access, tls))) = self.flags.ceph_nvmeof_api.as_ref().zip(self.calls.clone())
        else {
            return Ok(None);
        };
        Control::start_ceph_nvmeof(endpoint, access, tls, administration.clone()).map(Some)
    }

    /// Opens all listeners. A failure of the default one, which no flag asked for, is only a
    /// warning.
    pub fn start_controls(
        &self,
        target: &Target,
        administration: &Arc<Administration>,
    ) -> Result<Vec<Control>, Failure> {
        let chosen = &self.flags.control;
        let is_open = self.access.has_others();
        let mut listening: Vec<(Listening, Option<Arc<ServerTls>>)> = Vec::new();
        for endpoint in chosen {
            let listens = Listening::on(endpoint, is_open)?;
            listening.extend(listens.map(|listens| (listens, self.tls_of(endpoint))));
        }
        if chosen.is_empty() {
            listening.extend(listen_at_default(target, is_open).map(|listens| (listens, None)));
        }
        let start =
            |(listening, tls)| Control::start(listening, self.access.clone(), tls, administration.clone());
        listening.into_iter().map(start).collect()
    }
}

fn listen_at_default(target: &Target, is_open_to_others: bool) -> Option<Listening> {
    let service = target.ports().first().map(std::net::SocketAddr::port)?;
    let Some(path) = socket::default_path(service) else {
        tracing::warn!(
            "no control socket: the target's user has no folder for one (neither RUNTIME_DIRECTORY nor \
             XDG_RUNTIME_DIR is set), so this target cannot be administered; add --control unix:PATH, or --control none to say so"
        );
        return None;
    };
    path.parent().into_iter().for_each(socket::sweep);
    match Listening::on(&Endpoint::Unix(path), is_open_to_others) {
        Ok(listening) => listening,
        Err(failure) => {
            let reason = failure.line().unwrap_or_default();
            // The reason has the remedy.
            tracing::warn!("no control socket, so this target cannot be administered: {reason}");
            None
        }
    }
}
