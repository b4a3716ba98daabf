//! A connection to a cluster: how it is made, who it is for the cluster, and what it can do to others' connections.
//! Objects and images are reached through its pools.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::c_string::{string_in, text};
use super::error::answer;
use super::library::{ClusterHandle, Libraries, libraries};
use super::{CephError, ClusterOptions, Lateness};
use crate::limits::{
    CEPH_BYTES_PENDING_MAX, CEPH_CONNECTION_THREADS, CEPH_FENCES_AT_ONCE, CEPH_OPERATIONS_PENDING_MAX,
};
use crate::ring::core;

/// A connection to a cluster. It ends when the last pool that uses it is gone.
pub struct Cluster {
    handle: ClusterHandle,
    libraries: &'static Libraries,
    options: ClusterOptions,
    lateness: Lateness,
}

// SAFETY: a `rados_t` may be used from any thread at the same time; the library locks inside.
#[allow(unsafe_code)]
unsafe impl Send for Cluster {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Cluster {}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects, within the time that the options give.
    ///
    /// # Errors
    /// When the libraries, the configuration, the monitors or the key are not available: each says which, and what to check.
    pub fn connect(options: &ClusterOptions) -> Result<Arc<Self>, CephError> {
        Self::connect_within(options, options.connect_timeout_ms)
    }

    /// The same within another time, in milliseconds, that counts for connecting alone.
    ///
    /// # Errors
    /// As above.
    pub fn connect_within(options: &ClusterOptions, timeout_ms: u64) -> Result<Arc<Self>, CephError> {
        let libraries = libraries()?;
        // The library's threads inherit the processors of the thread that starts them.
        let connect = || {
            if !options.cpus.is_empty()
                && let Err(error) = core::keep_on(&options.cpus)
            {
                tracing::warn!(%error, "cannot set the CPU affinity of librados threads");
            }
            Self::connect_here(libraries, options, timeout_ms)
        };
        let joined = thread::scope(|scope| {
            thread::Builder::new()
                .name("ceph-connect".to_owned())
                .spawn_scoped(scope, connect)
                .map(|t| t.join())
        });
        let failed = |source| CephError::Connect { id: options.id().to_owned(), source };
        let outcome = joined.map_err(failed)?;
        outcome.map_err(|_| failed(io::Error::other("the connecting thread ended")))?.map(Arc::new)
    }

    fn connect_here(
        libraries: &'static Libraries,
        options: &ClusterOptions,
        timeout_ms: u64,
    ) -> Result<Self, CephError> {
        let cluster = Self::configured(libraries, options)?;
        let timeout_s = timeout_ms.div_ceil(1000).max(1);
        cluster.set("client_mount_timeout", &timeout_s.to_string())?;
        // SAFETY: the handle was created there and is not connected yet.
        #[allow(unsafe_code)]
        let connected = unsafe { (libraries.rados.connect)(cluster.handle) };
        answer(connected).map_err(|error| cluster.explain(error, timeout_s))?;
        Ok(cluster)
    }

    /// A connection that is configured and not connected yet.
    fn configured(libraries: &'static Libraries, options: &ClusterOptions) -> Result<Self, CephError> {
        let failed = |source| CephError::Connect { id: options.id().to_owned(), source };
        let mut handle = ptr::null_mut();
        let name = text(&format!("client.{}", options.id()))?;
        // SAFETY: the strings end with 0 and outlive the call, which writes the handle.
        #[allow(unsafe_code)]
        let created =
            unsafe { (libraries.rados.create2)(&raw mut handle, c"ceph".as_ptr(), name.as_ptr(), 0) };
        answer(created).map_err(failed)?;
        let cluster = Self { handle, libraries, options: options.clone(), lateness: Lateness::default() };
        cluster.set_defaults()?;
        cluster.read_configuration()?;
        cluster.set_all()?;
        Ok(cluster)
    }

    /// Has other defaults than Ceph's own where those are worse for a gateway. They yield to whatever says something else: the
    /// file, CEPH_ARGS, and the configuration that the monitors keep.
    fn set_defaults(&self) -> Result<(), CephError> {
        let (name, value) = ("librados_thread_count", CEPH_CONNECTION_THREADS.to_string());
        let default = text(&format!("--default-{name}={value}"))?;
        // The first word is the program, as everywhere.
        let words = [c"selvedge".as_ptr(), default.as_ptr()];
        // SAFETY: the words end with 0 and outlive the call, which is given their number.
        #[allow(unsafe_code)]
        let parsed = unsafe {
            (self.libraries.rados.conf_parse_argv)(self.handle, words.len() as c_int, words.as_ptr())
        };
        answer(parsed).map(drop).map_err(|source| CephError::Setting { name: name.to_owned(), value, source })
    }

    fn read_configuration(&self) -> Result<(), CephError> {
        let path = self.options.conf.as_ref().map(|path| text(&path.display().to_string())).transpose()?;
        let pointer = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: no path means the usual places; else it ends with 0 and outlives the call.
        #[allow(unsafe_code)]
        let read = unsafe { (self.libraries.rados.conf_read_file)(self.handle, pointer) };
        answer(read).map_err(|source| CephError::Configuration { file: self.file(), source })?;
        // SAFETY: no name means the usual CEPH_ARGS.
        #[allow(unsafe_code)]
        let parsed = unsafe { (self.libraries.rados.conf_parse_env)(self.handle, ptr::null()) };
        answer(parsed).map_err(|source| CephError::Configuration { file: "CEPH_ARGS".to_owned(), source })?;
        Ok(())
    }

    fn file(&self) -> String {
        let conf = self.options.conf.as_ref();
        conf.map_or_else(|| "/etc/ceph/ceph.conf".to_owned(), |path| path.display().to_string())
    }

    fn set_all(&self) -> Result<(), CephError> {
        let connect_s = self.connect_timeout_s().to_string();
        let operation_s = self.options.operation_timeout_ms.div_ceil(1000).to_string();
        self.set("rados_mon_op_timeout", &connect_s)?;
        self.set("rados_osd_op_timeout", &operation_s)?;
        // A failure is reported by the caller, in the caller's words.
        self.set("log_to_stderr", "false")?;
        self.set("err_to_stderr", "false")?;
        // A write that was acknowledged to a host has to be where a new process finds it after this
        // one.
        self.set("rbd_cache", "false")?;
        // Over these the library makes the caller wait, which would be a reactor; connections have limits of their own.
        self.set("objecter_inflight_ops", &CEPH_OPERATIONS_PENDING_MAX.to_string())?;
        self.set("objecter_inflight_op_bytes", &CEPH_BYTES_PENDING_MAX.to_string())
    }

    /// Without a limit the library would wait forever.
    fn connect_timeout_s(&self) -> u64 {
        self.options.connect_timeout_ms.div_ceil(1000).max(1)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), CephError> {
        let (option, wanted) = (text(name)?, text(value)?);
        // SAFETY: both end with 0 and outlive the call.
        #[allow(unsafe_code)]
        let set = unsafe { (self.libraries.rados.conf_set)(self.handle, option.as_ptr(), wanted.as_ptr()) };
        answer(set).map(drop).map_err(|source| CephError::Setting {
            name: name.to_owned(),
            value: value.to_owned(),
            source,
        })
    }

    /// The value of an option of the library, empty when it has none.
    pub fn setting(&self, name: &str) -> String {
        let mut value = [0; 4096];
        let Ok(option) = text(name) else { return String::new() };
        // SAFETY: the name ends with 0, and the library writes no more than the length, with a 0 at the end.
        #[allow(unsafe_code)]
        let length = unsafe {
            (self.libraries.rados.conf_get)(self.handle, option.as_ptr(), value.as_mut_ptr(), value.len())
        };
        if length < 0 { String::new() } else { string_in(&value) }
    }

    /// Why connecting failed.
    fn explain(&self, source: io::Error, seconds: u64) -> CephError {
        let id = self.options.id().to_owned();
        match source.raw_os_error() {
            Some(libc::ETIMEDOUT) => CephError::NoMonitor { monitors: self.setting("mon_host"), seconds },
            Some(libc::ENOENT) => CephError::NoKey { id, keyring: self.setting("keyring") },
            Some(libc::EACCES | libc::EPERM) => {
                CephError::WrongKey { id, keyring: self.setting("keyring"), source }
            }
            _ => CephError::Connect { id, source },
        }
    }

    /// Identifier of the cluster.
    pub fn fsid(&self) -> String {
        let mut value = [0; 64];
        // SAFETY: the library writes no more than the length, with a 0 at the end.
        #[allow(unsafe_code)]
        let length =
            unsafe { (self.libraries.rados.cluster_fsid)(self.handle, value.as_mut_ptr(), value.len()) };
        if length < 0 { String::new() } else { string_in(&value) }
    }

    /// The addresses by which the cluster knows this connection, as [`Self::blocklist`] takes them.
    ///
    /// # Errors
    /// When the library does not know them.
    pub fn address(&self) -> Result<String, CephError> {
        let mut addresses: *mut c_char = ptr::null_mut();
        // SAFETY: it writes a pointer to a string of its own, which is given back below.
        #[allow(unsafe_code)]
        let code = unsafe { (self.libraries.rados.getaddrs)(self.handle, &raw mut addresses) };
        answer(code).map_err(|source| self.failed("asking for the address of", "this connection", source))?;
        // SAFETY: the call succeeded, so it is a string with a 0 at the end, which has no other
        // owner.
        #[allow(unsafe_code)]
        unsafe {
            let address = CStr::from_ptr(addresses).to_string_lossy().into_owned();
            (self.libraries.rados.buffer_free)(addresses);
            Ok(address)
        }
    }

    /// Forbids the connection with this address everything in the cluster, for `seconds`. What it has sent and is not done
    /// is not done either, once the cluster's members know; [`Self::wait_for_latest_map`] of the next owner makes sure that
    /// they do before it writes.
    ///
    /// # Errors
    /// When the monitors refuse, or do not answer.
    pub fn blocklist(&self, address: &str, seconds: u32) -> Result<(), CephError> {
        let wanted = text(address)?;
        // The library's type is not const, though it only reads.
        // SAFETY: it ends with 0 and outlives the call.
        #[allow(unsafe_code)]
        let code =
            unsafe { (self.libraries.rados.blocklist_add)(self.handle, wanted.as_ptr().cast_mut(), seconds) };
        answer(code).map(drop).map_err(|source| self.failed("blocklisting", address, source))
    }

    /// The same for several connections, all of which are tried.
    ///
    /// # Errors
    /// One of those that there were, when not all went well.
    pub fn blocklist_all(&self, addresses: &[&str], seconds: u32) -> Result<(), CephError> {
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            while let Some(address) = addresses.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.blocklist(address, seconds) {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..addresses.len().min(CEPH_FENCES_AT_ONCE) {
                scope.spawn(work);
            }
            work();
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Waits until this connection works by the newest map of the cluster, the blocklist included.
    ///
    /// # Errors
    /// When the monitors do not answer.
    pub fn wait_for_latest_map(&self) -> Result<(), CephError> {
        // SAFETY: the handle is connected.
        #[allow(unsafe_code)]
        let code: c_int = unsafe { (self.libraries.rados.wait_for_latest_osdmap)(self.handle) };
        answer(code)
            .map(drop)
            .map_err(|source| self.failed("waiting for", "the cluster's newest map", source))
    }

    /// Options of the connection.
    pub const fn options(&self) -> &ClusterOptions {
        &self.options
    }

    pub(in crate::ceph) const fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    pub(super) const fn handle(&self) -> ClusterHandle {
        self.handle
    }

    pub(super) const fn libraries(&self) -> &'static Libraries {
        self.libraries
    }

    /// An error of the library's, with what was tried.
    pub(super) fn failed(&self, what: &'static str, name: &str, source: io::Error) -> CephError {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                CephError::Forbidden { what, name, id: self.options.id().to_owned(), source }
            }
            _ => CephError::Failed { what, name, source },
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: the handle has no other user now, since pools and images keep the cluster.
        #[allow(unsafe_code)]
        unsafe {
            (self.libraries.rados.shutdown)(self.handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use prerequisite::missing;

    use super::*;

    #[test]
    fn a_late_connection_is_looked_after_by_one() {
        let Ok(libraries) = libraries() else {
            return missing("librados or librbd is not installed");
        };
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("ceph.conf");
        std::fs::write(&conf, "").unwrap();
        let options = ClusterOptions { conf: Some(conf), ..ClusterOptions::default() };
        let cluster = Cluster::configured(libraries, &options).unwrap();
        assert!(!cluster.take_late() && !cluster.has_been_late());
        assert!(cluster.note_late() && !cluster.note_late());
        assert!(cluster.take_late() && !cluster.take_late());
        assert!(!cluster.note_late(), "it is looked after");
        cluster.note_punctual();
        assert!(cluster.has_been_late(), "what was late may be carried out yet");
        assert!(cluster.note_late() && cluster.take_late());
        cluster.note_shut_out();
        assert!(cluster.is_shut_out() && !cluster.note_late() && !cluster.take_late());
    }

    #[test]
    fn the_file_wins_over_our_defaults() {
        let Ok(libraries) = libraries() else {
            return missing("librados or librbd is not installed");
        };
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("ceph.conf");
        let options = ClusterOptions { conf: Some(conf.clone()), ..ClusterOptions::default() };
        let threads = |text: &str| {
            std::fs::write(&conf, text).unwrap();
            Cluster::configured(libraries, &options).unwrap().setting("librados_thread_count")
        };
        assert_eq!(threads("[global]\n"), CEPH_CONNECTION_THREADS.to_string());
        // Its own default, too, may be asked for.
        assert_eq!(threads("[global]\nlibrados_thread_count = 2\n"), "2");
        assert_eq!(threads("[client]\nlibrados thread count = 3\n"), "3");
    }
}
