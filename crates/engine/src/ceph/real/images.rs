//! Images as an administrator has them: they come and go, grow, have snapshots and become clones of them. Each of these is
//! asked of a pool and waits for the cluster. What is in an image, and who serves it, is not decided here.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::ops::ControlFlow;
use std::ptr;

use super::c_string::text;
use super::error::answer;
use super::library::{ImageHandle, OptionsHandle, Rbd, SnapshotInfo, Watcher};
use super::{CephError, Pool};
use crate::limits::{CEPH_SNAPSHOTS_MAX, CEPH_WATCHERS_MAX};

// The numbers of librbd.h for options of a new image (`RBD_IMAGE_OPTION_*`).
const OPTION_FEATURES: c_int = 1;
const OPTION_ORDER: c_int = 2;
const OPTION_DATA_POOL: c_int = 10;
const OPTION_CLONE_FORMAT: c_int = 12;

/// Objects have 4 KiB to 32 MiB, by their exponents.
const OBJECT_EXPONENTS: std::ops::RangeInclusive<u32> = 12..=25;

/// Parameters of a new image, beside its size. The cluster's configuration supplies the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewImage {
    /// Features by Ceph's names, such as `layering` and `exclusive-lock`; the usual ones where this is empty.
    pub features: Vec<String>,
    /// Bytes of an object, a power of two from 4 KiB to 32 MiB.
    pub object_size: Option<u64>,
    /// The pool for its data, where that is another than the one for its name.
    pub data_pool: Option<String>,
}

/// A snapshot of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the snapshot within its image.
    pub name: String,
    /// Bytes of the image when it was made.
    pub size: u64,
}

impl Pool {
    /// Makes an image of `size` bytes that reads as zeroes.
    ///
    /// # Errors
    /// When there is one of that name, when it cannot be like `new`, or when the cluster refuses.
    pub fn create_image(&self, name: &str, size: u64, new: &NewImage) -> Result<(), CephError> {
        let options = ImageOptions::new(self, name, new)?;
        let image = text(name)?;
        // SAFETY: the pool is open, the name ends with 0, and the options live until the end of this function.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd().create4)(self.handle(), image.as_ptr(), size, options.handle) };
        answer(code).map(drop).map_err(|source| self.not_made(name, source))
    }

    /// Makes an image with the blocks of a snapshot of `image`, which it shares until they are written or it is flattened.
    /// The snapshot needs no protection (clone format 2).
    ///
    /// # Errors
    /// When there is no such snapshot, when there is an image of the new name, or when the cluster refuses.
    pub fn clone_image(
        &self,
        image: &str,
        snapshot: &str,
        into: &Self,
        name: &str,
        new: &NewImage,
    ) -> Result<(), CephError> {
        // Else "not there" could be the new image's pool or namespace as well.
        drop(Opened::to_read(self, image, Some(snapshot))?);
        let options = ImageOptions::new(into, name, new)?;
        options.number(OPTION_CLONE_FORMAT, 2)?;
        let (parent, at, child) = (text(image)?, text(snapshot)?, text(name)?);
        // SAFETY: both pools are open, the names end with 0, and all of it lives until the end of this function.
        #[allow(unsafe_code)]
        let code = unsafe {
            (self.rbd().clone3)(
                self.handle(),
                parent.as_ptr(),
                at.as_ptr(),
                into.handle(),
                child.as_ptr(),
                options.handle,
            )
        };
        answer(code).map(drop).map_err(|source| into.not_made(name, source))
    }

    /// Bytes of an image, or of a snapshot of it.
    ///
    /// # Errors
    /// When there is none, or the cluster does not answer.
    pub fn image_size(&self, name: &str, snapshot: Option<&str>) -> Result<u64, CephError> {
        Opened::to_read(self, name, snapshot)?.size()
    }

    /// Resizes an image, in bytes. Clients that have it open are notified. It becomes smaller only
    /// with `shrink`; what is beyond its new end is lost then, and removing that may take a while.
    ///
    /// # Errors
    /// When there is no such image, it would shrink and may not, or the cluster refuses.
    pub fn resize_image(&self, name: &str, size: u64, shrink: bool) -> Result<(), CephError> {
        let image = Opened::to_write(self, name)?;
        let before = image.size()?;
        if size < before && !shrink {
            let image = self.path(name, None);
            return Err(CephError::WouldShrink { image, before, wanted: size });
        }
        // SAFETY: the image is open, and `unwatched` uses nothing.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd().resize2)(image.handle, size, shrink, unwatched, ptr::null_mut()) };
        answer(code).map(drop).map_err(|source| self.failed("resizing", name, source))
    }

    /// Removes an image and all that is in it, which may take a while.
    ///
    /// # Errors
    /// When there is no such image, when it has snapshots, when clients have it open, or when the cluster refuses.
    pub fn remove_image(&self, name: &str) -> Result<(), CephError> {
        // The library takes the lock from the image's owner before it finds that it is in use, and
        // the owner's writes fail.
        self.check_unused(name)?;
        let image = text(name)?;
        // SAFETY: the pool is open, and the name ends with 0 and outlives the call.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd().remove)(self.handle(), image.as_ptr()) };
        answer(code).map(drop).map_err(|source| self.not_removed("removing", name, source))
    }

    /// Moves an image to the pool's trash, where `rbd trash` finds it. It takes its snapshots with it.
    ///
    /// # Errors
    /// When there is no such image, when clients have it open, or when the cluster refuses.
    pub fn trash_image(&self, name: &str) -> Result<(), CephError> {
        // The library does not check: clients that have it open would go on writing to an image in
        // the trash.
        self.check_unused(name)?;
        let image = text(name)?;
        // SAFETY: the pool is open, and the name ends with 0 and outlives the call.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd().trash_move)(self.handle(), image.as_ptr(), 0) };
        answer(code).map(drop).map_err(|source| self.not_removed("moving to the trash", name, source))
    }

    /// Makes a snapshot of an image. Writes that were answered before are in it.
    ///
    /// # Errors
    /// When there is no such image, when there is a snapshot of that name, or when the cluster refuses.
    pub fn create_snapshot(&self, image: &str, snapshot: &str) -> Result<(), CephError> {
        let (opened, name) = (Opened::to_write(self, image)?, text(snapshot)?);
        // SAFETY: the image is open, and the name ends with 0 and outlives the call.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd().snap_create)(opened.handle, name.as_ptr()) };
        let path = self.path(image, Some(snapshot));
        answer(code).map(drop).map_err(|source| match source.raw_os_error() {
            Some(libc::EEXIST) => CephError::SnapshotExists { snapshot: path },
            _ => self.cluster().failed("making the snapshot", &path, source),
        })
    }

    /// Removes a snapshot of an image. Clones of it keep their blocks.
    ///
    /// # Errors
    /// When there is no such snapshot, when it is protected, or when the cluster refuses.
    pub fn remove_snapshot(&self, image: &str, snapshot: &str) -> Result<(), CephError> {
        let (opened, name) = (Opened::to_write(self, image)?, text(snapshot)?);
        // SAFETY: the image is open, and the name ends with 0 and outlives the call.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd().snap_remove)(opened.handle, name.as_ptr()) };
        let path = self.path(image, Some(snapshot));
        answer(code).map(drop).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT) => self.missing(image, Some(snapshot)),
            Some(libc::EBUSY) => CephError::Protected { snapshot: path },
            _ => self.cluster().failed("removing the snapshot", &path, source),
        })
    }

    /// The snapshots of an image, the oldest first, `limits::CEPH_SNAPSHOTS_MAX` at most.
    ///
    /// # Errors
    /// When there is no such image, or the cluster does not answer.
    pub fn snapshots(&self, image: &str) -> Result<Vec<Snapshot>, CephError> {
        Opened::to_read(self, image, None)?.snapshots()
    }

    /// Copies into a clone all blocks that it shares with the snapshot it was made of, so that it
    /// no longer needs that. It may take as long as copying the image takes; `progress` gets the
    /// bytes copied and their total, from threads of the library's, and may end it.
    ///
    /// # Errors
    /// When there is no such image, when it is not a clone, when `progress` has ended it (`ECANCELED`), or when the cluster
    /// refuses.
    pub fn flatten_image(
        &self,
        name: &str,
        progress: &(dyn Fn(u64, u64) -> ControlFlow<()> + Sync),
    ) -> Result<(), CephError> {
        let image = Opened::to_write(self, name)?;
        let argument = ptr::from_ref(&progress).cast_mut().cast();
        // SAFETY: the image is open. `watched` is called during the call only, which `progress` outlives.
        #[allow(unsafe_code)]
        let code = unsafe { (self.rbd().flatten_with_progress)(image.handle, watched, argument) };
        answer(code).map(drop).map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) => CephError::NoParent { image: self.path(name, None) },
            _ => self.failed("flattening", name, source),
        })
    }

    fn rbd(&self) -> &'static Rbd {
        &self.cluster().libraries().rbd
    }

    fn path(&self, image: &str, snapshot: Option<&str>) -> String {
        let at = snapshot.map_or(String::new(), |snapshot| format!("@{snapshot}"));
        format!("{}/{image}{at}", self.name())
    }

    fn missing(&self, image: &str, snapshot: Option<&str>) -> CephError {
        CephError::NoImage { pool: self.name().to_owned(), image: self.path(image, snapshot) }
    }

    /// An error about an image that is not explained otherwise.
    fn failed(&self, what: &'static str, image: &str, source: io::Error) -> CephError {
        match source.raw_os_error() {
            Some(libc::ENOENT) => self.missing(image, None),
            _ => self.cluster().failed(what, &self.path(image, None), source),
        }
    }

    /// Why a new image could not be made.
    fn not_made(&self, image: &str, source: io::Error) -> CephError {
        let path = self.path(image, None);
        match source.raw_os_error() {
            Some(libc::EEXIST) => CephError::ImageExists { image: path },
            // The pool is open, and a data pool was looked for.
            Some(libc::ENOENT) if self.name().contains('/') => {
                CephError::NoNamespace { name: self.name().to_owned() }
            }
            _ => self.cluster().failed("making the image", &path, source),
        }
    }

    /// Why an image could not be removed.
    fn not_removed(&self, what: &'static str, image: &str, source: io::Error) -> CephError {
        match source.raw_os_error() {
            Some(libc::ENOTEMPTY) => CephError::HasSnapshots { image: self.path(image, None) },
            Some(libc::EBUSY) => CephError::InUse {
                image: self.path(image, None),
                users: "a client that has just opened it".to_owned(),
            },
            _ => self.failed(what, image, source),
        }
    }

    /// Checks that no client has the image open for writing.
    fn check_unused(&self, image: &str) -> Result<(), CephError> {
        let users = Opened::to_read(self, image, None)?.watchers()?;
        if users.is_empty() {
            return Ok(());
        }
        Err(CephError::InUse { image: self.path(image, None), users: users.join(", ") })
    }
}

/// An image that is open for as long as something is done with it.
struct Opened<'a> {
    pool: &'a Pool,
    name: &'a str,
    handle: ImageHandle,
}

impl<'a> Opened<'a> {
    /// Opens an image without becoming one of its users.
    fn to_read(pool: &'a Pool, name: &'a str, snapshot: Option<&str>) -> Result<Self, CephError> {
        Self::open(pool, name, snapshot, pool.rbd().open_read_only)
    }

    /// Opens an image to change it. It needs no lock: the lock's owner is asked to make the change.
    fn to_write(pool: &'a Pool, name: &'a str) -> Result<Self, CephError> {
        Self::open(pool, name, None, pool.rbd().open)
    }

    fn open(
        pool: &'a Pool,
        name: &'a str,
        snapshot: Option<&str>,
        open: unsafe extern "C" fn(*mut c_void, *const c_char, *mut ImageHandle, *const c_char) -> c_int,
    ) -> Result<Self, CephError> {
        let image = text(name)?;
        let at: Option<CString> = snapshot.map(text).transpose()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pool is open, the names end with 0 and outlive the call, which writes the handle.
        #[allow(unsafe_code)]
        let code = unsafe {
            let at = at.as_ref().map_or(ptr::null(), |at| at.as_ptr());
            open(pool.handle(), image.as_ptr(), &raw mut handle, at)
        };
        answer(code).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT) => pool.missing(name, snapshot),
            _ => pool.failed("opening", name, source),
        })?;
        Ok(Self { pool, name, handle })
    }

    fn size(&self) -> Result<u64, CephError> {
        let mut size = 0;
        // SAFETY: the image is open, and the call writes one number.
        #[allow(unsafe_code)]
        let code = unsafe { (self.pool.rbd().get_size)(self.handle, &raw mut size) };
        answer(code).map_err(|source| self.pool.failed("asking for the size of", self.name, source))?;
        Ok(size)
    }

    fn snapshots(&self) -> Result<Vec<Snapshot>, CephError> {
        let nothing = SnapshotInfo { id: 0, size: 0, name: ptr::null() };
        let mut list = vec![nothing; CEPH_SNAPSHOTS_MAX];
        let mut room = CEPH_SNAPSHOTS_MAX as c_int;
        // SAFETY: the image is open, and the call writes no more entries than there is room for.
        #[allow(unsafe_code)]
        let code = unsafe { (self.pool.rbd().snap_list)(self.handle, list.as_mut_ptr(), &raw mut room) };
        let count = answer(code)
            .map_err(|source| self.pool.failed("asking for the snapshots of", self.name, source))?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let listed = list.iter().take(count as usize).map(|info| {
            // SAFETY: the library has written this number of entries, each with a name that ends with 0.
            #[allow(unsafe_code)]
            let name = unsafe { CStr::from_ptr(info.name) };
            Snapshot { name: name.to_string_lossy().into_owned(), size: info.size }
        });
        let snapshots = listed.collect();
        // SAFETY: it is the list that was written, which ends with an entry that has no name; names are copied by now.
        #[allow(unsafe_code)]
        unsafe {
            (self.pool.rbd().snap_list_end)(list.as_mut_ptr());
        }
        Ok(snapshots)
    }

    fn watchers(&self) -> Result<Vec<String>, CephError> {
        let empty = Watcher { address: ptr::null_mut(), client: 0, cookie: 0 };
        let mut list = vec![empty; CEPH_WATCHERS_MAX];
        let mut count = CEPH_WATCHERS_MAX;
        // SAFETY: the image is open, and the call writes no more entries than there is room for, and their count.
        #[allow(unsafe_code)]
        let code = unsafe { (self.pool.rbd().watchers_list)(self.handle, list.as_mut_ptr(), &raw mut count) };
        answer(code).map_err(|source| self.pool.failed("asking for the users of", self.name, source))?;
        let listed = list.iter().take(count).map(|watcher| {
            // SAFETY: the library has written this number of entries, each with an address that ends with 0.
            #[allow(unsafe_code)]
            let address = unsafe { CStr::from_ptr(watcher.address) };
            format!("client.{} at {}", watcher.client, address.to_string_lossy())
        });
        let watchers = listed.collect();
        // SAFETY: it is the list that was written, with its count; addresses are copied by now.
        #[allow(unsafe_code)]
        unsafe {
            (self.pool.rbd().watchers_list_cleanup)(list.as_mut_ptr(), count);
        }
        Ok(watchers)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // SAFETY: the image was opened, and the handle has no other user.
        #[allow(unsafe_code)]
        unsafe {
            (self.pool.rbd().close)(self.handle);
        }
    }
}

/// Options of a new image.
struct ImageOptions<'a> {
    pool: &'a Pool,
    name: &'a str,
    handle: OptionsHandle,
}

impl<'a> ImageOptions<'a> {
    fn new(pool: &'a Pool, name: &'a str, new: &NewImage) -> Result<Self, CephError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the call writes the handle.
        #[allow(unsafe_code)]
        unsafe {
            (pool.rbd().image_options_create)(&raw mut handle);
        }
        let options = Self { pool, name, handle };
        if name.is_empty() || name.contains(['/', '@']) {
            return Err(options.cannot("an image's name has at least one character, and neither / nor @"));
        }
        if !new.features.is_empty() {
            options.number(OPTION_FEATURES, options.features(&new.features)?)?;
        }
        if let Some(size) = new.object_size {
            let exponent = size.trailing_zeros();
            if !size.is_power_of_two() || !OBJECT_EXPONENTS.contains(&exponent) {
                let reason = "the object size is not a power of two from 4 KiB to 32 MiB";
                return Err(options.cannot(&format!("{reason}, but {size} bytes")));
            }
            options.number(OPTION_ORDER, exponent.into())?;
        }
        if let Some(data) = &new.data_pool {
            // Creating the image would only say that something is not there.
            drop(Pool::open(pool.cluster().clone(), data, "")?);
            let value = text(data)?;
            // SAFETY: the options are there, and the value ends with 0 and is copied.
            #[allow(unsafe_code)]
            let code =
                unsafe { (pool.rbd().image_options_set_string)(handle, OPTION_DATA_POOL, value.as_ptr()) };
            answer(code).map_err(|source| options.refused(source))?;
        }
        Ok(options)
    }

    fn number(&self, option: c_int, value: u64) -> Result<(), CephError> {
        // SAFETY: the options are there.
        #[allow(unsafe_code)]
        let code = unsafe { (self.pool.rbd().image_options_set_uint64)(self.handle, option, value) };
        answer(code).map(drop).map_err(|source| self.refused(source))
    }

    fn features(&self, names: &[String]) -> Result<u64, CephError> {
        let (joined, mut bits) = (text(&names.join(","))?, 0);
        // SAFETY: the names end with 0, and the call writes one number.
        #[allow(unsafe_code)]
        let code = unsafe { (self.pool.rbd().features_from_string)(joined.as_ptr(), &raw mut bits) };
        answer(code).map_err(|_| {
            let names = names.join(", ");
            self.cannot(&format!(
                "among the features {names} is one that Ceph does not know; such are layering, exclusive-lock, object-map, \
                 fast-diff, deep-flatten and journaling"
            ))
        })?;
        Ok(bits)
    }

    fn cannot(&self, reason: &str) -> CephError {
        CephError::NewImage { name: self.pool.path(self.name, None), reason: reason.to_owned() }
    }

    fn refused(&self, source: io::Error) -> CephError {
        self.pool.cluster().failed("setting options of", &self.pool.path(self.name, None), source)
    }
}

impl Drop for ImageOptions<'_> {
    fn drop(&mut self) {
        // SAFETY: they were created, and have no other user.
        #[allow(unsafe_code)]
        unsafe {
            (self.pool.rbd().image_options_destroy)(self.handle);
        }
    }
}

/// Progress callback that ignores progress.
extern "C" fn unwatched(_done: u64, _total: u64, _argument: *mut c_void) -> c_int {
    0
}

/// Progress callback; the argument points to a reference to the caller's closure.
extern "C" fn watched(done: u64, total: u64, argument: *mut c_void) -> c_int {
    // SAFETY: `flatten_image` passes a pointer to this, which lives for as long as it waits, and may be used by any thread.
    #[allow(unsafe_code)]
    let progress = unsafe { &*argument.cast::<&(dyn Fn(u64, u64) -> ControlFlow<()> + Sync)>() };
    match progress(done, total) {
        ControlFlow::Continue(()) => 0,
        ControlFlow::Break(()) => -libc::ECANCELED,
    }
}
