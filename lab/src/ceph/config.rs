//! What a cluster is asked to be, and Ceph's configuration file for it. It keeps out how daemons are started.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use clap::ValueEnum;

use super::ports::Ports;

/// The pool that images are in.
pub(crate) const POOL: &str = "rbd";
/// The second user, who may do what `profile rbd` allows.
pub(crate) const USER: &str = "selvedge";
/// The most OSDs of a cluster: more than the ports of one have room for, and than a small machine has processors.
pub(crate) const OSDS_MAX: u32 = 8;
/// Room of an OSD in bytes. The file of a BlueStore is sparse, and an OSD that is full ends; what a memstore holds is memory.
const BLUESTORE_BYTES: u64 = 16 << 30;
const MEMSTORE_BYTES: u64 = 2 << 30;
/// Everything that can gather messages. None of it is looked at, and gathering costs as much as the work itself.
const SILENT: &str = "asok auth bdev bluefs bluestore buffer client context crush finisher heartbeatmap journal \
    kstore memdb mgrc monc ms objclass objectcacher objecter optracker osd perfcounter rados rbd rocksdb throttle timer tp";

/// Store of the OSDs' objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// In memory: gone with the daemon
    #[value(name = "memstore")]
    Memory,
    /// As Ceph does it, in a file
    #[value(name = "bluestore")]
    Blue,
}

/// A cluster to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) osds: u32,
    pub(crate) store: Store,
    /// True if clients need a key (cephx).
    pub(crate) needs_keys: bool,
    /// A manager tells in which state placement groups are, and takes two seconds and 400 MiB.
    pub(crate) has_manager: bool,
}

impl Shape {
    /// Cluster of one OSD in memory, without keys and manager: ready in two seconds.
    pub(crate) const SMALL: Shape =
        Shape { osds: 1, store: Store::Memory, needs_keys: false, has_manager: false };
    /// Three copies of everything, as clusters have it.
    pub(crate) const REPLICATED: Shape =
        Shape { osds: 3, store: Store::Blue, needs_keys: false, has_manager: true };

    /// Copies of each object.
    pub(crate) const fn copies(self) -> u32 {
        if self.osds < 3 { self.osds } else { 3 }
    }

    /// Placement groups of the pool.
    pub(crate) const fn groups(self) -> u32 {
        if self.osds == 1 { 8 } else { 32 }
    }

    /// The configuration file of a cluster of this shape below `folder`, whose daemons listen on `address`.
    pub(super) fn config(self, folder: &Path, cluster_id: &str, address: Ipv4Addr, ports: Ports) -> String {
        let mut text = self.global(folder, cluster_id, address, ports);
        for name in SILENT.split_whitespace() {
            let _ = writeln!(text, "debug_{name} = 0/0");
        }
        text + &self.daemons(folder)
    }

    fn global(self, folder: &Path, cluster_id: &str, address: Ipv4Addr, ports: Ports) -> String {
        let auth = if self.needs_keys { "cephx" } else { "none" };
        let (copies, groups) = (self.copies(), self.groups());
        // A write has to go on when one of three is gone.
        let copies_min = copies.div_ceil(2);
        let Ports { monitor, first, last } = ports;
        let folder = folder.display();
        // How long an OSD may say nothing is asked by the others and by the monitor.
        format!(
            "[global]
fsid = {cluster_id}
mon_host = [v2:{address}:{monitor}]
mon_initial_members = a
public_addr = {address}
cluster_addr = {address}
ms_bind_msgr1 = false
ms_bind_msgr2 = true
ms_bind_port_min = {first}
ms_bind_port_max = {last}
ms_cluster_mode = crc
ms_service_mode = crc
ms_client_mode = crc
auth_cluster_required = {auth}
auth_service_required = {auth}
auth_client_required = {auth}
keyring = {folder}/keyring
run_dir = {folder}/run
admin_socket =
pid_file =
crash_dir = {folder}/crash
log_file = {folder}/log/$name.log
log_to_stderr = false
err_to_stderr = true
mon_cluster_log_file = {folder}/log/cluster.log
osd_pool_default_size = {copies}
osd_pool_default_min_size = {copies_min}
osd_pool_default_pg_num = {groups}
osd_pool_default_pgp_num = {groups}
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_heartbeat_interval = 1
osd_heartbeat_grace = 5
"
        )
    }

    fn daemons(self, folder: &Path) -> String {
        let store = match self.store {
            Store::Memory => "memstore",
            Store::Blue => "bluestore",
        };
        let folder = folder.display();
        // A failed OSD is taken for down by the word of one other, and nothing is moved to others meanwhile.
        format!(
            "[mon]
mon_data = {folder}/mon/$id
mon_allow_pool_delete = true
mon_allow_pool_size_one = true
mon_data_avail_warn = 2
mon_data_avail_crit = 1
mon_warn_on_insecure_global_id_reclaim = false
mon_warn_on_insecure_global_id_reclaim_allowed = false
mon_warn_on_pool_no_redundancy = false
mon_max_pg_per_osd = 1000
mon_osd_min_down_reporters = 1
mon_osd_reporter_subtree_level = osd
mon_osd_down_out_interval = 3600
mon_osd_report_timeout = 60
mon_tick_interval = 1
mon_mgr_beacon_grace = 15
paxos_propose_interval = 0.1
[mgr]
mgr_data = {folder}/mgr/$id
mgr_initial_modules =
mgr_tick_period = 1
mgr_stats_period = 1
[osd]
osd_data = {folder}/osd.$id
osd_objectstore = {store}
osd_journal =
osd_class_update_on_start = false
osd_crush_update_on_start = true
osd_op_num_shards = 2
osd_op_num_threads_per_shard = 1
osd_op_queue = wpq
osd_min_pg_log_entries = 500
osd_max_pg_log_entries = 1000
osd_pg_log_dups_tracked = 1000
osd_max_backfills = 4
osd_recovery_max_active = 8
osd_recovery_sleep = 0
osd_delete_sleep = 0
ms_async_op_threads = 2
bluestore_block_size = {BLUESTORE_BYTES}
bluestore_block_create = true
bluestore_cache_autotune = false
bluestore_cache_size = 134217728
bluestore_prefer_deferred_size = 0
memstore_device_bytes = {MEMSTORE_BYTES}
[client]
log_file =
ms_async_op_threads = 1
"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shape: Shape) -> String {
        shape.config(Path::new("d"), "id", Ipv4Addr::LOCALHOST, Ports { monitor: 1, first: 2, last: 3 })
    }

    #[test]
    fn one_lost_copy_of_three_is_no_stop() {
        let replicated = text(Shape::REPLICATED);
        assert!(replicated.contains("default_size = 3\nosd_pool_default_min_size = 2\n"), "{replicated}");
        assert!(text(Shape::SMALL).contains("default_size = 1\nosd_pool_default_min_size = 1\n"));
    }

    #[test]
    fn says_where_and_how() {
        let small = text(Shape { needs_keys: true, ..Shape::SMALL });
        for line in [
            "mon_host = [v2:127.0.0.1:1]",
            "auth_client_required = cephx",
            "osd_objectstore = memstore",
            "debug_ms = 0/0",
            "keyring = d/keyring",
        ] {
            assert!(small.lines().any(|other| other == line), "{line} is not in {small}");
        }
    }
}
