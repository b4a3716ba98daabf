//! The names of fio's options that stand for something else here, or for nothing, in job files and on the command line. What
//! the others mean is `fio`'s.

/// Options that say nothing about what a namespace is asked: which file, how the kernel is told, what is kept in
/// memory, which figures are printed or written beside.
pub(crate) const MEANINGLESS: &[&str] = &[
    "allow_file_create",
    "bwavgtime",
    "buffered",
    "clat_percentiles",
    "clocksource",
    "create_fsync",
    "create_on_open",
    "create_serialize",
    "direct",
    "directory",
    "disable_bw_measurement",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "error_dump",
    "exitall_on_error",
    "fadvise_hint",
    "fallocate",
    "filename",
    "filename_format",
    "file_service_type",
    "fixedbufs",
    "group_reporting",
    "gtod_cpu",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "ioengine",
    "iomem",
    "iomem_align",
    "iopsavgtime",
    "ioscheduler",
    "lat_percentiles",
    "lockfile",
    "log_avg_msec",
    "log_compression",
    "log_hist_msec",
    "log_max_value",
    "log_offset",
    "log_store_compressed",
    "log_unix_epoch",
    "mem",
    "mem_align",
    "new_group",
    "nonvectored",
    "norandommap",
    "openfiles",
    "overwrite",
    "per_job_logs",
    "percentile_list",
    "random_generator",
    "refill_buffers",
    "registerfiles",
    "scramble_buffers",
    "significant_figures",
    "slat_percentiles",
    "softrandommap",
    "sqthread_poll",
    "thread",
    "unit_base",
    "unlink",
    "unlink_each_loop",
    "userspace_reap",
    "verify_dump",
    "verify_fatal",
    "write_bw_log",
    "write_hist_log",
    "write_iops_log",
    "write_lat_log",
];

/// Options of fio's processes, which this program has none of: it is placed by the system, or by --match-hw-queues.
pub(crate) const PLACEMENT: &[&str] = &[
    "cgroup",
    "cgroup_nodelete",
    "cgroup_weight",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "gid",
    "lockmem",
    "log_cpumask",
    "nice",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "prio",
    "prioclass",
    "uid",
    "verify_async_cpus",
];

/// Options that can be had with some values only: those, and why not the others.
pub(crate) const FIXED: &[(&str, &[&str], &str)] = &[
    ("do_verify", &["1", ""], "what was written is always read back"),
    ("end_fsync", &["0"], "fsync=N flushes after every N writes and at the end"),
    ("fsync_on_close", &["0"], "fsync=N flushes after every N writes and at the end"),
    ("iodepth_batch", &["1"], "commands are sent as they are made"),
    ("iodepth_batch_complete", &["1"], "each completion makes room for a command"),
    ("iodepth_batch_complete_min", &["1"], "each completion makes room for a command"),
    ("iodepth_batch_submit", &["1"], "commands are sent as they are made"),
    ("kb_base", &["1024"], "k is 1,024 here"),
    ("loops", &["1"], "give it a runtime and time_based"),
    ("nrfiles", &["1"], "there is one namespace"),
    ("random_distribution", &["random"], "every block comes as often as every other"),
    ("rwmixcycle", &["0"], "reads and writes are drawn one by one"),
    ("sync", &["0", "none"], "use fsync=1 to flush after every write"),
    ("thinktime", &["0"], "use rate_iops to go slower"),
    ("unified_rw_reporting", &["0", "none"], "reads and writes are told apart"),
    ("verify_backlog", &["0"], "what was written is read back at the end"),
    ("zero_buffers", &["0"], "what is written is noise"),
    ("zonemode", &["none"], "there are no zones"),
];

/// Options of jobs that `bench` has by no other name on its command line.
const ALONE: &[&str] = &[
    "allrandrepeat",
    "blocksize",
    "blocksize_range",
    "bsrange",
    "bssplit",
    "create_only",
    "description",
    "fdatasync",
    "name",
    "randrepeat",
    "rwmixwrite",
    "startdelay",
    "stonewall",
    "timeout",
    "wait_for_previous",
];

/// Options that say yes when they stand alone. fio's command line has their values behind `=` only.
const SWITCHES: &[&str] = &[
    "allow_file_create",
    "allrandrepeat",
    "buffered",
    "cgroup_nodelete",
    "clat_percentiles",
    "create_fsync",
    "create_on_open",
    "create_only",
    "create_serialize",
    "direct",
    "disable_bw_measurement",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "do_verify",
    "end_fsync",
    "exitall_on_error",
    "fadvise_hint",
    "fixedbufs",
    "fsync_on_close",
    "group_reporting",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "lat_percentiles",
    "log_max_value",
    "log_offset",
    "log_store_compressed",
    "log_unix_epoch",
    "new_group",
    "nonvectored",
    "norandommap",
    "overwrite",
    "per_job_logs",
    "randrepeat",
    "refill_buffers",
    "registerfiles",
    "scramble_buffers",
    "slat_percentiles",
    "softrandommap",
    "sqthread_poll",
    "stonewall",
    "thread",
    "unlink",
    "unlink_each_loop",
    "userspace_reap",
    "verify_dump",
    "verify_fatal",
    "wait_for_previous",
    "zero_buffers",
];

/// An option of a command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Typed {
    pub(crate) name: &'static str,
    /// Whether a value follows in any case.
    pub(crate) takes_value: bool,
}

/// The options that a command line may have beside those that this program has itself.
pub(crate) fn typed() -> impl Iterator<Item = Typed> {
    let fixed = FIXED.iter().map(|(name, _, _)| name);
    let names = MEANINGLESS.iter().chain(PLACEMENT).chain(ALONE).chain(fixed).copied();
    names.map(|name| Typed { name, takes_value: !SWITCHES.contains(&name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_has_each_option_once() {
        let names: Vec<&str> = typed().map(|typed| typed.name).collect();
        for name in &names {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        assert!(SWITCHES.iter().all(|name| names.contains(name)));
    }
}
