//! The table of all that the control API can be asked, from which it is both served and documented, and the way of a
//! request through it: who asks, what, with which body, and the answer.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::any;
use engine::target::{FabricConfig, PortConfig, SubsystemConfig};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    LOCATION, WWW_AUTHENTICATE,
};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::access::{Access, Caller, Identity, Peer};
use super::administration::Administration;
use super::ask::{self, Answer, Ask, PICTURE};
use super::audit::{Event, Kind};
use super::catch_up::CatchUp;
use super::connection_limiter::Identified;
use super::host_keys::{self, ControllerKeyBody, HostKeyBody, HostKeyPatch};
use super::limits::{BODY_BYTES_MAX, BODY_TIMEOUT};
use super::live::requests as live;
use super::live::viewer::Ending;
use super::namespaces::NamespaceBody;
use super::namespaces::images::{self, CloneBody, SnapshotBody};
use super::namespaces::snapshot_set::{self, SnapshotSetBody};
use super::patches::{NamespacePatch, Patch};
use super::refusal::Refusal;
use super::slow_places::SlowPlaces;
use super::subsystems::{AnaGroupBody, HostBody};
use super::{
    audit_tail, browser, ceph_nvmeof, connections, console, fabric, gateways, log_level, metrics, namespaces,
    openapi, ports, preview, slow_commands, subsystems, sweeps,
};
use crate::spec::role::Role;

/// A method and a path of the API.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// Role that the sender needs; with the subsystem that the path names, if it names one.
    pub(super) needs: Role,
    /// Flags in the query, with what they mean.
    pub(super) flags: &'static [(&'static str, &'static str)],
    pub(super) body: Option<BodyKind>,
    /// The status of success, and the schema of what it shows.
    pub(super) success: (u16, Option<&'static str>),
    pub(super) handler: fn(&Ask<'_>) -> Result<Answer, Refusal>,
}

/// Kind of a request's body: name of its schema, and a check of a text.
pub(super) struct BodyKind {
    pub(super) schema: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the document's examples are tried with it"))]
    pub(super) accepts: fn(&[u8]) -> Result<(), Refusal>,
}

impl Route {
    /// True if the request may leave a task that continues after the answer.
    pub(super) fn may_leave_task(&self) -> bool {
        self.path == NAMESPACE_PATH && matches!(self.method, "PATCH" | "DELETE")
    }

    /// True if the request may change something.
    fn changes(&self, ask: &Ask<'_>) -> bool {
        self.method != "GET" && self.path != PREVIEW_PATH && ask.flag("dry_run") != Ok(true)
    }

    /// True if the answer may take long, because something is changed, a cluster is asked, or the
    /// target is examined twice.
    fn is_slow(&self) -> bool {
        match self.method {
            "GET" => matches!(self.path, SNAPSHOTS_PATH | FINDINGS_PATH | TOPOLOGY_PATH | PICTURE_PATH),
            _ => self.path != SWEEP_PATH,
        }
    }
}

const fn body<T: DeserializeOwned>(schema: &'static str) -> Option<BodyKind> {
    Some(BodyKind { schema, accepts: |text| ask::read::<T>(text).map(drop) })
}

macro_rules! route {
    ($needs:ident $method:literal $path:expr, $summary:literal, $body:expr, $status:literal $schema:expr, $handler:path) => {
        route!($needs $method $path, $summary, $body, $status $schema, $handler, &[])
    };
    ($needs:ident $method:literal $path:expr, $summary:literal, $body:expr, $status:literal $schema:expr, $handler:path, $flags:expr) => {
        Route {
            needs: Role::$needs,
            method: $method,
            path: $path,
            summary: $summary,
            flags: $flags,
            body: $body,
            success: ($status, $schema),
            handler: $handler,
        }
    };
}

const PUT_FLAGS: &[(&str, &str)] = &[
    ("dry_run", "Report the changes without making them"),
    ("shrink", "Allow smaller namespaces; data beyond their new end is lost"),
];

const DENY_FLAGS: &[(&str, &str)] = &[
    ("with_key", "Remove the host's secrets and TLS keys, too"),
    ("keep_connections", "Leave the connections of the host; it cannot make new ones"),
];

const REMOVE_FLAGS: &[(&str, &str)] = &[
    ("delete_image", "Delete the namespace's image and all its data from its Ceph cluster, too"),
    ("trash_image", "Move the namespace's image to its pool's trash"),
];

const LIVE_FLAGS: &[(&str, &str)] = &[("once", "End after the first second")];

const PICTURE_FLAGS: &[(&str, &str)] = &[("bare", "Omit the style, for a page that has it")];

/// Stream of live events.
pub(super) const LIVE_PATH: &str = "/v1/live";

const NAMESPACE_PATH: &str = "/v1/subsystems/{nqn}/namespaces/{nsid}";
/// Latest records of the audit log.
pub(super) const AUDIT_PATH: &str = "/v1/audit";
const FINDINGS_PATH: &str = "/v1/findings";
/// A published sweep.
const SWEEP_PATH: &str = "/v1/subsystems/{nqn}/sweeps/{name}";
/// Packet paths, as data and as a picture.
const TOPOLOGY_PATH: &str = "/v1/topology";
pub(super) const PICTURE_PATH: &str = "/v1/topology/picture";
/// A gateway of the group.
const GATEWAY_PATH: &str = "/v1/gateways/{name}";
/// Keys of a host.
const HOST_KEY_PATH: &str = "/v1/subsystems/{nqn}/host_keys/{host}";
const RESERVATIONS_PATH: &str = "/v1/subsystems/{nqn}/namespaces/{nsid}/reservations";
const SNAPSHOTS_PATH: &str = "/v1/subsystems/{nqn}/namespaces/{nsid}/snapshots";

/// Preview of a change.
const PREVIEW_PATH: &str = "/v1/preview";
/// Changes with a preview.
const PREVIEWED: &[(&str, &str)] = &[
    ("POST", "/v1/subsystems"),
    ("PATCH", "/v1/subsystems/{nqn}"),
    ("DELETE", "/v1/subsystems/{nqn}"),
    ("POST", "/v1/subsystems/{nqn}/hosts"),
    ("DELETE", "/v1/subsystems/{nqn}/hosts/{host}"),
    ("PUT", HOST_KEY_PATH),
    ("PATCH", HOST_KEY_PATH),
    ("DELETE", HOST_KEY_PATH),
    ("PUT", "/v1/subsystems/{nqn}/controller_key"),
    ("POST", "/v1/subsystems/{nqn}/namespaces"),
    ("PATCH", NAMESPACE_PATH),
    ("DELETE", NAMESPACE_PATH),
    ("PUT", "/v1/subsystems/{nqn}/ana-groups/{id}"),
    ("POST", "/v1/ports"),
    ("DELETE", "/v1/ports/{id}"),
    ("POST", "/v1/referrals"),
    ("DELETE", "/v1/referrals/{address}/{service}"),
    ("PATCH", GATEWAY_PATH),
];

/// Metrics for Prometheus, under Selvedge's names.
const METRICS_PATH: &str = "/metrics";
/// The same for dashboards of ceph-nvmeof.
const CEPH_NVMEOF_METRICS_PATH: &str = "/metrics/ceph-nvmeof";
/// Paths with metrics in Prometheus's text format.
pub(super) const METRICS_PATHS: [&str; 2] = [METRICS_PATH, CEPH_NVMEOF_METRICS_PATH];

/// Everything.
#[rustfmt::skip]
pub(super) const ROUTES: &[Route] = &[
    route!(Read "GET" "/v1/status", "Ports, controllers with their queues, and reactors", None,
        200 Some("Status"), fabric::status),
    route!(Read "GET" LIVE_PATH, "Live state as server-sent events: `roster` (LiveRoster), the connected hosts, at first and every \
        few seconds; `findings` (Findings), every ten; `tick` (LiveTick), rates and health, each second. It ends after a minute",
        None, 200 Some("LiveTick"), live::watch, LIVE_FLAGS),
    route!(Read "GET" "/v1/history", "Rates of the last hour, as far as the target was sampled for live viewers", None,
        200 Some("History"), live::history),
    route!(Read "GET" "/v1/subsystems/{nqn}/namespaces/{nsid}/history", "Rates of one namespace in the last hour", None,
        200 Some("History"), live::namespace_history),
    route!(Read "GET" FINDINGS_PATH, "Problems of the target and their remedies, by the rules of `selvedge doctor`; at most ten \
        seconds old, or of a new sample of a second", None, 200 Some("Findings"), live::findings),
    route!(Read "GET" TOPOLOGY_PATH, "Packet path of the target's connections: queue of the network card, interrupt, CPU, reactor; \
        at most ten seconds old", None, 200 Some("PacketPaths"), live::topology),
    route!(Read "GET" PICTURE_PATH, "Packet path as a picture, as `selvedge tune show` draws it", None, 200 None, live::topology_picture,
        PICTURE_FLAGS),
    route!(Read "GET" "/v1/log", "Log level of the target", None, 200 Some("Log"), log_level::show),
    route!(Admin "PUT" "/v1/log", "Set the log level, until the target ends", body::<log_level::LogBody>("Log"),
        200 Some("Log"), log_level::put),
    route!(Admin "GET" AUDIT_PATH, "Latest records of the audit log, without the content of requests", None,
        200 Some("AuditTail"), audit_tail::show),
    route!(Read "GET" "/v1/sweeps", "Published sweeps, with their progress and state", None,
        200 Some("Sweeps"), sweeps::list),
    route!(Read "GET" SWEEP_PATH, "One sweep, with the points that it has measured", None, 200 Some("Sweep"), sweeps::show),
    route!(Operate "PUT" SWEEP_PATH, "Publish the progress and results of a sweep of a subsystem; kept in memory",
        body::<sweeps::SweepBody>("SweepSoFar"), 200 Some("SweepTitle"), sweeps::publish),
    route!(Read "GET" "/v1/slow-commands", "Slow commands, with the time of each stage", None,
        200 Some("SlowCommands"), slow_commands::show),
    route!(Admin "PUT" "/v1/slow-commands", "Set the shortest duration of commands to record, until the target ends",
        body::<slow_commands::ThresholdBody>("SlowCommandsThreshold"), 200 Some("SlowCommands"), slow_commands::put),
    route!(Read "GET" "/v1/config", "The whole configuration", None, 200 Some("Config"), fabric::config),
    route!(Admin "PUT" "/v1/config", "Replace the whole configuration", body::<FabricConfig>("NewConfig"),
        200 Some("Changes"), fabric::put_config, PUT_FLAGS),
    route!(Read "GET" "/v1/subsystems", "All subsystems", None, 200 Some("Subsystems"), subsystems::list),
    route!(Admin "POST" "/v1/subsystems", "Add a subsystem", body::<SubsystemConfig>("NewSubsystem"),
        201 Some("Subsystem"), subsystems::add),
    route!(Read "GET" "/v1/subsystems/{nqn}", "One subsystem", None, 200 Some("Subsystem"), subsystems::show),
    route!(Admin "PATCH" "/v1/subsystems/{nqn}", "Change settings of a subsystem; null removes its storage",
        body::<Patch<SubsystemConfig>>("SubsystemPatch"), 200 Some("Subsystem"), subsystems::patch),
    route!(Admin "DELETE" "/v1/subsystems/{nqn}", "Remove a subsystem; its hosts are disconnected, its files stay", None,
        204 None, subsystems::remove),
    route!(Read "GET" "/v1/subsystems/{nqn}/hosts", "Hosts of a subsystem", None, 200 Some("Hosts"), subsystems::hosts),
    route!(Operate "POST" "/v1/subsystems/{nqn}/hosts", "Allow a host", body::<HostBody>("Host"),
        201 Some("Host"), subsystems::allow),
    route!(Operate "DELETE" "/v1/subsystems/{nqn}/hosts/{host}", "Deny a host", None, 204 None, subsystems::deny,
        DENY_FLAGS),
    route!(Operate "PUT" HOST_KEY_PATH, "Set the secrets of a host, by which it must authenticate, and its TLS keys",
        body::<HostKeyBody>("NewHostKey"), 200 Some("HostKey"), host_keys::put),
    route!(Operate "PATCH" HOST_KEY_PATH, "Change some of a host's keys; null removes one",
        body::<HostKeyPatch>("HostKeyPatch"), 200 Some("HostKey"), host_keys::patch),
    route!(Operate "PUT" "/v1/subsystems/{nqn}/controller_key",
        "Set the secret by which a subsystem authenticates to all hosts that have one; null removes it",
        body::<ControllerKeyBody>("ControllerKey"), 200 Some("Subsystem"), host_keys::put_controller_key),
    route!(Operate "DELETE" HOST_KEY_PATH, "Remove the secret and the TLS key of a host", None,
        204 None, host_keys::remove),
    route!(Read "GET" "/v1/subsystems/{nqn}/namespaces", "The namespaces of a subsystem", None,
        200 Some("Namespaces"), namespaces::list),
    route!(Operate "POST" "/v1/subsystems/{nqn}/namespaces", "Add a namespace; without an nsid it gets the lowest free one",
        body::<NamespaceBody>("AddNamespace"), 201 Some("Namespace"), namespaces::add),
    route!(Read "GET" "/v1/subsystems/{nqn}/namespaces/{nsid}", "One namespace", None,
        200 Some("Namespace"), namespaces::show),
    route!(Operate "PATCH" NAMESPACE_PATH, "Change settings of a namespace; the size of an image is changed in its cluster",
        body::<NamespacePatch>("NamespacePatch"), 200 Some("Namespace"), namespaces::patch),
    route!(Operate "DELETE" NAMESPACE_PATH, "Remove a namespace; its file stays, and its image without a flag that removes it", None,
        204 None, namespaces::remove, REMOVE_FLAGS),
    route!(Operate "POST" "/v1/subsystems/{nqn}/namespaces/{nsid}/reopen",
        "Reopen a namespace's file or device after a failed synchronization; writes are accepted again", None,
        200 Some("Namespace"), namespaces::reopen),
    route!(Read "GET" RESERVATIONS_PATH, "Hosts that are registered on a namespace, and its reservation", None,
        200 Some("Reservations"), namespaces::reservations),
    route!(Admin "DELETE" RESERVATIONS_PATH, "Clear all registrations of a namespace, and its reservation; its hosts are notified", None,
        204 None, namespaces::clear_reservations),
    route!(Admin "DELETE" "/v1/subsystems/{nqn}/namespaces/{nsid}/reservations/{host}",
        "Clear the registration of one host, and a reservation that it alone holds", None,
        204 None, namespaces::clear_reservations),
    route!(Read "GET" SNAPSHOTS_PATH, "The snapshots of a namespace's image", None, 200 Some("Snapshots"), images::snapshots),
    route!(Operate "POST" SNAPSHOTS_PATH, "Make a snapshot of a namespace's image", body::<SnapshotBody>("NewSnapshot"),
        201 Some("Snapshot"), images::snapshot),
    route!(Operate "POST" "/v1/subsystems/{nqn}/snapshots", "Make snapshots of several images at one moment",
        body::<SnapshotSetBody>("NewSnapshotSet"), 201 Some("SnapshotSet"), snapshot_set::make),
    route!(Operate "DELETE" "/v1/subsystems/{nqn}/namespaces/{nsid}/snapshots/{snapshot}",
        "Remove a snapshot of a namespace's image", None, 204 None, images::remove_snapshot),
    route!(Operate "POST" "/v1/subsystems/{nqn}/namespaces/{nsid}/clone",
        "Clone a snapshot of a namespace's image, and add a namespace on the clone",
        body::<CloneBody>("Clone"), 201 Some("Namespace"), images::clone),
    route!(Operate "POST" "/v1/subsystems/{nqn}/namespaces/{nsid}/flatten",
        "Flatten a namespace's image: copy all data that it shares with its parent", None,
        202 Some("Task"), images::flatten),
    route!(Read "GET" "/v1/tasks", "Running and ended tasks on images", None, 200 Some("Tasks"), images::tasks),
    route!(Read "GET" "/v1/tasks/{id}", "Progress of a task", None, 200 Some("Task"), images::task),
    route!(Read "GET" "/v1/subsystems/{nqn}/ana-groups", "The ANA groups of a subsystem", None,
        200 Some("AnaGroups"), subsystems::ana_groups),
    route!(Read "GET" "/v1/subsystems/{nqn}/ana-groups/{id}", "The states of an ANA group", None,
        200 Some("AnaGroup"), subsystems::ana_group),
    route!(Operate "PUT" "/v1/subsystems/{nqn}/ana-groups/{id}", "Set the states of an ANA group",
        body::<AnaGroupBody>("AnaStates"), 200 Some("AnaGroup"), subsystems::put_ana_group),
    route!(Read "GET" "/v1/ports", "Listeners of the target", None, 200 Some("Ports"), ports::list),
    route!(Admin "POST" "/v1/ports", "Add a listener", body::<PortConfig>("NewPort"), 201 Some("Port"), ports::add),
    route!(Admin "DELETE" "/v1/ports/{id}", "Remove a listener", None, 204 None, ports::remove),
    route!(Read "GET" "/v1/referrals", "Referrals to other discovery services", None,
        200 Some("Referrals"), ports::referrals),
    route!(Admin "POST" "/v1/referrals", "Add a referral to another discovery service",
        body::<engine::target::ReferralConfig>("NewReferral"), 201 Some("Referral"), ports::add_referral),
    route!(Admin "DELETE" "/v1/referrals/{address}/{service}", "Remove a referral", None,
        204 None, ports::remove_referral),
    route!(Read "POST" PREVIEW_PATH, "Preview a change, with the same roles and refusals; nothing is changed",
        body::<preview::PreviewBody>("PlannedChange"), 200 Some("Preview"), show_preview),
    route!(Read "GET" "/v1/connections", "The controllers of all hosts, with their queues", None,
        200 Some("Connections"), connections::list),
    route!(Admin "DELETE" "/v1/controllers/{cntlid}", "End a controller; its host may reconnect", None,
        204 None, connections::reset),
    route!(Read "GET" "/v1/gateways", "Gateways of the target's group, and the load-balancing groups that each serves", None,
        200 Some("GatewayGroup"), gateways::show),
    route!(Admin "PATCH" GATEWAY_PATH, "Drain a gateway, or resume it",
        body::<gateways::GatewayPatch>("GatewayPatch"), 200 Some("Gateway"), gateways::patch),
    route!(Admin "POST" "/v1/gateways/{name}/failback",
        "Give a gateway that has returned its load-balancing groups now; sent to the gateway that serves them",
        None, 204 None, gateways::fail_back),
    route!(Admin "DELETE" GATEWAY_PATH,
        "Remove an ended gateway from the group; its namespaces move to other load-balancing groups",
        None, 204 None, gateways::remove),
    route!(Read "GET" "/v1/openapi.json", "This document", None, 200 None, openapi::answer),
    route!(Metrics "GET" METRICS_PATH, "Metrics in Prometheus' text format", None, 200 None, metrics::answer),
    route!(Metrics "GET" CEPH_NVMEOF_METRICS_PATH, "Metrics by the names of ceph-nvmeof's exporter", None, 200 None,
        ceph_nvmeof::metrics),
];

/// Parts of the API's server.
#[derive(Clone)]
struct Service {
    administration: Arc<Administration>,
    /// Rights of callers; `None` if everybody may use all that is served here.
    access: Option<Arc<Access>>,
    /// Places of requests that may take long.
    slow: Arc<SlowPlaces>,
}

/// All routes, the console's page, and refusals for everything else.
pub(super) fn router(administration: Arc<Administration>, access: Arc<Access>) -> Router {
    let paths = ROUTES.iter().map(|route| route.path).collect();
    console::beside(router_of(paths, administration, Some(access)))
}

/// The route of the metrics alone, which changes nothing.
pub(super) fn metrics_router(administration: Arc<Administration>, access: Option<Arc<Access>>) -> Router {
    router_of(METRICS_PATHS.to_vec(), administration, access)
}

fn router_of(
    mut paths: Vec<&'static str>,
    administration: Arc<Administration>,
    access: Option<Arc<Access>>,
) -> Router {
    let service = Service { administration, access, slow: Arc::new(SlowPlaces::new()) };
    let mut router = Router::new();
    paths.sort_unstable();
    paths.dedup();
    let hint = match paths.contains(&"/v1/openapi.json") {
        true => "GET /v1/openapi.json describes all requests",
        false => "GET /metrics has the metrics",
    };
    for path in paths {
        let handler =
            move |State(service): State<Service>, parts, request| answer(service, path, parts, request);
        router = router.route(path, any(handler));
    }
    router
        .fallback(move |request: Request| async move {
            let what = format!("there is nothing at {}", request.uri().path());
            refuse(&Refusal::not_found(what).hint(hint))
        })
        .layer(middleware::from_fn_with_state(service.clone(), identify))
        .with_state(service)
}

/// Finds out who asks, before anything else of the request counts.
async fn identify(State(service): State<Service>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>();
    if let Err(refusal) = browser::check(request.headers(), peer, service.access.is_some()) {
        return refuse(&refusal);
    }
    let Some(access) = service.access else {
        request.extensions_mut().insert(Caller::anybody());
        return next.run(request).await;
    };
    let Some(peer) = request.extensions().get::<Peer>().cloned() else {
        return refuse(&Refusal::new(500, "the caller is unknown"));
    };
    let header = request.headers().get(AUTHORIZATION).map(|header| header.as_bytes().to_vec());
    // Names of users may have to be looked up elsewhere.
    let place = service.slow.take_look_up(&peer).await;
    let known = tokio::task::spawn_blocking({
        let (peer, administration) = (peer.clone(), service.administration);
        let what = format!("{} {}", request.method(), request.uri());
        move || {
            let _place = place;
            let known = access.identify(&peer, header.as_deref());
            known.map_err(|refusal| {
                administration.audit().write(Event {
                    what: Some(what),
                    ..Event::failed_login(Identity::Unknown, &peer, &refusal.error)
                });
                (refusal, access.count_refusal(&peer))
            })
        }
    });
    let unknown = || (Refusal::new(500, "the caller could not be identified"), (Duration::ZERO, None));
    match known.await.unwrap_or_else(|_| Err(unknown())) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err((refusal, (delay, logged))) => {
            if let Some(times) = logged {
                tracing::warn!(from = %peer, times, "Refused a client of the control API: {}", refusal.error);
            }
            // Only this answer is delayed.
            sleep(delay).await;
            let mut response = refuse(&refusal);
            if refusal.status == 401 {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}

type Parts = Result<Path<Vec<(String, String)>>, PathRejection>;

async fn answer(service: Service, path: &'static str, parts: Parts, request: Request) -> Response {
    let method = request.method().clone();
    let Some(route) = ROUTES.iter().find(|route| route.path == path && route.method == method.as_str())
    else {
        return wrong_method(path, method.as_str());
    };
    let ending = request.extensions().get::<Ending>().cloned();
    match perform(service, route, parts, request).await {
        Ok(answer) => respond(answer, ending),
        Err(refusal) => refuse(&refusal),
    }
}

async fn perform(
    service: Service,
    route: &'static Route,
    parts: Parts,
    request: Request,
) -> Result<Answer, Refusal> {
    let Path(parts) = parts.map_err(|_| Refusal::new(400, "the path is not UTF-8"))?;
    let caller = request.extensions().get::<Caller>().cloned();
    let caller = caller.ok_or_else(|| Refusal::new(500, "the caller is unknown"))?;
    let peer = request.extensions().get::<Peer>().map(ToString::to_string);
    let what = format!("{} {}", route.method, request.uri());
    let subsystem = parts.iter().find(|(name, _)| name == "nqn").map(|(_, nqn)| nqn.as_str());
    let record =
        Event { who: Some(caller.identity.clone()), from: peer, what: Some(what), ..Event::default() };
    if let Err(refusal) = caller.check(route.needs, subsystem) {
        let refused = Event { kind: Kind::Refused, result: refusal.to_string(), status: Some(403), ..record };
        let recorded = tokio::task::spawn_blocking(move || service.administration.audit().write(refused));
        // What a panic there had to say stands in its own message.
        let _ = recorded.await;
        return Err(refusal);
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    check_query(route, &query)?;
    let identified = request.extensions().get::<Identified>().cloned();
    let catch_up = CatchUp::before(&request, caller.rights.role);
    let body = receive(request, BODY_TIMEOUT).await?;
    // Not before the request is there as a whole: a client of the least role that withholds a body would keep its permit without
    // asking for anything.
    identified.iter().for_each(Identified::set);
    if route.body.is_none() && !body.is_empty() {
        return Err(Refusal::new(400, format!("{} {} takes no body", route.method, route.path)));
    }
    let is_slow = route.is_slow() || catch_up.is_some();
    let place = if is_slow { Some(service.slow.take(caller.rights.role).await) } else { None };
    // Opening files and waiting for disks is not work for the thread that all connections share.
    let work = tokio::task::spawn_blocking(move || {
        let _place = place;
        catch_up.iter().for_each(CatchUp::run);
        let administration = &service.administration;
        let (changed, audit) = (RefCell::default(), administration.audit());
        let ask = Ask {
            administration,
            caller: &caller,
            path: &parts,
            query: &query,
            body: &body,
            record: changed,
            preview: None,
        };
        if !route.changes(&ask) {
            return (route.handler)(&ask);
        }
        // Before anything is begun or recorded: also what needs no lock would be lost with this process.
        administration.check_serves()?;
        audit.check()?;
        let outcome = (route.handler)(&ask);
        if route.path != SWEEP_PATH || outcome.is_err() || !ask.record.borrow().is_empty() {
            audit.write(recorded(record, &ask, &outcome));
        }
        outcome
    });
    work.await.unwrap_or_else(|_| Err(Refusal::new(500, "internal error; the log names the place")))
}

/// Answers what a change would come to.
fn show_preview(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let wanted: preview::PreviewBody = ask.body()?;
    let find = |route: &'static Route| {
        let is_meant = route.method == wanted.method && PREVIEWED.contains(&(route.method, route.path));
        Some((route, preview::planned(route.path, &wanted.path).filter(|_| is_meant)?))
    };
    let found = ROUTES.iter().find_map(find);
    let (route, planned) = found.ok_or_else(|| {
        let what = format!("there is no preview of {} {}", wanted.method, wanted.path);
        Refusal::unprocessable(what).hint("GET /v1/openapi.json describes all requests")
    })?;
    let subsystem = planned.path.iter().find(|(name, _)| name == "nqn").map(|(_, nqn)| nqn.as_str());
    ask.caller.check(route.needs, subsystem)?;
    check_query(route, planned.query)?;
    let body = wanted.body.map(|body| body.to_string()).unwrap_or_default();
    if route.body.is_none() && !body.is_empty() {
        return Err(Refusal::unprocessable("this change has no body").about("body"));
    }
    preview::of(ask, &planned, body.as_bytes(), route.handler)
}

/// The record of a change, with what came of it.
fn recorded(record: Event, ask: &Ask<'_>, outcome: &Result<Answer, Refusal>) -> Event {
    let request = serde_json::from_slice(ask.body).unwrap_or_default();
    let (kind, result, status) = match outcome {
        Ok(answer) => (Kind::Change, "done".to_owned(), answer.status),
        Err(refusal) => (Kind::Refused, refusal.to_string(), refusal.status),
    };
    Event { kind, request, changes: ask.record.take(), result, status: Some(status), ..record }
}

fn check_query(route: &Route, query: &str) -> Result<(), Refusal> {
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let key = part.split('=').next().unwrap_or_default();
        if !route.flags.iter().any(|(name, _)| *name == key) {
            let known: Vec<&str> = route.flags.iter().map(|(name, _)| *name).collect();
            let hint = match known.as_slice() {
                [] => format!("{} {} takes no query", route.method, route.path),
                known => format!("{} {} takes {}", route.method, route.path, known.join(", ")),
            };
            let what = format!("`{key}` in the query means nothing here");
            return Err(Refusal::new(400, what).about(key).hint(hint));
        }
    }
    Ok(())
}

async fn receive(request: Request, limit: Duration) -> Result<Vec<u8>, Refusal> {
    let large = || Refusal::new(413, format!("the body is larger than {BODY_BYTES_MAX} bytes"));
    let length =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Err(large());
    }
    match timeout(limit, Limited::new(request.into_body(), BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(large()),
        Ok(Err(error)) => Err(Refusal::new(400, format!("the body of the request is incomplete: {error}"))),
        Err(_) => Err(Refusal::new(408, "timed out waiting for the body of the request")),
    }
}

fn wrong_method(path: &str, method: &str) -> Response {
    let routes = ROUTES.iter().filter(|route| route.path == path);
    let allowed: Vec<&str> = routes.map(|route| route.method).collect();
    let allowed = allowed.join(", ");
    let mut response = refuse(&Refusal::new(405, format!("{path} does not take {method}, but {allowed}")));
    if let Ok(value) = HeaderValue::from_str(&allowed) {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

fn respond(answer: Answer, ending: Option<Ending>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(json) = answer.json {
        *response.body_mut() = Body::from(format!("{json:#}\n"));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if let Some((kind, text)) = answer.text {
        *response.body_mut() = Body::from(text);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if kind == PICTURE {
            // Opened by itself, the picture is shown, and can run or load nothing.
            let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        }
    }
    if let Some((kind, pieces)) = answer.pieces {
        response.extensions_mut().insert(pieces.held());
        *response.body_mut() = Body::new(pieces);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Some(viewer) = answer.stream {
        *response.body_mut() = Body::new(viewer.view(ending));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if let Some(Ok(location)) = answer.location.map(|location| HeaderValue::from_str(&location)) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

pub(super) fn refuse(refusal: &Refusal) -> Response {
    let json = serde_json::to_value(refusal).ok();
    respond(Answer::of(refusal.status, json), None)
}
