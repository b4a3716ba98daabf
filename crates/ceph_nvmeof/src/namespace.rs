//! Namespaces.

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceAddReq {
    #[prost(string, tag = "1")]
    pub rbd_pool_name: String,
    #[prost(string, tag = "2")]
    pub rbd_image_name: String,
    #[prost(string, tag = "3")]
    pub subsystem_nqn: String,
    #[prost(uint32, optional, tag = "4")]
    pub nsid: Option<u32>,
    #[prost(uint32, tag = "5")]
    pub block_size: u32,
    #[prost(string, optional, tag = "6")]
    pub uuid: Option<String>,
    #[prost(int32, optional, tag = "7")]
    pub anagrpid: Option<i32>,
    #[prost(bool, optional, tag = "8")]
    pub create_image: Option<bool>,
    #[prost(uint64, optional, tag = "9")]
    pub size: Option<u64>,
    #[prost(bool, optional, tag = "10")]
    pub force: Option<bool>,
    #[prost(bool, optional, tag = "11")]
    pub no_auto_visible: Option<bool>,
    #[prost(bool, optional, tag = "12")]
    pub trash_image: Option<bool>,
    #[prost(bool, optional, tag = "13")]
    pub disable_auto_resize: Option<bool>,
    #[prost(bool, optional, tag = "14")]
    pub read_only: Option<bool>,
    #[prost(string, optional, tag = "15")]
    pub rbd_data_pool_name: Option<String>,
    #[prost(string, optional, tag = "16")]
    pub location: Option<String>,
    #[prost(string, optional, tag = "17")]
    pub rados_namespace_name: Option<String>,
    #[prost(message, repeated, tag = "18")]
    pub encryption_entries: Vec<EncryptionEntry>,
    #[prost(int32, optional, tag = "19")]
    pub encryption_algorithm: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceResizeReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(uint64, tag = "4")]
    pub new_size: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceGetIoStatsReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceSetQosReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(uint64, optional, tag = "4")]
    pub rw_ios_per_second: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub rw_mbytes_per_second: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub r_mbytes_per_second: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub w_mbytes_per_second: Option<u64>,
    #[prost(bool, optional, tag = "8")]
    pub force: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceChangeLoadBalancingGroupReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(int32, tag = "4")]
    pub anagrpid: i32,
    #[prost(bool, optional, tag = "5")]
    pub auto_lb_logic: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceChangeVisibilityReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(bool, tag = "3")]
    pub auto_visible: bool,
    #[prost(bool, optional, tag = "4")]
    pub force: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceSetRbdTrashImageReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(bool, tag = "3")]
    pub trash_image: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceDeleteReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(bool, optional, tag = "4")]
    pub i_am_sure: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceAddHostReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(string, tag = "3")]
    pub host_nqn: String,
    #[prost(bool, optional, tag = "4")]
    pub force: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceDeleteHostReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(string, tag = "3")]
    pub host_nqn: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListNamespacesReq {
    #[prost(string, tag = "1")]
    pub subsystem: String,
    #[prost(uint32, optional, tag = "2")]
    pub nsid: Option<u32>,
    #[prost(string, optional, tag = "3")]
    pub uuid: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NsidStatus {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(uint32, tag = "3")]
    pub nsid: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceCli {
    #[prost(uint32, tag = "1")]
    pub nsid: u32,
    #[prost(string, tag = "2")]
    pub bdev_name: String,
    #[prost(string, tag = "3")]
    pub rbd_image_name: String,
    #[prost(string, tag = "4")]
    pub rbd_pool_name: String,
    #[prost(uint32, tag = "5")]
    pub load_balancing_group: u32,
    #[prost(uint32, tag = "6")]
    pub block_size: u32,
    #[prost(uint64, tag = "7")]
    pub rbd_image_size: u64,
    #[prost(string, tag = "8")]
    pub uuid: String,
    #[prost(uint64, tag = "9")]
    pub rw_ios_per_second: u64,
    #[prost(uint64, tag = "10")]
    pub rw_mbytes_per_second: u64,
    #[prost(uint64, tag = "11")]
    pub r_mbytes_per_second: u64,
    #[prost(uint64, tag = "12")]
    pub w_mbytes_per_second: u64,
    #[prost(bool, tag = "13")]
    pub auto_visible: bool,
    #[prost(string, repeated, tag = "14")]
    pub hosts: Vec<String>,
    #[prost(string, optional, tag = "15")]
    pub ns_subsystem_nqn: Option<String>,
    #[prost(bool, optional, tag = "16")]
    pub trash_image: Option<bool>,
    #[prost(bool, optional, tag = "17")]
    pub disable_auto_resize: Option<bool>,
    #[prost(bool, optional, tag = "18")]
    pub read_only: Option<bool>,
    #[prost(string, optional, tag = "19")]
    pub cluster_name: Option<String>,
    #[prost(uint32, optional, tag = "20")]
    pub configured_load_balancing_group: Option<u32>,
    #[prost(bool, optional, tag = "21")]
    pub image_was_shrunk: Option<bool>,
    #[prost(string, optional, tag = "22")]
    pub rbd_data_pool_name: Option<String>,
    #[prost(string, optional, tag = "23")]
    pub location: Option<String>,
    #[prost(string, optional, tag = "24")]
    pub rados_namespace_name: Option<String>,
    #[prost(int32, optional, tag = "25")]
    pub encryption_algorithm: Option<i32>,
    #[prost(message, repeated, tag = "26")]
    pub encryption_entries: Vec<EncryptionEntry>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespacesInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(string, tag = "3")]
    pub subsystem_nqn: String,
    #[prost(message, repeated, tag = "4")]
    pub namespaces: Vec<NamespaceCli>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceIoError {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint32, tag = "2")]
    pub value: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceIoStatsInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(string, tag = "3")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "4")]
    pub nsid: u32,
    #[prost(string, optional, tag = "5")]
    pub uuid: Option<String>,
    #[prost(string, tag = "6")]
    pub bdev_name: String,
    #[prost(uint64, tag = "7")]
    pub tick_rate: u64,
    #[prost(uint64, tag = "8")]
    pub ticks: u64,
    #[prost(uint64, tag = "9")]
    pub bytes_read: u64,
    #[prost(uint64, tag = "10")]
    pub num_read_ops: u64,
    #[prost(uint64, tag = "11")]
    pub bytes_written: u64,
    #[prost(uint64, tag = "12")]
    pub num_write_ops: u64,
    #[prost(uint64, tag = "13")]
    pub bytes_unmapped: u64,
    #[prost(uint64, tag = "14")]
    pub num_unmap_ops: u64,
    #[prost(uint64, tag = "15")]
    pub read_latency_ticks: u64,
    #[prost(uint64, tag = "16")]
    pub max_read_latency_ticks: u64,
    #[prost(uint64, tag = "17")]
    pub min_read_latency_ticks: u64,
    #[prost(uint64, tag = "18")]
    pub write_latency_ticks: u64,
    #[prost(uint64, tag = "19")]
    pub max_write_latency_ticks: u64,
    #[prost(uint64, tag = "20")]
    pub min_write_latency_ticks: u64,
    #[prost(uint64, tag = "21")]
    pub unmap_latency_ticks: u64,
    #[prost(uint64, tag = "22")]
    pub max_unmap_latency_ticks: u64,
    #[prost(uint64, tag = "23")]
    pub min_unmap_latency_ticks: u64,
    #[prost(uint64, tag = "24")]
    pub copy_latency_ticks: u64,
    #[prost(uint64, tag = "25")]
    pub max_copy_latency_ticks: u64,
    #[prost(uint64, tag = "26")]
    pub min_copy_latency_ticks: u64,
    #[prost(message, repeated, tag = "27")]
    pub io_error: Vec<NamespaceIoError>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct EncryptionEntry {
    #[prost(int32, tag = "1")]
    pub format: i32,
    #[prost(string, tag = "2")]
    pub key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceChangeLocationReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(string, optional, tag = "3")]
    pub location: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceSetAutoResizeReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(uint32, tag = "2")]
    pub nsid: u32,
    #[prost(bool, tag = "3")]
    pub auto_resize: bool,
}
