//! Names of fio's options without an effect of their own, in job files and on the command line. The
//! module `fio` interprets the others.

/// Options without effect on a namespace's commands: files, the kernel's interface, memory, printed
/// figures.
pub(crate) const MEANINGLESS: &[&str] = &[
    "allow_file_create",
    "allow_mounted_write",
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
    "iodepth_batch_complete_max",
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

/// Options for the placement of fio's processes. This program has none: the system or
/// --match-hw-queues places its threads.
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

/// Options that are supported with some values only: name, values, and the reason against the
/// others.
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
    ("thinktime", &["0"], "use rate_iops to go slower"),
    ("unified_rw_reporting", &["0", "none"], "reads and writes are reported separately"),
    ("verify_backlog", &["0"], "what was written is read back at the end"),
    ("zero_buffers", &["0"], "what is written is noise"),
    ("zonemode", &["none"], "there are no zones"),
];

/// Options of jobs that `bench` has under no other name on its command line.
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
    "readonly",
    "rwmixwrite",
    "startdelay",
    "stonewall",
    "timeout",
    "wait_for_previous",
];

/// Options of fio's command line about what fio prints while it runs. Job files do not have them.
pub(crate) const PRINTING: &[&str] = &["eta", "eta-interval", "eta-newline", "status-interval"];

/// Switches that are on if they stand alone. fio's command line has their values only after `=`.
const SWITCHES: &[&str] = &[
    "allow_file_create",
    "allow_mounted_write",
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
    "readonly",
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

/// Option of a command line.
#[derive(Clone, Copy, Debug)]
pub struct Typed {
    pub name: &'static str,
    /// True if a value always follows.
    pub(crate) takes_value: bool,
}

/// Returns fio's options that the command line accepts beside this program's own.
pub fn typed() -> impl Iterator<Item = Typed> {
    let fixed = FIXED.iter().map(|(name, _, _)| name);
    let names = MEANINGLESS.iter().chain(PLACEMENT).chain(PRINTING).chain(ALONE).chain(fixed).copied();
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
