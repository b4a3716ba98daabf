//! fio's engines by name: which of them read and write the blocks of a disk, as this program does, and which do not.

/// Kind of an engine's jobs in fio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Reads and writes of files or block devices.
    Disk,
    /// Reads and writes of files or block devices, with one command at a time at any depth.
    DiskInStep,
    /// Reads and writes of a storage that other options of the engine name.
    OtherStorage,
    /// No reads and writes of stored data: the words say what instead.
    NoData(&'static str),
    /// None that fio has.
    Unknown,
}

/// The engine of jobs that name none.
pub(super) const ENGINE_DEFAULT: &str = "psync";

const DISK: &[&str] = &[
    "io_uring",
    "io_uring_cmd",
    "libaio",
    "libblkio",
    "posixaio",
    "sg",
    "solarisaio",
    "windowsaio",
    "xnvme",
];

const DISK_IN_STEP: &[&str] =
    &["libcufile", "libhipfile", "mmap", "psync", "pvsync", "pvsync2", "splice", "sync", "vsync"];

const OTHER_STORAGE: &[&str] = &[
    "dev-dax",
    "dfs",
    "gfapi",
    "gfapi_async",
    "http",
    "ime_aio",
    "ime_psync",
    "ime_psyncv",
    "libhdfs",
    "libiscsi",
    "libpmem",
    "libzbc",
    "mtd",
    "nbd",
    "nfs",
    "pmemblk",
    "rados",
    "rbd",
];

const NO_DATA: &[(&str, &str)] = &[
    ("cpp_null", "it transfers nothing"),
    ("cpuio", "it burns processor time"),
    ("dircreate", "it creates folders"),
    ("dirdelete", "it deletes folders"),
    ("dirstat", "it looks folders up"),
    ("e4defrag", "it moves a file's blocks within ext4"),
    ("exec", "it runs another program"),
    ("falloc", "it allocates and frees space of files"),
    ("filecreate", "it creates files"),
    ("filedelete", "it deletes files"),
    ("filestat", "it looks files up"),
    ("ftruncate", "it changes the length of files"),
    ("net", "it sends and receives over the network"),
    ("netsplice", "it sends and receives over the network"),
    ("null", "it transfers nothing"),
    ("page_fault", "it touches pages of memory"),
    ("rdma", "it sends and receives over RDMA"),
];

impl Engine {
    pub(super) fn of(name: &str) -> Self {
        // SPDK's plugin is loaded as `spdk`, or from its file.
        let file = name.strip_prefix("external:").map(|path| path.rsplit('/').next().unwrap_or(path));
        match file.unwrap_or(name) {
            "spdk" | "spdk_nvme" | "spdk_bdev" => Self::Disk,
            disk if DISK.contains(&disk) => Self::Disk,
            disk if DISK_IN_STEP.contains(&disk) => Self::DiskInStep,
            other if OTHER_STORAGE.contains(&other) => Self::OtherStorage,
            name => match NO_DATA.iter().find(|(engine, _)| *engine == name) {
                Some((_, what)) => Self::NoData(what),
                None => Self::Unknown,
            },
        }
    }

    /// Why its jobs cannot be run as fio runs them.
    pub(super) fn refusal(self) -> Option<String> {
        match self {
            Self::Disk | Self::DiskInStep => None,
            Self::OtherStorage => Some("it reads and writes a storage of its own, not a disk".to_owned()),
            Self::NoData(what) => Some(format!("it reads and writes no data ({what})")),
            Self::Unknown => Some("fio has no such engine that reads and writes a disk".to_owned()),
        }
    }

    /// True if the engine's jobs are known to read and write data. Others are never run.
    pub(super) const fn moves_data(self) -> bool {
        matches!(self, Self::Disk | Self::DiskInStep | Self::OtherStorage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_what_they_do() {
        for (name, engine) in [
            ("libaio", Engine::Disk),
            ("external:/opt/spdk/build/fio/spdk_nvme", Engine::Disk),
            ("spdk", Engine::Disk),
            (ENGINE_DEFAULT, Engine::DiskInStep),
            ("splice", Engine::DiskInStep),
            ("rbd", Engine::OtherStorage),
            ("null", Engine::NoData("it transfers nothing")),
            ("libiao", Engine::Unknown),
            ("external:./mine.so", Engine::Unknown),
        ] {
            assert_eq!(Engine::of(name), engine, "{name}");
            let is_disk = matches!(engine, Engine::Disk | Engine::DiskInStep);
            assert_eq!(engine.refusal().is_none(), is_disk, "{name}");
        }
        assert!(Engine::of("rbd").moves_data() && !Engine::of("ftruncate").moves_data());
        assert!(!Engine::of("libiao").moves_data());
    }

    #[test]
    fn each_engine_stands_in_one_list() {
        let no_data = NO_DATA.iter().map(|(name, _)| name);
        let all: Vec<_> = DISK.iter().chain(DISK_IN_STEP).chain(OTHER_STORAGE).chain(no_data).collect();
        for name in &all {
            assert_eq!(all.iter().filter(|other| other == &name).count(), 1, "{name}");
        }
    }
}
