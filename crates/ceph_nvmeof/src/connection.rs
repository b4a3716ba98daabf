//! Hosts that are connected.

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListConnectionsReq {
    #[prost(string, tag = "1")]
    pub subsystem: String,
    #[prost(bool, optional, tag = "2")]
    pub clear_alerts: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Connection {
    #[prost(string, tag = "1")]
    pub nqn: String,
    #[prost(string, tag = "2")]
    pub traddr: String,
    #[prost(uint32, tag = "3")]
    pub trsvcid: u32,
    #[prost(string, tag = "4")]
    pub trtype: String,
    #[prost(int32, tag = "5")]
    pub adrfam: i32,
    #[prost(bool, tag = "6")]
    pub connected: bool,
    #[prost(int32, tag = "7")]
    pub qpairs_count: i32,
    #[prost(int32, tag = "8")]
    pub controller_id: i32,
    #[prost(bool, optional, tag = "9")]
    pub secure: Option<bool>,
    #[prost(bool, optional, tag = "10")]
    pub use_psk: Option<bool>,
    #[prost(bool, optional, tag = "11")]
    pub use_dhchap: Option<bool>,
    #[prost(string, optional, tag = "12")]
    pub subsystem: Option<String>,
    #[prost(bool, optional, tag = "13")]
    pub disconnected_due_to_keepalive_timeout: Option<bool>,
    #[prost(int32, optional, tag = "14")]
    pub dhchap_controller_origin: Option<i32>,
    #[prost(bool, optional, tag = "15")]
    pub host_deleted: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ConnectionsInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(string, tag = "3")]
    pub subsystem_nqn: String,
    #[prost(message, repeated, tag = "4")]
    pub connections: Vec<Connection>,
}
