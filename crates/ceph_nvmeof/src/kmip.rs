//! Key management servers that hold the keys of encrypted images.

#[derive(Clone, PartialEq, prost::Message)]
pub struct KmipServerEndpoint {
    #[prost(string, tag = "1")]
    pub address: String,
    #[prost(uint32, optional, tag = "2")]
    pub port: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct KmipServerEndpointCli {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub server_name: String,
    #[prost(string, tag = "3")]
    pub address: String,
    #[prost(uint32, tag = "4")]
    pub port: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AddKmipServerEndpointsReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub server_name: String,
    #[prost(message, repeated, tag = "3")]
    pub endpoints: Vec<KmipServerEndpoint>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DelKmipServerEndpointsReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub server_name: String,
    #[prost(message, repeated, tag = "3")]
    pub endpoints: Vec<KmipServerEndpoint>,
    #[prost(bool, optional, tag = "4")]
    pub force: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListKmipServerEndpointsReq {
    #[prost(string, optional, tag = "1")]
    pub subsystem_nqn: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub server_name: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct KmipServerEndpointsInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(message, repeated, tag = "3")]
    pub endpoints: Vec<KmipServerEndpointCli>,
}
