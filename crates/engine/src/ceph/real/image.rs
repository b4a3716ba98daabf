//! An open image: reads and writes as a ring's storage, its exclusive lock, and news of its header.
//! Blocks and who may serve them are other modules'.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::c_string::{string_in, text};
use super::error::answer;
use super::library::{CompletionHandle, ImageHandle, ImageInfo, LuksOptions, Rbd, libraries};
use super::{CephError, ImageKey, ImageNews, LuksFormat, Pool};
use crate::limits::CEPH_LOCK_OWNERS_MAX;
use crate::ring::{RemoteOperation, RemoteStorage, StorageOp};

/// The mode in which one has an image for himself (`RBD_LOCK_MODE_EXCLUSIVE`).
const EXCLUSIVE: i32 = 0;
/// The feature that makes that possible (`RBD_FEATURE_EXCLUSIVE_LOCK`).
const FEATURE_EXCLUSIVE_LOCK: u64 = 1 << 2;
/// AES-256 (`RBD_ENCRYPTION_ALGORITHM_AES256`).
const AES_256: i32 = 1;
/// Bytes of an image's identifier (`RBD_MAX_IMAGE_ID_LENGTH` and a 0), and more.
const IDENTIFIER_LENGTH_MAX: usize = 64;
/// Tag of the library's own locks.
const LIBRARY_TAG: &str = "internal";
/// Room for the names of those who have an image locked, for each kind of name.
const LOCKERS_BYTES: usize = 4096;
/// The mode bit of fallocate(2) that says that a range may be forgotten.
const PUNCH_HOLE: u32 = 0x02;

/// An open image.
pub struct Image {
    handle: ImageHandle,
    rbd: &'static Rbd,
    pool: Pool,
    name: String,
    is_snapshot: bool,
    watch: Mutex<Option<Watch>>,
}

/// Watch for changes of an image, with its receiver.
struct Watch {
    number: u64,
    /// The library has a pointer to it, so it lies still.
    _news: Box<ImageNews>,
}

// SAFETY: an `rbd_image_t` may be used from any thread at the same time; the library locks inside.
#[allow(unsafe_code)]
unsafe impl Send for Image {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Image {}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.name).finish()
    }
}

impl Image {
    /// Opens an image, or a snapshot of it, which can only be read. Nothing is locked by that.
    ///
    /// # Errors
    /// When there is none, the user may not, or the cluster does not answer.
    pub fn open(pool: Pool, name: &str, snapshot: Option<&str>) -> Result<Self, CephError> {
        let cluster = pool.cluster().clone();
        let rbd = &cluster.libraries().rbd;
        let (image, at) = (text(name)?, snapshot.map(text).transpose()?);
        let at_pointer = at.as_ref().map_or(ptr::null(), |at| at.as_ptr());
        let mut handle = ptr::null_mut();
        // SAFETY: the pool is open, the names end with 0 and outlive the calls, which write the handle.
        #[allow(unsafe_code)]
        let opened = unsafe {
            if snapshot.is_some() {
                (rbd.open_read_only)(pool.handle(), image.as_ptr(), &raw mut handle, at_pointer)
            } else {
                (rbd.open)(pool.handle(), image.as_ptr(), &raw mut handle, at_pointer)
            }
        };
        let full = match snapshot {
            Some(snapshot) => format!("{}/{name}@{snapshot}", pool.name()),
            None => format!("{}/{name}", pool.name()),
        };
        answer(opened).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT) => CephError::NoImage { pool: pool.name().to_owned(), image: full.clone() },
            _ => cluster.failed("opening", &full, source),
        })?;
        let (name, is_snapshot, watch) = (full, snapshot.is_some(), Mutex::new(None));
        Ok(Self { handle, rbd, pool, name, is_snapshot, watch })
    }

    /// Has the library encrypt what is written from now on, and decrypt what is read. Its size is then without LUKS' header.
    ///
    /// # Errors
    /// When it has another format or no such passphrase, or the cluster does not answer.
    pub fn decrypt(&self, key: &ImageKey) -> Result<(), CephError> {
        let format = match key.format {
            LuksFormat::Luks1 => 0,
            LuksFormat::Luks2 => 1,
        };
        let options = LuksOptions {
            algorithm: AES_256,
            passphrase: key.passphrase.as_ptr().cast(),
            passphrase_size: key.passphrase.len(),
        };
        // SAFETY: the image is open; the options are of this format, and outlive the call with the
        // passphrase, whose size is given.
        #[allow(unsafe_code)]
        let code = unsafe {
            let options = &raw const options;
            (self.rbd.encryption_load)(self.handle, format, options.cast(), size_of::<LuksOptions>())
        };
        answer(code).map(drop).map_err(|source| {
            let reason = match source.raw_os_error() {
                Some(libc::EPERM) => "the passphrase is another one".to_owned(),
                Some(libc::EINVAL) => "it is not encrypted, or in another format".to_owned(),
                Some(libc::ENOTSUP) => "the library was built without LUKS".to_owned(),
                _ => return self.pool.cluster().failed("decrypting", &self.name, source),
            };
            CephError::NotDecrypted { image: self.name.clone(), format: key.format, reason }
        })
    }

    /// `POOL/IMAGE`, with namespace and snapshot.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if it is a snapshot.
    pub const fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// The pool it is in.
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Identifier, which no other image of the pool ever has; images of Ceph's first format have
    /// none.
    ///
    /// # Errors
    /// When the library does not know it.
    pub fn identifier(&self) -> Result<Option<String>, CephError> {
        let mut value = [0; IDENTIFIER_LENGTH_MAX];
        // SAFETY: the image is open; the call writes no more than the length, with a 0 at the end.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd.get_id)(self.handle, value.as_mut_ptr(), value.len()) };
        if code == -libc::EINVAL {
            return Ok(None);
        }
        self.outcome("asking for the identifier of", code)?;
        Ok(Some(string_in(&value)))
    }

    /// The number of one of its snapshots, which no other snapshot of it ever has.
    ///
    /// # Errors
    /// When there is none, or the cluster does not answer.
    pub fn snapshot_number(&self, snapshot: &str) -> Result<u64, CephError> {
        let (snapshot, mut number) = (text(snapshot)?, 0);
        // SAFETY: the image is open, the name ends with 0 and outlives the call, which writes a number.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd.snap_get_id)(self.handle, snapshot.as_ptr(), &raw mut number) };
        self.outcome("asking for the snapshot of", code)?;
        Ok(number)
    }

    /// Size in bytes. The library caches it, so this may be called often.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn size(&self) -> Result<u64, CephError> {
        let mut size = 0;
        // SAFETY: the image is open, and the call writes a number.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd.get_size)(self.handle, &raw mut size) };
        self.outcome("asking for the size of", code)?;
        Ok(size)
    }

    /// Bytes of one of its objects.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn object_size(&self) -> Result<u64, CephError> {
        let mut info = ImageInfo {
            size: 0,
            object_size: 0,
            object_count: 0,
            order: 0,
            block_name_prefix: [0; 24],
            parent_pool: 0,
            parent_name: [0; 96],
        };
        // SAFETY: the image is open, and the call writes no more than the size it is given.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd.stat)(self.handle, &raw mut info, size_of::<ImageInfo>()) };
        self.outcome("looking at", code)?;
        Ok(info.object_size)
    }

    /// True if the image has the feature exclusive-lock.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn has_exclusive_lock(&self) -> Result<bool, CephError> {
        let mut features = 0;
        // SAFETY: the image is open, and the call writes a number.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd.get_features)(self.handle, &raw mut features) };
        self.outcome("asking for the features of", code)?;
        Ok(features & FEATURE_EXCLUSIVE_LOCK != 0)
    }

    /// Takes the image for this connection alone, until it is given back. A client that has it only while it writes is asked
    /// to give it up, and one that is gone loses it; this can take as long as the cluster needs to notice that.
    ///
    /// # Errors
    /// When another client holds it exclusively, which the error names, or the cluster does not answer.
    pub fn lock(&self) -> Result<(), CephError> {
        // The library would wait until that lock is removed, and its wait cannot be ended.
        if let Some(owner) = self.locked_by_hand()? {
            return Err(CephError::Locked { image: self.name.clone(), owner });
        }
        // SAFETY: the image is open.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd.lock_acquire)(self.handle, EXCLUSIVE) };
        match -code {
            libc::EROFS | libc::EBUSY | libc::EAGAIN => {
                let owner = self.lock_owner().unwrap_or_else(|| "an unknown owner".to_owned());
                Err(CephError::Locked { image: self.name.clone(), owner })
            }
            _ => self.outcome("locking", code),
        }
    }

    /// Owner of a lock by `rbd lock add` or its like, if there is one.
    fn locked_by_hand(&self) -> Result<Option<String>, CephError> {
        let mut is_exclusive = 0;
        let [mut tag, mut clients, mut cookies, mut addresses] = [[0 as c_char; LOCKERS_BYTES]; 4];
        let [mut tag_length, mut clients_length, mut cookies_length, mut addresses_length] =
            [LOCKERS_BYTES; 4];
        // SAFETY: the image is open, and the call writes no more into each of the rooms than the length behind it says.
        #[allow(unsafe_code)]
        let count = unsafe {
            (self.rbd.list_lockers)(
                self.handle,
                &raw mut is_exclusive,
                tag.as_mut_ptr(),
                &raw mut tag_length,
                clients.as_mut_ptr(),
                &raw mut clients_length,
                cookies.as_mut_ptr(),
                &raw mut cookies_length,
                addresses.as_mut_ptr(),
                &raw mut addresses_length,
            )
        };
        if count == -(libc::ERANGE as isize) {
            return Ok(Some("many clients".to_owned()));
        }
        self.outcome("asking for the locks of", count.min(0) as i32)?;
        if count == 0 || string_in(&tag) == LIBRARY_TAG {
            return Ok(None);
        }
        let [client, cookie, address] = [clients, cookies, addresses].map(|room| string_in(&room));
        Ok(Some(format!("{client} at {address}, by hand, with the lock `{cookie}`")))
    }

    /// Gives the lock back. What was written is written.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn unlock(&self) -> Result<(), CephError> {
        if !self.is_locked() {
            return Ok(());
        }
        // SAFETY: the image is open.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd.lock_release)(self.handle) };
        self.outcome("unlocking", code)
    }

    /// True if this connection has the lock, as far as it knows.
    pub fn is_locked(&self) -> bool {
        let mut owns = 0;
        // SAFETY: the image is open, and the call writes a number.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd.is_exclusive_lock_owner)(self.handle, &raw mut owns) };
        code == 0 && owns != 0
    }

    /// Client with the lock, as the cluster names it: its number and address.
    pub fn lock_owner(&self) -> Option<String> {
        let mut owners = [ptr::null_mut::<c_char>(); CEPH_LOCK_OWNERS_MAX];
        let (mut mode, mut count) = (0, owners.len());
        // SAFETY: the image is open; the call writes up to `count` strings of its own, which are given back below.
        #[allow(unsafe_code)]
        unsafe {
            let code =
                (self.rbd.lock_get_owners)(self.handle, &raw mut mode, owners.as_mut_ptr(), &raw mut count);
            if code < 0 || count == 0 {
                return None;
            }
            let owner = CStr::from_ptr(owners[0]).to_string_lossy().into_owned();
            (self.rbd.lock_get_owners_cleanup)(owners.as_mut_ptr(), count);
            Some(owner)
        }
    }

    /// Is notified of changes of the header from now on: size, snapshots, features.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn watch(&self, news: ImageNews) -> Result<(), CephError> {
        let news = Box::new(news);
        let mut number = 0;
        // SAFETY: the image is open; the pointer stays good until the watch has ended, in `drop`.
        #[allow(unsafe_code)]
        let code = unsafe {
            let argument = ptr::from_ref::<ImageNews>(&news).cast_mut().cast();
            (self.rbd.update_watch)(self.handle, &raw mut number, updated, argument)
        };
        self.outcome("watching", code)?;
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        *watch = Some(Watch { number, _news: news });
        Ok(())
    }

    fn outcome(&self, what: &'static str, code: i32) -> Result<(), CephError> {
        answer(code).map(drop).map_err(|source| self.pool.cluster().failed(what, &self.name, source))
    }

    /// Hands an operation to the library.
    fn begin(&self, mut operation: RemoteOperation) -> Result<(), (RemoteOperation, i32)> {
        let (mut read, mut written) = ((ptr::null_mut(), 0), (ptr::null(), 0));
        let step = match operation.operation() {
            StorageOp::Read { buffer, offset } => {
                read = (buffer.as_mut_ptr().cast(), buffer.len());
                Step::Read(*offset)
            }
            StorageOp::Write { buffer, offset, .. } => {
                written = (buffer.as_ptr().cast(), buffer.len());
                Step::Write(*offset)
            }
            StorageOp::Sync => Step::Flush,
            StorageOp::Allocate { mode, offset, length } if *mode & PUNCH_HOLE != 0 => {
                Step::Discard(*offset, *length)
            }
            StorageOp::Allocate { offset, length, .. } => Step::Zero(*offset, *length),
        };
        let pointer = operation.into_pointer();
        let mut completion: CompletionHandle = ptr::null_mut();
        let (rbd, image) = (self.rbd, self.handle);
        // SAFETY: the image is open and stays so, since the caller keeps it until its operations
        // have ended. The buffer belongs to the operation, which the completion has until it is
        // called, once, or here when it never will be.
        #[allow(unsafe_code)]
        unsafe {
            let code = (rbd.aio_create_completion)(pointer, completed, &raw mut completion);
            if code < 0 {
                return Err((RemoteOperation::from_pointer(pointer), code));
            }
            let code = match step {
                Step::Read(offset) => (rbd.aio_read)(image, offset, read.1, read.0, completion),
                Step::Write(offset) => (rbd.aio_write)(image, offset, written.1, written.0, completion),
                Step::Flush => (rbd.aio_flush)(image, completion),
                Step::Discard(offset, length) => (rbd.aio_discard)(image, offset, length, completion),
                Step::Zero(offset, length) => {
                    (rbd.aio_write_zeroes)(image, offset, length as usize, completion, 0, 0)
                }
            };
            if code < 0 {
                (rbd.aio_release)(completion);
                return Err((RemoteOperation::from_pointer(pointer), code));
            }
        }
        Ok(())
    }
}

/// Request to the library, in bytes from the image's beginning.
enum Step {
    Read(u64),
    Write(u64),
    Flush,
    Discard(u64, u64),
    Zero(u64, u64),
}

impl RemoteStorage for Image {
    fn start(&self, operation: RemoteOperation) {
        if let Err((operation, code)) = self.begin(operation) {
            operation.end(Err(io::Error::from_raw_os_error(-code)));
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let watch = self.watch.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // SAFETY: the handle has no other user now. The watch ends before what it calls goes.
        #[allow(unsafe_code)]
        unsafe {
            if let Some(watch) = &watch {
                (self.rbd.update_unwatch)(self.handle, watch.number);
            }
            (self.rbd.close)(self.handle);
        }
    }
}

/// See `late_operations`.
static LATE_OPERATIONS: AtomicU64 = AtomicU64::new(0);

/// Number of operations on this process's images that have taken too long. Each may be carried out
/// yet, for as long as its connection is not on the blocklist; and is counted before its image can
/// be closed or its lock given back.
pub fn late_operations() -> u64 {
    LATE_OPERATIONS.load(Ordering::Acquire)
}

/// Counts one that is known by other means to take too long, or a change of an object beside an image.
pub fn note_late_operation() {
    LATE_OPERATIONS.fetch_add(1, Ordering::Release);
}

extern "C" fn completed(completion: CompletionHandle, argument: *mut c_void) {
    let Ok(libraries) = libraries() else { return };
    // SAFETY: the library calls this once for each completion, with the pointer that `begin` made for it.
    #[allow(unsafe_code)]
    let (value, mut operation) = unsafe {
        let value = (libraries.rbd.aio_get_return_value)(completion);
        (libraries.rbd.aio_release)(completion);
        (value, RemoteOperation::from_pointer(argument))
    };
    if value == -(libc::ETIMEDOUT as isize) {
        note_late_operation();
    }
    let result = match (usize::try_from(value), operation.operation()) {
        (Err(_), _) => Err(io::Error::from_raw_os_error(-value as i32)),
        (Ok(_), StorageOp::Write { buffer, .. }) => Ok(buffer.len()),
        (Ok(read), StorageOp::Read { .. }) => Ok(read),
        (Ok(_), _) => Ok(0),
    };
    operation.end(result);
}

extern "C" fn updated(argument: *mut c_void) {
    // SAFETY: it is what `watch` has handed over, which stays until the watch has ended.
    #[allow(unsafe_code)]
    let news = unsafe { &*argument.cast::<ImageNews>() };
    news();
}
