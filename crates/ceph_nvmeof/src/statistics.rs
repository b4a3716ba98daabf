//! Statistics of a gateway, of its threads, of namespaces, and of hosts.

use super::namespace::NamespaceIoError;

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GetGatewayStatsReq {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PollGroupTransportInfo {
    #[prost(string, tag = "1")]
    pub trtype: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PollGroupInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint32, tag = "2")]
    pub admin_qpairs: u32,
    #[prost(uint32, tag = "3")]
    pub io_qpairs: u32,
    #[prost(uint32, tag = "4")]
    pub current_admin_qpairs: u32,
    #[prost(uint32, tag = "5")]
    pub current_io_qpairs: u32,
    #[prost(uint64, tag = "6")]
    pub pending_bdev_io: u64,
    #[prost(uint64, tag = "7")]
    pub completed_nvme_io: u64,
    #[prost(message, repeated, tag = "8")]
    pub transports: Vec<PollGroupTransportInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GatewayStatsInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(uint64, tag = "3")]
    pub tick_rate: u64,
    #[prost(message, repeated, tag = "4")]
    pub poll_groups: Vec<PollGroupInfo>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GetThreadStatsReq {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SpdkThreadInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub busy: u64,
    #[prost(uint64, tag = "3")]
    pub idle: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ThreadStatsInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(message, repeated, tag = "3")]
    pub threads: Vec<SpdkThreadInfo>,
    #[prost(uint64, tag = "4")]
    pub tick_rate: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct SetGatewayIoStatsModeReq {
    #[prost(bool, tag = "1")]
    pub enabled: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListNamespacesIoStatsReq {
    #[prost(string, optional, tag = "1")]
    pub subsystem_nqn: Option<String>,
    #[prost(uint32, optional, tag = "2")]
    pub nsid: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListNamespacesIoStatsInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(uint64, tag = "3")]
    pub tick_rate: u64,
    #[prost(uint64, tag = "4")]
    pub ticks: u64,
    #[prost(message, repeated, tag = "5")]
    pub namespaces: Vec<BdevIoStatsInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct BdevIoStatsInfo {
    #[prost(string, tag = "1")]
    pub bdev_name: String,
    #[prost(uint64, tag = "2")]
    pub bytes_read: u64,
    #[prost(uint64, tag = "3")]
    pub num_read_ops: u64,
    #[prost(uint64, tag = "4")]
    pub bytes_written: u64,
    #[prost(uint64, tag = "5")]
    pub num_write_ops: u64,
    #[prost(uint64, tag = "6")]
    pub bytes_unmapped: u64,
    #[prost(uint64, tag = "7")]
    pub num_unmap_ops: u64,
    #[prost(uint64, tag = "8")]
    pub bytes_copied: u64,
    #[prost(uint64, tag = "9")]
    pub num_copy_ops: u64,
    #[prost(uint64, tag = "10")]
    pub read_latency_ticks: u64,
    #[prost(uint64, tag = "11")]
    pub max_read_latency_ticks: u64,
    #[prost(uint64, tag = "12")]
    pub min_read_latency_ticks: u64,
    #[prost(uint64, tag = "13")]
    pub write_latency_ticks: u64,
    #[prost(uint64, tag = "14")]
    pub max_write_latency_ticks: u64,
    #[prost(uint64, tag = "15")]
    pub min_write_latency_ticks: u64,
    #[prost(uint64, tag = "16")]
    pub unmap_latency_ticks: u64,
    #[prost(uint64, tag = "17")]
    pub max_unmap_latency_ticks: u64,
    #[prost(uint64, tag = "18")]
    pub min_unmap_latency_ticks: u64,
    #[prost(uint64, tag = "19")]
    pub copy_latency_ticks: u64,
    #[prost(uint64, tag = "20")]
    pub max_copy_latency_ticks: u64,
    #[prost(uint64, tag = "21")]
    pub min_copy_latency_ticks: u64,
    #[prost(message, repeated, tag = "22")]
    pub io_error: Vec<NamespaceIoError>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetConnectionIoStatisticsReq {
    #[prost(string, tag = "1")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "2")]
    pub host_nqn: String,
    #[prost(bool, optional, tag = "3")]
    pub reset: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct LatencyStats {
    #[prost(uint64, tag = "1")]
    pub min: u64,
    #[prost(uint64, tag = "2")]
    pub max: u64,
    #[prost(uint64, tag = "3")]
    pub mean: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct LatencyGroup {
    #[prost(uint64, tag = "1")]
    pub io_count: u64,
    #[prost(message, optional, tag = "2")]
    pub total: Option<LatencyStats>,
    #[prost(message, optional, tag = "3")]
    pub bdev: Option<LatencyStats>,
    #[prost(message, optional, tag = "4")]
    pub net: Option<LatencyStats>,
    #[prost(message, optional, tag = "5")]
    pub qos: Option<LatencyStats>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct BucketInfo {
    #[prost(uint32, tag = "1")]
    pub size: u32,
    #[prost(message, optional, tag = "2")]
    pub read: Option<LatencyGroup>,
    #[prost(message, optional, tag = "3")]
    pub write: Option<LatencyGroup>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ConnectionIoStatistics {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(string, tag = "3")]
    pub subsystem_nqn: String,
    #[prost(string, tag = "4")]
    pub host_nqn: String,
    #[prost(uint64, optional, tag = "5")]
    pub total_num_ios: Option<u64>,
    #[prost(message, repeated, tag = "6")]
    pub buckets: Vec<BucketInfo>,
}
