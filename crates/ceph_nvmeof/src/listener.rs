//! Where subsystems are found, and ANA states.

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateListenerReq {
    #[prost(string, tag = "1")]
    pub nqn: String,
    #[prost(string, tag = "2")]
    pub host_name: String,
    #[prost(string, tag = "3")]
    pub traddr: String,
    #[prost(int32, optional, tag = "5")]
    pub adrfam: Option<i32>,
    #[prost(uint32, optional, tag = "6")]
    pub trsvcid: Option<u32>,
    #[prost(bool, optional, tag = "7")]
    pub secure: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub verify_host_name: Option<bool>,
    #[prost(bool, optional, tag = "9")]
    pub force: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteListenerReq {
    #[prost(string, tag = "1")]
    pub nqn: String,
    #[prost(string, tag = "2")]
    pub host_name: String,
    #[prost(string, tag = "3")]
    pub traddr: String,
    #[prost(int32, optional, tag = "5")]
    pub adrfam: Option<i32>,
    #[prost(uint32, optional, tag = "6")]
    pub trsvcid: Option<u32>,
    #[prost(bool, optional, tag = "7")]
    pub force: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListListenersReq {
    #[prost(string, tag = "1")]
    pub subsystem: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ShowGatewayListenersInfoReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListenerInfo {
    #[prost(string, tag = "1")]
    pub host_name: String,
    #[prost(string, tag = "2")]
    pub trtype: String,
    #[prost(int32, tag = "3")]
    pub adrfam: i32,
    #[prost(string, tag = "4")]
    pub traddr: String,
    #[prost(uint32, tag = "5")]
    pub trsvcid: u32,
    #[prost(bool, optional, tag = "6")]
    pub secure: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    pub active: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub manual: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListenersInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(message, repeated, tag = "3")]
    pub listeners: Vec<ListenerInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GatewayListenerInfo {
    #[prost(message, optional, tag = "1")]
    pub listener: Option<ListenerInfo>,
    #[prost(message, repeated, tag = "2")]
    pub lb_states: Vec<AnaGroupState>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GatewayListenersInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(message, repeated, tag = "3")]
    pub gw_listeners: Vec<GatewayListenerInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AnaGroupState {
    #[prost(uint32, tag = "1")]
    pub grp_id: u32,
    #[prost(int32, tag = "2")]
    pub state: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NqnAnaStates {
    #[prost(string, tag = "1")]
    pub nqn: String,
    #[prost(message, repeated, tag = "2")]
    pub states: Vec<AnaGroupState>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AnaInfo {
    #[prost(message, repeated, tag = "1")]
    pub states: Vec<NqnAnaStates>,
}
