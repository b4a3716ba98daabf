//! librados and librbd, found when the program runs: their functions as tables of pointers. Building needs neither.
//! What the functions are good for is their callers'; each of them says why its call is sound.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

#[cfg(feature = "ceph")]
use libloading::Library;

use super::CephError;

/// A connection to a cluster (`rados_t`).
pub(super) type ClusterHandle = *mut c_void;
/// A pool seen from a connection (`rados_ioctx_t`).
pub(super) type PoolHandle = *mut c_void;
/// Operations on an object that take effect together (`rados_write_op_t`, `rados_read_op_t`).
pub(super) type OperationHandle = *mut c_void;
/// Pairs of keys and values that were read (`rados_omap_iter_t`).
pub(super) type PairsHandle = *mut c_void;
/// An open image (`rbd_image_t`).
pub(super) type ImageHandle = *mut c_void;
/// Completion of an operation on an image (`rbd_completion_t`).
pub(super) type CompletionHandle = *mut c_void;
/// Options of a new image (`rbd_image_options_t`).
pub(super) type OptionsHandle = *mut c_void;

/// Called when an operation on an image has ended.
pub(super) type Completed = extern "C" fn(CompletionHandle, *mut c_void);
/// Called when an image's header has changed.
pub(super) type Updated = extern "C" fn(*mut c_void);
/// Called for a notification: argument, its number, cookie, who sent it, its bytes and their count.
pub(super) type Notified = extern "C" fn(*mut c_void, u64, u64, u64, *mut c_void, usize);
/// Called when a watch is lost: argument, cookie, error.
pub(super) type WatchLost = extern "C" fn(*mut c_void, u64, c_int);
/// Called while something long is under way: done, of how much, argument. An answer below 0 ends it.
pub(super) type Progress = extern "C" fn(u64, u64, *mut c_void) -> c_int;

/// The file names that the libraries go by, in the order in which they are tried.
const RADOS_NAMES: [&str; 2] = ["librados.so.2", "librados.so"];
const RBD_NAMES: [&str; 2] = ["librbd.so.1", "librbd.so"];
/// Folders that the system's loader searches (ld.so(8)).
const FOLDERS: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident, $prefix:literal {
        $($name:ident($($argument:ty),*) $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        #[cfg(feature = "ceph")]
        impl $table {
            fn load(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the libraries' headers, whose meaning has been the same since 16.2,
                // and the library is never unloaded, so that the pointers stay good.
                #[allow(unsafe_code)]
                unsafe {
                    Ok(Self { $($name: *library.get(concat!($prefix, stringify!($name)))?,)* })
                }
            }
        }
    };
}

functions! {
    /// Functions of librados that are used.
    Rados, "rados_" {
        create2(*mut ClusterHandle, *const c_char, *const c_char, u64) -> c_int;
        conf_read_file(ClusterHandle, *const c_char) -> c_int;
        conf_parse_env(ClusterHandle, *const c_char) -> c_int;
        conf_parse_argv(ClusterHandle, c_int, *const *const c_char) -> c_int;
        conf_set(ClusterHandle, *const c_char, *const c_char) -> c_int;
        conf_get(ClusterHandle, *const c_char, *mut c_char, usize) -> c_int;
        connect(ClusterHandle) -> c_int;
        shutdown(ClusterHandle);
        cluster_fsid(ClusterHandle, *mut c_char, usize) -> c_int;
        getaddrs(ClusterHandle, *mut *mut c_char) -> c_int;
        buffer_free(*mut c_char);
        wait_for_latest_osdmap(ClusterHandle) -> c_int;
        blocklist_add(ClusterHandle, *mut c_char, u32) -> c_int;
        ioctx_create(ClusterHandle, *const c_char, *mut PoolHandle) -> c_int;
        ioctx_set_namespace(PoolHandle, *const c_char);
        ioctx_get_id(PoolHandle) -> i64;
        ioctx_destroy(PoolHandle);
        create_write_op() -> OperationHandle;
        release_write_op(OperationHandle);
        write_op_create(OperationHandle, c_int, *const c_char);
        write_op_omap_cmp(OperationHandle, *const c_char, u8, *const c_char, usize, *mut c_int);
        write_op_omap_set(OperationHandle, *const *const c_char, *const *const c_char, *const usize, usize);
        write_op_omap_rm_keys(OperationHandle, *const *const c_char, usize);
        write_op_remove(OperationHandle);
        write_op_operate(OperationHandle, PoolHandle, *const c_char, *mut libc::time_t, c_int) -> c_int;
        create_read_op() -> OperationHandle;
        release_read_op(OperationHandle);
        read_op_omap_get_vals2(
            OperationHandle, *const c_char, *const c_char, u64, *mut PairsHandle, *mut u8, *mut c_int
        );
        read_op_operate(OperationHandle, PoolHandle, *const c_char, c_int) -> c_int;
        omap_get_next2(
            PairsHandle, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize
        ) -> c_int;
        omap_get_end(PairsHandle);
        watch2(PoolHandle, *const c_char, *mut u64, Notified, WatchLost, *mut c_void) -> c_int;
        unwatch2(PoolHandle, u64) -> c_int;
        watch_flush(ClusterHandle) -> c_int;
        notify2(
            PoolHandle, *const c_char, *const c_char, c_int, u64, *mut *mut c_char, *mut usize
        ) -> c_int;
        notify_ack(PoolHandle, *const c_char, u64, u64, *const c_char, c_int) -> c_int;
    }
}

functions! {
    /// Functions of librbd that are used.
    Rbd, "rbd_" {
        open(PoolHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int;
        open_read_only(PoolHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int;
        close(ImageHandle) -> c_int;
        get_id(ImageHandle, *mut c_char, usize) -> c_int;
        encryption_load(ImageHandle, c_int, *const c_void, usize) -> c_int;
        get_size(ImageHandle, *mut u64) -> c_int;
        get_features(ImageHandle, *mut u64) -> c_int;
        stat(ImageHandle, *mut ImageInfo, usize) -> c_int;
        is_exclusive_lock_owner(ImageHandle, *mut c_int) -> c_int;
        lock_acquire(ImageHandle, c_int) -> c_int;
        lock_release(ImageHandle) -> c_int;
        lock_get_owners(ImageHandle, *mut c_int, *mut *mut c_char, *mut usize) -> c_int;
        lock_get_owners_cleanup(*mut *mut c_char, usize);
        list_lockers(
            ImageHandle, *mut c_int, *mut c_char, *mut usize, *mut c_char, *mut usize, *mut c_char, *mut usize,
            *mut c_char, *mut usize
        ) -> isize;
        update_watch(ImageHandle, *mut u64, Updated, *mut c_void) -> c_int;
        update_unwatch(ImageHandle, u64) -> c_int;
        aio_create_completion(*mut c_void, Completed, *mut CompletionHandle) -> c_int;
        aio_get_return_value(CompletionHandle) -> isize;
        aio_release(CompletionHandle);
        aio_read(ImageHandle, u64, usize, *mut c_char, CompletionHandle) -> c_int;
        aio_write(ImageHandle, u64, usize, *const c_char, CompletionHandle) -> c_int;
        aio_discard(ImageHandle, u64, u64, CompletionHandle) -> c_int;
        aio_write_zeroes(ImageHandle, u64, usize, CompletionHandle, c_int, c_int) -> c_int;
        aio_flush(ImageHandle, CompletionHandle) -> c_int;
        image_options_create(*mut OptionsHandle);
        image_options_destroy(OptionsHandle);
        image_options_set_string(OptionsHandle, c_int, *const c_char) -> c_int;
        image_options_set_uint64(OptionsHandle, c_int, u64) -> c_int;
        features_from_string(*const c_char, *mut u64) -> c_int;
        create4(PoolHandle, *const c_char, u64, OptionsHandle) -> c_int;
        remove(PoolHandle, *const c_char) -> c_int;
        resize2(ImageHandle, u64, bool, Progress, *mut c_void) -> c_int;
        snap_create(ImageHandle, *const c_char) -> c_int;
        snap_remove(ImageHandle, *const c_char) -> c_int;
        snap_get_id(ImageHandle, *const c_char, *mut u64) -> c_int;
        snap_list(ImageHandle, *mut SnapshotInfo, *mut c_int) -> c_int;
        snap_list_end(*mut SnapshotInfo);
        watchers_list(ImageHandle, *mut Watcher, *mut usize) -> c_int;
        watchers_list_cleanup(*mut Watcher, usize);
        trash_move(PoolHandle, *const c_char, u64) -> c_int;
        clone3(PoolHandle, *const c_char, *const c_char, PoolHandle, *const c_char, OptionsHandle) -> c_int;
        flatten_with_progress(ImageHandle, Progress, *mut c_void) -> c_int;
    }
}

/// Sizes and names of an image (`rbd_image_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ImageInfo {
    pub(super) size: u64,
    pub(super) object_size: u64,
    pub(super) object_count: u64,
    pub(super) order: c_int,
    pub(super) block_name_prefix: [c_char; 24],
    pub(super) parent_pool: i64,
    pub(super) parent_name: [c_char; 96],
}

/// Parameters of decryption of an image (`rbd_encryption_luks1_format_options_t`, and that of
/// LUKS2, which is the same).
#[repr(C)]
pub(super) struct LuksOptions {
    /// Says nothing where an image has a format already.
    pub(super) algorithm: c_int,
    pub(super) passphrase: *const c_char,
    pub(super) passphrase_size: usize,
}

/// A snapshot of an image (`rbd_snap_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SnapshotInfo {
    pub(super) id: u64,
    pub(super) size: u64,
    pub(super) name: *const c_char,
}

/// A client that has an image open for writing (`rbd_image_watcher_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Watcher {
    pub(super) address: *mut c_char,
    pub(super) client: i64,
    pub(super) cookie: u64,
}

/// Both libraries.
pub(super) struct Libraries {
    pub(super) rados: Rados,
    pub(super) rbd: Rbd,
}

/// Reason for which the libraries are not loaded.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    /// Refusal of the loader.
    #[cfg(feature = "ceph")]
    #[error("{0}")]
    Loader(String),
    /// Function that an older library lacks.
    #[cfg(feature = "ceph")]
    #[error("too old, 16.2 or later is needed: {0}")]
    TooOld(String),
    /// Build without Ceph.
    #[cfg(not(feature = "ceph"))]
    #[error("this program was built without Ceph")]
    NotBuilt,
    /// Order of this program.
    #[error("{0}")]
    LeftOut(String),
}

static LOADED: OnceLock<Result<Libraries, LoadError>> = OnceLock::new();

/// Keeps them from being loaded from here on; uses fail with `reason`.
pub(in crate::ceph) fn leave_out(reason: &str) {
    drop(LOADED.set(Err(LoadError::LeftOut(reason.to_owned()))));
}

/// Both libraries, loaded when first asked for.
pub(super) fn libraries() -> Result<&'static Libraries, CephError> {
    let loaded = LOADED.get_or_init(load_both);
    loaded.as_ref().map_err(|error| CephError::Library { reason: error.to_string() })
}

#[cfg(feature = "ceph")]
fn load_both() -> Result<Libraries, LoadError> {
    let rados = load(&RADOS_NAMES)?;
    let rbd = load(&RBD_NAMES)?;
    let missing = |error: libloading::Error| LoadError::TooOld(error.to_string());
    Ok(Libraries { rados: Rados::load(rados).map_err(missing)?, rbd: Rbd::load(rbd).map_err(missing)? })
}

#[cfg(not(feature = "ceph"))]
fn load_both() -> Result<Libraries, LoadError> {
    Err(LoadError::NotBuilt)
}

/// Loads the first of these that is there. It stays for as long as the process does.
#[cfg(feature = "ceph")]
fn load(names: &[&str]) -> Result<&'static Library, LoadError> {
    let mut reason = String::new();
    for name in names {
        // SAFETY: loading runs the library's initializers; librados and librbd are made to be loaded so.
        #[allow(unsafe_code)]
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) if reason.is_empty() => reason = error.to_string(),
            Err(_) => {}
        }
    }
    Err(LoadError::Loader(reason))
}

/// True if they are in one of the usual folders. They are not loaded for that.
pub(in crate::ceph) fn are_installed() -> bool {
    let within = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        // Distributions have a folder for each architecture (/usr/lib/x86_64-linux-gnu).
        let inner = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        inner.chain([PathBuf::from(folder)]).any(|folder| folder.join(RADOS_NAMES[0]).exists())
    };
    let chosen = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let chosen = chosen.split(':').filter(|folder| !folder.is_empty());
    let is_left_out = LOADED.get().is_some_and(Result::is_err);
    cfg!(feature = "ceph") && !is_left_out && FOLDERS.into_iter().chain(chosen).any(within)
}
