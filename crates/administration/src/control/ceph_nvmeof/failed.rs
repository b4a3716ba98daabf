//! Why a call failed, and how each kind of answer says so.

use std::fmt;

use ceph_nvmeof::{
    ConnectionIoStatistics, ConnectionsInfo, GatewayInfo, GatewayListenersInfo, GatewayLogLevelInfo,
    GatewayStatsInfo, HostsInfo, KmipServerEndpointsInfo, ListNamespacesIoStatsInfo, ListenersInfo,
    NamespaceIoStatsInfo, NamespacesInfo, NsidStatus, ReqStatus, SpdkNvmfLogFlagsAndLevelInfo, SubsysStatus,
    SubsystemsInfoCli, ThreadStatsInfo,
};
use libc::E2BIG;

/// Message of a success, as strerror(3) has it.
const SUCCESS: &str = "Success";

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) errno: i32,
    pub(super) what: String,
    /// True if another change came first, after which the call may be made again.
    pub(super) is_outdated: bool,
}

impl Failed {
    pub(super) fn new(errno: i32, what: impl Into<String>) -> Self {
        Self { errno, what: what.into(), is_outdated: false }
    }

    /// The same, with what was to be done before what went wrong.
    pub(super) fn amid(self, doing: impl fmt::Display) -> Self {
        Self { what: format!("{doing}: {}", self.what), ..self }
    }
}

/// Refuses one more object of a kind of which there may be no more.
pub(super) fn check_room(count: usize, most: usize, kind: &str) -> Result<(), Failed> {
    if count < most {
        return Ok(());
    }
    Err(Failed::new(E2BIG, format!("there are {count} {kind} already, which is the limit")))
}

/// An answer that says whether the call succeeded.
pub(super) trait Reply: Default {
    /// The same, with this status.
    fn with_status(self, errno: i32, what: String) -> Self;

    /// The answer to a call that came to this.
    fn of(outcome: Result<Self, Failed>) -> Self {
        match outcome {
            Ok(reply) => reply.with_status(0, SUCCESS.to_owned()),
            Err(failed) => Self::default().with_status(failed.errno, failed.what),
        }
    }
}

macro_rules! reply {
    ($($reply:ident),*) => {
        $(impl Reply for $reply {
            fn with_status(self, errno: i32, what: String) -> Self {
                Self { status: errno, error_message: what, ..self }
            }
        })*
    };
}

reply!(
    ConnectionIoStatistics,
    ConnectionsInfo,
    GatewayListenersInfo,
    GatewayLogLevelInfo,
    GatewayStatsInfo,
    HostsInfo,
    KmipServerEndpointsInfo,
    ListNamespacesIoStatsInfo,
    ListenersInfo,
    NamespaceIoStatsInfo,
    NamespacesInfo,
    NsidStatus,
    SpdkNvmfLogFlagsAndLevelInfo,
    SubsysStatus,
    SubsystemsInfoCli,
    ThreadStatsInfo
);

impl Reply for ReqStatus {
    fn with_status(self, errno: i32, what: String) -> Self {
        Self { status: errno, error_message: what }
    }
}

impl Reply for GatewayInfo {
    fn with_status(self, errno: i32, what: String) -> Self {
        Self { status: errno, error_message: what, bool_status: errno == 0, ..self }
    }
}
