//! Subsystems.

use super::host::Host;

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateSubsystemReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub serial_number: String,
    #[prost(uint32, optional, tag = "3")]
    pub max_namespaces: Option<u32>,
    #[prost(bool, tag = "4")]
    pub enable_ha: bool,
    #[prost(bool, optional, tag = "5")]
    pub no_group_append: Option<bool>,
    #[prost(string, optional, tag = "6")]
    pub dhchap_key: Option<String>,
    #[prost(bool, optional, tag = "7")]
    pub key_encrypted: Option<bool>,
    #[prost(string, repeated, tag = "8")]
    pub network_mask: Vec<String>,
    #[prost(bool, optional, tag = "9")]
    pub secure_listeners: Option<bool>,
    #[prost(uint32, optional, tag = "10")]
    pub port: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteSubsystemReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(bool, optional, tag = "2")]
    pub force: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    pub i_am_sure: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ChangeSubsystemKeyReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, optional, tag = "2")]
    pub dhchap_key: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListSubsystemsReq {
    #[prost(string, optional, tag = "1")]
    pub subsystem_nqn: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub serial_number: Option<String>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GetSubsystemsReq {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SubsysStatus {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(string, tag = "3")]
    pub nqn: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SubsystemsInfo {
    #[prost(message, repeated, tag = "1")]
    pub subsystems: Vec<Subsystem>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Subsystem {
    #[prost(string, tag = "1")]
    pub nqn: String,
    #[prost(string, tag = "2")]
    pub subtype: String,
    #[prost(message, repeated, tag = "3")]
    pub listen_addresses: Vec<ListenAddress>,
    #[prost(message, repeated, tag = "4")]
    pub hosts: Vec<Host>,
    #[prost(bool, tag = "5")]
    pub allow_any_host: bool,
    #[prost(string, optional, tag = "6")]
    pub serial_number: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub model_number: Option<String>,
    #[prost(uint32, optional, tag = "8")]
    pub max_namespaces: Option<u32>,
    #[prost(uint32, optional, tag = "9")]
    pub min_cntlid: Option<u32>,
    #[prost(uint32, optional, tag = "10")]
    pub max_cntlid: Option<u32>,
    #[prost(message, repeated, tag = "11")]
    pub namespaces: Vec<Namespace>,
    #[prost(bool, optional, tag = "12")]
    pub has_dhchap_key: Option<bool>,
    #[prost(string, repeated, tag = "13")]
    pub network_mask: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListenAddress {
    #[prost(string, tag = "1")]
    pub trtype: String,
    #[prost(string, tag = "2")]
    pub adrfam: String,
    #[prost(string, tag = "3")]
    pub traddr: String,
    #[prost(string, tag = "4")]
    pub trsvcid: String,
    #[prost(string, optional, tag = "5")]
    pub transport: Option<String>,
    #[prost(bool, optional, tag = "6")]
    pub secure: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Namespace {
    #[prost(uint32, tag = "1")]
    pub nsid: u32,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, optional, tag = "3")]
    pub bdev_name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub nguid: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub uuid: Option<String>,
    #[prost(uint32, optional, tag = "6")]
    pub anagrpid: Option<u32>,
    #[prost(string, optional, tag = "7")]
    pub nonce: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub auto_visible: Option<bool>,
    #[prost(string, repeated, tag = "9")]
    pub hosts: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SubsystemsInfoCli {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(message, repeated, tag = "3")]
    pub subsystems: Vec<SubsystemCli>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SubsystemCli {
    #[prost(string, tag = "1")]
    pub nqn: String,
    #[prost(bool, tag = "2")]
    pub enable_ha: bool,
    #[prost(string, tag = "3")]
    pub serial_number: String,
    #[prost(string, tag = "4")]
    pub model_number: String,
    #[prost(uint32, tag = "5")]
    pub min_cntlid: u32,
    #[prost(uint32, tag = "6")]
    pub max_cntlid: u32,
    #[prost(uint32, tag = "7")]
    pub namespace_count: u32,
    #[prost(string, tag = "8")]
    pub subtype: String,
    #[prost(uint32, tag = "9")]
    pub max_namespaces: u32,
    #[prost(bool, optional, tag = "10")]
    pub has_dhchap_key: Option<bool>,
    #[prost(bool, optional, tag = "11")]
    pub allow_any_host: Option<bool>,
    #[prost(bool, optional, tag = "12")]
    pub created_without_key: Option<bool>,
    #[prost(string, repeated, tag = "13")]
    pub network_mask: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AddSubsystemNetworkReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub network_mask: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DelSubsystemNetworkReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub network_mask: String,
}
