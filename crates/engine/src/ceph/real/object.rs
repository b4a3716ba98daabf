//! An object in a pool, as pairs of keys and values (its omap) that are read together and changed together.
//! What the pairs mean is others' business, and so is who may change them: a change says what it relies on.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::ptr;
use std::sync::Arc;

use super::c_string::text;
use super::error::answer;
use super::library::{OperationHandle, PairsHandle, PoolHandle, Rados};
use super::{CephError, ObjectChange, Pairs, Pool};
use crate::limits::CEPH_PAIRS_MAX;

/// `LIBRADOS_CREATE_EXCLUSIVE`, `LIBRADOS_CREATE_IDEMPOTENT` and `LIBRADOS_CMPXATTR_OP_EQ`.
const CREATE_EXCLUSIVE: c_int = 1;
const CREATE_IDEMPOTENT: c_int = 0;
const COMPARE_EQUAL: u8 = 1;

/// An object, which need not be there.
#[derive(Clone, Debug)]
pub struct Object {
    pool: Arc<Pool>,
    name: CString,
}

impl Object {
    /// The object with this name.
    ///
    /// # Errors
    /// When the name has a 0 in it.
    pub fn new(pool: Arc<Pool>, name: &str) -> Result<Self, CephError> {
        let name = text(name)?;
        Ok(Self { pool, name })
    }

    /// The pool it is in.
    pub const fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Pairs whose keys begin with `prefix`, as they are at one moment; `None` if there is no such
    /// object.
    ///
    /// # Errors
    /// When the cluster does not answer in time or refuses, or there are more than `limits::CEPH_PAIRS_MAX`.
    pub fn pairs(&self, prefix: &str) -> Result<Option<Pairs>, CephError> {
        match self.part(c"", &text(prefix)?)? {
            Some((_, true)) => {
                Err(self.failed("reading", io::Error::other("it has more pairs than Selvedge writes")))
            }
            part => Ok(part.map(|(pairs, _)| pairs)),
        }
    }

    /// All its pairs, for objects that others make and that may have more than one read gives. They are read in parts, so
    /// that they may be of several moments: who minds that looks for what tells one from another.
    ///
    /// # Errors
    /// When the cluster does not answer in time or refuses, or there are more than `pairs_max`.
    pub fn all_pairs(&self, pairs_max: usize) -> Result<Option<Pairs>, CephError> {
        let mut all = Pairs::new();
        loop {
            let after = text(all.last_key_value().map_or("", |(key, _)| key))?;
            let Some((part, more)) = self.part(&after, c"")? else { return Ok(None) };
            let is_at_end = part.is_empty();
            all.extend(part);
            if all.len() > pairs_max {
                let error = io::Error::other(format!("it has more than {pairs_max} pairs"));
                return Err(self.failed("reading", error));
            }
            match (more, is_at_end) {
                (false, _) => return Ok(Some(all)),
                (true, false) => {}
                (true, true) => {
                    let error = io::Error::other("the cluster announces more pairs, and returns none");
                    return Err(self.failed("reading", error));
                }
            }
        }
    }

    /// Pairs after a key, as many as one read gives, and true if there are more.
    fn part(&self, after: &CStr, prefix: &CStr) -> Result<Option<(Pairs, bool)>, CephError> {
        let mut read = Read::new(self.rados());
        read.begin(after, prefix);
        let code = read.operate(self.pool.handle(), &self.name);
        match answer(code).and_then(|_| answer(read.outcome)) {
            Ok(_) => Ok(Some((read.pairs(), read.more != 0))),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(self.failed("reading", error)),
        }
    }

    /// Makes a change. `false` means that the object is not as the change relies on, and nothing has happened.
    ///
    /// # Errors
    /// When the cluster does not answer in time, or refuses. The change may have happened, or happen yet.
    pub fn change(&self, change: &ObjectChange) -> Result<bool, CephError> {
        let mut write = Write::new(self.rados());
        if change.exclusive {
            write.create(CREATE_EXCLUSIVE);
        } else if change.relies_on.is_empty() {
            write.create(CREATE_IDEMPOTENT);
        }
        for (key, value) in &change.relies_on {
            write.compare(text(key)?, value);
        }
        write.set(&change.set)?;
        write.remove(&change.remove)?;
        if change.deletes {
            write.delete();
        }
        match answer(write.operate(self.pool.handle(), &self.name)) {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ECANCELED | libc::EEXIST | libc::ENOENT)) =>
            {
                Ok(false)
            }
            Err(error) => Err(self.failed("changing", error)),
        }
    }

    /// Tells those who watch it, and waits until they have heard of it, for `timeout_ms` at most.
    ///
    /// # Errors
    /// When one of them did not say that it has, or the cluster does not answer.
    pub fn notify(&self, timeout_ms: u64) -> Result<(), CephError> {
        let (mut replies, mut length): (*mut c_char, usize) = (ptr::null_mut(), 0);
        // SAFETY: the name ends with 0 and outlives the call, there are no bytes to be sent, and
        // the call writes a pointer and a length, or leaves the null that is there.
        #[allow(unsafe_code)]
        let code = unsafe {
            (self.rados().notify2)(
                self.pool.handle(),
                self.name.as_ptr(),
                ptr::null(),
                0,
                timeout_ms,
                &raw mut replies,
                &raw mut length,
            )
        };
        if !replies.is_null() {
            // SAFETY: the library allocated it for us, and it has no other user now.
            #[allow(unsafe_code)]
            unsafe {
                (self.rados().buffer_free)(replies);
            }
        }
        answer(code).map(drop).map_err(|error| self.failed("notifying its watchers", error))
    }

    pub(super) const fn name(&self) -> &CString {
        &self.name
    }

    pub(super) fn rados(&self) -> &'static Rados {
        &self.pool.cluster().libraries().rados
    }

    pub(super) fn failed(&self, what: &'static str, source: io::Error) -> CephError {
        let name = format!("object {} in {}", self.name.to_string_lossy(), self.pool.name());
        self.pool.cluster().failed(what, &name, source)
    }
}

/// A read of pairs under way. What the library writes to lies in here, and stays where it is until that is over.
struct Read {
    rados: &'static Rados,
    operation: OperationHandle,
    pairs: PairsHandle,
    more: u8,
    outcome: c_int,
}

impl Read {
    fn new(rados: &'static Rados) -> Box<Self> {
        // SAFETY: it makes a new operation, which `drop` releases.
        #[allow(unsafe_code)]
        let operation = unsafe { (rados.create_read_op)() };
        Box::new(Self { rados, operation, pairs: ptr::null_mut(), more: 0, outcome: 0 })
    }

    fn begin(&mut self, after: &CStr, prefix: &CStr) {
        // SAFETY: the strings end with 0 and are copied; what is written to lies in a box that outlives the operation.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.read_op_omap_get_vals2)(
                self.operation,
                after.as_ptr(),
                prefix.as_ptr(),
                CEPH_PAIRS_MAX,
                &raw mut self.pairs,
                &raw mut self.more,
                &raw mut self.outcome,
            );
        }
    }

    fn operate(&self, pool: PoolHandle, name: &CString) -> i32 {
        // SAFETY: operation and pool are open, and the name ends with 0 and outlives the call, which waits for the end.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.read_op_operate)(self.operation, pool, name.as_ptr(), 0)
        }
    }

    /// Pairs that were read. Keys that are not text are not this program's, and left out.
    fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        for _ in 0..CEPH_PAIRS_MAX {
            let (mut key, mut value): (*mut c_char, *mut c_char) = (ptr::null_mut(), ptr::null_mut());
            let (mut key_length, mut value_length) = (0, 0);
            // SAFETY: the operation has ended well, so there are pairs; the call writes pointers and lengths.
            #[allow(unsafe_code)]
            let code = unsafe {
                (self.rados.omap_get_next2)(
                    self.pairs,
                    &raw mut key,
                    &raw mut value,
                    &raw mut key_length,
                    &raw mut value_length,
                )
            };
            if code < 0 || key.is_null() {
                break;
            }
            if let Ok(key) = String::from_utf8(bytes(key, key_length)) {
                pairs.insert(key, bytes(value, value_length));
            }
        }
        pairs
    }
}

/// A copy of what the library has shown.
fn bytes(from: *const c_char, length: usize) -> Vec<u8> {
    if from.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: the library has just said that this number of bytes is there, and they stay until its iterator is ended.
    #[allow(unsafe_code)]
    unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) }.to_vec()
}

impl Drop for Read {
    fn drop(&mut self) {
        // SAFETY: the operation has ended, or has never begun, and these have no other user.
        #[allow(unsafe_code)]
        unsafe {
            if !self.pairs.is_null() {
                (self.rados.omap_get_end)(self.pairs);
            }
            (self.rados.release_read_op)(self.operation);
        }
    }
}

/// A write under way, with the keys that the library may look at until it is released.
struct Write {
    rados: &'static Rados,
    operation: OperationHandle,
    keys: Vec<CString>,
}

impl Write {
    fn new(rados: &'static Rados) -> Self {
        // SAFETY: it makes a new operation, which `drop` releases.
        #[allow(unsafe_code)]
        let operation = unsafe { (rados.create_write_op)() };
        Self { rados, operation, keys: Vec::new() }
    }

    fn create(&self, how: c_int) {
        // SAFETY: the operation is open, and no category means none.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.write_op_create)(self.operation, how, ptr::null());
        }
    }

    fn compare(&mut self, key: CString, value: &[u8]) {
        // SAFETY: key and value outlive the call, which copies them; the outcome of this part alone
        // is not requested.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.write_op_omap_cmp)(
                self.operation,
                key.as_ptr(),
                COMPARE_EQUAL,
                value.as_ptr().cast(),
                value.len(),
                ptr::null_mut(),
            );
        }
        self.keys.push(key);
    }

    fn set(&mut self, pairs: &Pairs) -> Result<(), CephError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let keys = pairs.keys().map(|key| text(key)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr()).collect();
        let values: Vec<*const c_char> = pairs.values().map(|value| value.as_ptr().cast()).collect();
        let lengths: Vec<usize> = pairs.values().map(Vec::len).collect();
        // SAFETY: the three lists have this number of entries each and outlive the call, which copies what they name.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.write_op_omap_set)(
                self.operation,
                names.as_ptr(),
                values.as_ptr(),
                lengths.as_ptr(),
                names.len(),
            );
        }
        self.keys.extend(keys);
        Ok(())
    }

    fn remove(&mut self, keys: &[String]) -> Result<(), CephError> {
        if keys.is_empty() {
            return Ok(());
        }
        let keys = keys.iter().map(|key| text(key)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr()).collect();
        // SAFETY: the list has this number of entries and outlives the call, which copies what it names.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.write_op_omap_rm_keys)(self.operation, names.as_ptr(), names.len());
        }
        self.keys.extend(keys);
        Ok(())
    }

    fn delete(&self) {
        // SAFETY: the operation is open.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.write_op_remove)(self.operation);
        }
    }

    fn operate(&self, pool: PoolHandle, name: &CString) -> i32 {
        // SAFETY: operation and pool are open, the name ends with 0 and outlives the call, which waits for the end.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.write_op_operate)(self.operation, pool, name.as_ptr(), ptr::null_mut(), 0)
        }
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        // SAFETY: the operation has ended, or has never begun, and has no other user.
        #[allow(unsafe_code)]
        unsafe {
            (self.rados.release_write_op)(self.operation);
        }
    }
}
