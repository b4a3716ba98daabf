//! Hosts that may use a subsystem.

#[derive(Clone, PartialEq, prost::Message)]
pub struct AddHostReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub host_nqn: String,
    #[prost(string, optional, tag = "3")]
    pub psk: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub dhchap_key: Option<String>,
    #[prost(bool, optional, tag = "5")]
    pub psk_encrypted: Option<bool>,
    #[prost(bool, optional, tag = "6")]
    pub key_encrypted: Option<bool>,
    #[prost(string, optional, tag = "7")]
    pub dhchap_ctrlr_key: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub ctrlr_key_encrypted: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ChangeHostKeyReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub host_nqn: String,
    #[prost(string, optional, tag = "3")]
    pub dhchap_key: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub dhchap_ctrlr_key: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RemoveHostReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub host_nqn: String,
    #[prost(bool, optional, tag = "3")]
    pub force: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub keep_connections: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListHostsReq {
    #[prost(string, tag = "1")]
    pub subsystem: String,
    #[prost(bool, optional, tag = "2")]
    pub clear_alerts: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Host {
    #[prost(string, tag = "1")]
    pub nqn: String,
    #[prost(bool, optional, tag = "2")]
    pub use_psk: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    pub use_dhchap: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub disconnected_due_to_keepalive_timeout: Option<bool>,
    #[prost(int32, optional, tag = "5")]
    pub dhchap_controller_origin: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HostsInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(bool, tag = "3")]
    pub allow_any_host: bool,
    #[prost(string, tag = "4")]
    pub subsystem_nqn: String,
    #[prost(message, repeated, tag = "5")]
    pub hosts: Vec<Host>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SetKeepHostConnectedReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub host_nqn: String,
    #[prost(bool, optional, tag = "3")]
    pub keep_connected: Option<bool>,
}
