//! The calls by their names, and the way of one: its bytes become a request, and what comes of it the bytes of an answer.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::post;
use ceph_nvmeof::Message;
use hyper::header::AUTHORIZATION;
use tokio::time::timeout;
use tonic::Status;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use super::super::access::Peer;
use super::super::administration::Administration;
use super::super::catch_up::CatchUp;
use super::super::connection_limiter::Identified;
use super::super::limits::{CALL_BYTES_MAX, CONNECTION_TIMEOUT};
use super::failed::{Failed, Reply};
use super::native::{Native, again};
use super::{
    connections, gateway, hosts, kmip, listeners, namespace_settings, namespaces, networks, statistics,
    subsystems,
};

/// Parts of a server of calls.
#[derive(Clone)]
struct Service {
    /// The control API.
    native: Router,
    administration: Arc<Administration>,
    /// The port that calls come to.
    service: u16,
}

/// All calls, made of requests to the control API, which knows who may do what.
pub(in crate::control) fn router(
    native: Router,
    administration: Arc<Administration>,
    service: u16,
) -> Router {
    Router::new()
        .route("/Gateway/{call}", post(call))
        .fallback(|request: Request| async move {
            refuse(&Status::unimplemented(format!("there is no call {}", request.uri().path())))
        })
        .with_state(Service { native, administration, service })
}

async fn call(State(service): State<Service>, Path(name): Path<String>, request: Request) -> Response {
    let mut native = Native {
        router: service.native,
        catch_up: CatchUp::of(service.administration.clone()),
        administration: service.administration,
        service: service.service,
        peer: request.extensions().get::<Peer>().cloned(),
        authorization: request.headers().get(AUTHORIZATION).cloned(),
        identified: request.extensions().get::<Identified>().cloned(),
        refusal: None,
    };
    let answer = async {
        if changes(&name) {
            native.begin_change().await;
        }
        dispatch(&name, native, request).await
    };
    let answered = timeout(CONNECTION_TIMEOUT, answer).await;
    answered.unwrap_or_else(|_| refuse(&Status::deadline_exceeded("the call took too long")))
}

/// True if a call may change something. Such a call first needs the changes that other gateways
/// have made.
fn changes(name: &str) -> bool {
    !["list_", "get_", "show_", "namespace_get_"].iter().any(|looks| name.starts_with(looks))
}

macro_rules! calls {
    ($name:ident, $native:ident, $request:ident, { $($call:literal => $handler:path),* $(,)? }) => {
        match $name {
            $($call => unary($request, move |asked| made($native.clone(), asked, $handler)).await,)*
            "create_subsystem" => unary($request, move |asked| subsystems::create($native.clone(), asked)).await,
            "get_subsystems" => unary($request, move |asked| subsystems::get($native.clone(), asked)).await,
            _ => refuse(&Status::unimplemented(format!("there is no call {}", $name))),
        }
    };
}

async fn dispatch(name: &str, native: Native, request: Request) -> Response {
    calls!(name, native, request, {
        "add_host" => hosts::add,
        "add_kmip_server_endpoints" => kmip::add,
        "add_subsystem_network" => networks::add,
        "change_host_key" => hosts::change_key,
        "change_subsystem_key" => subsystems::change_key,
        "create_listener" => listeners::create,
        "del_kmip_server_endpoints" => kmip::delete,
        "del_subsystem_network" => networks::delete,
        "delete_listener" => listeners::delete,
        "delete_subsystem" => subsystems::delete,
        "disable_spdk_nvmf_logs" => gateway::disable_spdk_logs,
        "get_connection_io_statistics" => statistics::of_connection,
        "get_gateway_info" => gateway::info,
        "get_gateway_log_level" => gateway::log_level,
        "get_gateway_stats" => statistics::of_gateway,
        "get_spdk_nvmf_log_flags_and_level" => gateway::spdk_level,
        "get_thread_stats" => statistics::of_threads,
        "list_connections" => connections::list,
        "list_hosts" => hosts::list,
        "list_kmip_server_endpoints" => kmip::list,
        "list_listeners" => listeners::list,
        "list_namespaces" => namespaces::list,
        "list_namespaces_io_stats" => statistics::of_namespaces,
        "list_subsystems" => subsystems::list,
        "namespace_add" => namespaces::add,
        "namespace_add_host" => namespace_settings::add_host,
        "namespace_change_load_balancing_group" => namespace_settings::change_group,
        "namespace_change_location" => namespace_settings::change_location,
        "namespace_change_visibility" => namespace_settings::change_visibility,
        "namespace_delete" => namespaces::delete,
        "namespace_delete_host" => namespace_settings::delete_host,
        "namespace_get_io_stats" => statistics::of_namespace,
        "namespace_resize" => namespace_settings::resize,
        "namespace_set_auto_resize" => namespace_settings::set_auto_resize,
        "namespace_set_qos_limits" => namespace_settings::set_qos,
        "namespace_set_rbd_trash_image" => namespace_settings::set_trash,
        "remove_host" => hosts::remove,
        "set_ana_state" => listeners::set_ana_state,
        "set_gateway_io_stats_mode" => statistics::set_mode,
        "set_gateway_log_level" => gateway::set_log_level,
        "set_keep_host_connected" => hosts::set_keep_connected,
        "set_spdk_nvmf_logs" => gateway::set_spdk_level,
        "show_gateway_listeners_info" => listeners::of_gateway,
    })
}

/// Makes a call: once, or again after other changes that came first, since it may have another answer then.
async fn made<Q, A, W>(native: Native, asked: Q, handler: impl Fn(Native, Q) -> W) -> A
where
    Q: Clone,
    A: Reply,
    W: Future<Output = Result<A, Failed>>,
{
    A::of(again(|| handler(native.clone(), asked.clone())).await)
}

/// Handler of one call.
struct Handler<F>(F);

impl<Q, A, F, W> UnaryService<Q> for Handler<F>
where
    F: FnMut(Q) -> W,
    W: Future<Output = A> + Send + 'static,
{
    type Response = A;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<A>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let done = (self.0)(request.into_inner());
        Box::pin(async move { Ok(tonic::Response::new(done.await)) })
    }
}

async fn unary<Q, A, W>(request: Request, handle: impl FnMut(Q) -> W) -> Response
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    W: Future<Output = A> + Send + 'static,
{
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default()).max_decoding_message_size(CALL_BYTES_MAX);
    grpc.unary(Handler(handle), request).await.map(Body::new)
}

fn refuse(status: &Status) -> Response {
    status.clone().into_http::<tonic::body::Body>().map(Body::new)
}
