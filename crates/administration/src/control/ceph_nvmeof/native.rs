//! Requests of a call to the control API: in this process, with the identity of the caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::{Extension, Router};
use engine::target::{Metrics, NamespaceConfig, NamespaceStatus, PortConfig, SubsystemConfig};
use gateway::GroupStatus;
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::service::Service as _;
use hyper::{Request, StatusCode};
use hyper_util::service::TowerToHyperService;
use libc::{EACCES, EAGAIN, EEXIST, EINVAL, ENOENT, ENOKEY, ENOSPC, ETIMEDOUT};
use serde::Deserialize;
use serde_json::Value;

use super::super::access::Peer;
use super::super::administration::Administration;
use super::super::ask::encode;
use super::super::catch_up::CatchUp;
use super::super::connection_limiter::Identified;
use super::super::host_keys::CANNOT_SEAL;
use super::super::limits::CALL_ATTEMPTS_MAX;
use super::super::refusal::RefusalCode;
use super::failed::Failed;

/// The control API for one caller.
#[derive(Clone)]
pub(super) struct Native {
    pub(super) router: Router,
    pub(super) administration: Arc<Administration>,
    /// Step before a call that may change something.
    pub(super) catch_up: CatchUp,
    pub(super) peer: Option<Peer>,
    pub(super) authorization: Option<HeaderValue>,
    /// Mark of the caller's connection, which keeps its place among others once the caller is identified.
    pub(super) identified: Option<Identified>,
    /// Refusal of all that the caller asks.
    pub(super) refusal: Option<Refused>,
    /// The port that calls come to.
    pub(super) service: u16,
}

/// Bytes of namespaces, by their subsystems' names and their identifiers.
pub(super) type NamespaceSizes = BTreeMap<(String, u32), u64>;

/// A request that the control API has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The status of HTTP.
    pub(super) status: u16,
    pub(super) what: String,
    /// True if another change came first.
    pub(super) is_outdated: bool,
}

impl Refused {
    fn new(status: u16, what: impl Into<String>) -> Self {
        Self { status, what: what.into(), is_outdated: false }
    }

    /// The failure of an addition: EEXIST if the object is there now.
    pub(super) fn of_addition(self, is_there: bool) -> Failed {
        let is_taken = self.status == 409 && is_there;
        let failed = Failed::from(self);
        if is_taken { Failed { errno: EEXIST, is_outdated: false, ..failed } } else { failed }
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: String,
    code: Option<RefusalCode>,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct Ports {
    ports: Vec<PortConfig>,
}

#[derive(Deserialize)]
struct Subsystems {
    subsystems: Vec<SubsystemConfig>,
}

impl Native {
    /// Takes over what was changed through other gateways, for a call that may change something. A caller that may not even read
    /// is refused before its call has the cluster asked, and one that may only read has it not asked. Returns true if it may read.
    pub(super) async fn begin_change(&mut self) -> bool {
        let begun = self.shown("GET", "/v1/ports", None, Some(self.catch_up.clone())).await;
        self.refusal = begun.err();
        self.refusal.is_none()
    }

    /// Asks, and gives what is shown.
    pub(super) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Refused> {
        let shown = self.shown(method, path, body, None).await?;
        shown.map_or(Ok(Value::Null), |shown| read(&shown))
    }

    /// Asks, after a step that the request may need, and gives what is shown as it is written, if anything is.
    async fn shown(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        catch_up: Option<CatchUp>,
    ) -> Result<Option<Bytes>, Refused> {
        if let Some(refused) = &self.refusal {
            return Err(refused.clone());
        }
        let inside = |_| Refused::new(500, "the request failed inside");
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .body(body)
            .map_err(|error| Refused::new(400, error.to_string()))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(identified) = &self.identified {
            request.extensions_mut().insert(identified.clone());
        }
        if let Some(catch_up) = catch_up {
            request.extensions_mut().insert(catch_up);
        }
        let router = match &self.peer {
            Some(peer) => self.router.clone().layer(Extension(peer.clone())),
            None => self.router.clone(),
        };
        let response =
            TowerToHyperService::new(router).call(request).await.map_err(|never| match never {})?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|_| inside(()))?.to_bytes();
        if status.is_success() {
            return Ok((status != StatusCode::NO_CONTENT).then_some(body));
        }
        let refused = serde_json::from_slice::<ErrorBody>(&body).ok();
        let is_outdated = refused.as_ref().is_some_and(|refused| refused.code == Some(RefusalCode::Changed));
        let what = refused.map_or_else(
            || status.to_string(),
            |refused| match refused.hint {
                Some(hint) => format!("{}; {hint}", refused.error),
                None => refused.error,
            },
        );
        Err(Refused { is_outdated, ..Refused::new(status.as_u16(), what) })
    }

    async fn get<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, Refused> {
        // Hundreds of namespaces are read at once, without a tree of values in between.
        read(&self.shown("GET", path, None, None).await?.unwrap_or_default())
    }

    /// All subsystems, with the UUIDs of their namespaces.
    pub(super) async fn subsystems(&self) -> Result<Vec<SubsystemConfig>, Failed> {
        Ok(self.get::<Subsystems>("/v1/subsystems").await?.subsystems)
    }

    /// This subsystem, or what is said where it is not there.
    pub(super) async fn subsystem(&self, nqn: &str, missing: i32) -> Result<SubsystemConfig, Failed> {
        if nqn.is_empty() {
            return Err(Failed::new(EINVAL, "missing subsystem NQN"));
        }
        match self.get(&of_subsystem(nqn)).await {
            Err(Refused { status: 404, .. }) => Err(Failed::new(missing, "No such subsystem")),
            other => Ok(other?),
        }
    }

    /// Ports of this gateway.
    pub(super) async fn ports(&self) -> Result<Vec<PortConfig>, Failed> {
        Ok(self.get::<Ports>("/v1/ports").await?.ports)
    }

    /// The group of gateways, if this target is in one.
    pub(super) async fn group(&self) -> Result<Option<GroupStatus>, Failed> {
        match self.get("/v1/gateways").await {
            Ok(group) => Ok(Some(group)),
            Err(Refused { status: 404, .. }) => Ok(None),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Counters of the target, for a caller that has read access to their objects.
    pub(super) async fn metrics(&self) -> Result<Metrics, Failed> {
        let administration = self.administration.clone();
        let counted = tokio::task::spawn_blocking(move || administration.metrics()).await;
        counted.map_err(|_| Failed::new(libc::EIO, "the counters could not be read"))
    }

    /// Bytes of the namespaces that are there, for a caller that has read access to them. Counters
    /// leave some out where there are many.
    pub(super) async fn sizes(&self) -> Result<NamespaceSizes, Failed> {
        let administration = self.administration.clone();
        let status = tokio::task::spawn_blocking(move || administration.status()).await;
        let status = status.map_err(|_| Failed::new(libc::EIO, "the sizes could not be read"))?;
        let size = |of: NamespaceStatus| Some(((of.subsystem, of.nsid), of.size_bytes?));
        Ok(status.namespaces.into_iter().filter_map(size).collect())
    }

    /// Removes the object of a call that fails later, also if other changes come first: it must not be found by the next attempt.
    pub(super) async fn take_back(&self, path: &str) -> Result<(), Failed> {
        again(|| self.delete(path)).await.map_err(|left| Failed { is_outdated: false, ..left })
    }

    async fn delete(&self, path: &str) -> Result<(), Failed> {
        Ok(self.ask("DELETE", path, None).await.map(drop)?)
    }

    /// Changes settings of a namespace.
    pub(super) async fn patch_namespace(&self, nqn: &str, nsid: u32, body: Value) -> Result<(), Failed> {
        Ok(self.ask("PATCH", &of_namespace(nqn, nsid), Some(body)).await.map(drop)?)
    }
}

/// Makes an attempt again as long as other changes come first.
pub(super) async fn again<A, W>(attempt: impl Fn() -> W) -> Result<A, Failed>
where
    W: Future<Output = Result<A, Failed>>,
{
    for _ in 1..CALL_ATTEMPTS_MAX {
        match attempt().await {
            Err(Failed { is_outdated: true, .. }) => {}
            answer => return answer,
        }
    }
    attempt().await
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| Refused::new(500, error.to_string()))
}

/// The path of a subsystem.
pub(super) fn of_subsystem(nqn: &str) -> String {
    format!("/v1/subsystems/{}", encode(nqn))
}

/// The path of a namespace.
pub(super) fn of_namespace(nqn: &str, nsid: u32) -> String {
    format!("{}/namespaces/{nsid}", of_subsystem(nqn))
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        let errno = match refused.status {
            // One that has failed before and has to wait, too.
            401 | 403 | 429 => EACCES,
            404 => ENOENT,
            // Not EEXIST, which clients take for success: another gateway may have changed something at the same moment.
            409 => EAGAIN,
            CANNOT_SEAL => ENOKEY,
            421 | 503 => ETIMEDOUT,
            507 => ENOSPC,
            _ => EINVAL,
        };
        Self { is_outdated: refused.is_outdated, ..Self::new(errno, refused.what) }
    }
}

/// The namespace of a subsystem with this number.
pub(super) fn find(subsystem: &SubsystemConfig, nsid: u32) -> Option<&NamespaceConfig> {
    subsystem.namespaces.iter().find(|namespace| namespace.nsid == nsid)
}

/// The subsystem that has this serial number, if one does.
pub(super) fn user_of_serial<'a>(subsystems: &'a [SubsystemConfig], serial: &str) -> Option<&'a str> {
    let fabric = subsystems.iter().find(|subsystem| !serial.is_empty() && subsystem.serial == serial);
    fabric.map(|subsystem| subsystem.nqn.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_eexist_only_where_the_object_is_there() {
        let errno = |status, is_there| {
            Refused::new(status, "it was changed at the same moment").of_addition(is_there).errno
        };
        assert_eq!((errno(409, true), errno(409, false)), (EEXIST, EAGAIN));
        assert_eq!((errno(403, true), errno(503, true)), (EACCES, ETIMEDOUT));
    }
}
