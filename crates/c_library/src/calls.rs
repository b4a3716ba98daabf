//! Functions of `include/selvedge.h`, which documents them: they check pointers, turn handles into what they stand for, and let
//! no panic through. A failure is a negative errno, and its text is `selvedge_last_error`.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::thread::{self, ThreadId};
use std::time::Duration;

use engine::initiator::Volume;

use crate::failure::{self, Failure, guard};
use crate::options::Options;
use crate::queue::{CallerMemory, Completion, Queue, Work};

/// Version of the library, with its ending zero.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// A write that is durable when it has completed.
const FUA: u32 = 1;
/// Zeroes that may deallocate their blocks.
const DEALLOCATE: u32 = 2;

/// Options of a connection: `selvedge_options`.
#[derive(Debug)]
pub struct SelvedgeOptions(Options);

/// A namespace for calls that wait: `selvedge_volume`.
#[derive(Debug)]
pub struct SelvedgeVolume(Volume);

// Threads that use a volume share a pointer, of which the compiler knows nothing.
const _: () = {
    const fn is_for_any_thread<T: Send + Sync>() {}
    is_for_any_thread::<SelvedgeVolume>();
};

/// A queue of one thread: `selvedge_queue`.
pub struct SelvedgeQueue {
    /// Thread that has opened it. Other threads read this alone, while the owner may be changing the rest.
    owner: ThreadId,
    queue: Queue,
    /// Set while a call works on it. If it is set when another begins, the former one has panicked.
    is_entered: bool,
}

/// Version of the library, such as "0.2.0".
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Text of the last failure on this thread, valid until the next one; empty before the first.
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_last_error() -> *const c_char {
    failure::last()
}

/// Makes options with their defaults.
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_options_new() -> *mut SelvedgeOptions {
    Box::into_raw(Box::new(SelvedgeOptions(Options::default())))
}

/// Sets an option.
///
/// # Safety
/// `options` is null or from `selvedge_options_new` and not freed, and no other thread uses it; `name` and `value` are null or
/// texts that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_options_set(
    options: *mut SelvedgeOptions,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's own conditions.
        let (options, name, value) =
            unsafe { (options.as_mut(), text(name, "name")?, text(value, "value")?) };
        options.ok_or_else(|| null("options"))?.0.set(name, value)?;
        Ok(0)
    })
}

/// Frees options. Volumes and queues that were opened with them do not need them.
///
/// # Safety
/// `options` is null or from `selvedge_options_new`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_options_free(options: *mut SelvedgeOptions) {
    // SAFETY: by this function's own conditions.
    unsafe { free(options) };
}

/// Opens a namespace for calls that wait.
///
/// # Safety
/// `options` is null or from `selvedge_options_new` and not freed; `volume` is null or has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_open(
    options: *const SelvedgeOptions,
    volume: *mut *mut SelvedgeVolume,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's own conditions.
        let (options, volume) = unsafe { (options.as_ref(), volume.as_mut()) };
        let volume = volume.ok_or_else(|| null("volume"))?;
        *volume = std::ptr::null_mut();
        let options = options.ok_or_else(|| null("options"))?.0.volume()?;
        *volume = Box::into_raw(Box::new(SelvedgeVolume(Volume::connect(options)?)));
        Ok(0)
    })
}

/// Closes a volume, and its connections.
///
/// # Safety
/// `volume` is null or from `selvedge_open`; no call uses it now or afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_close(volume: *mut SelvedgeVolume) {
    // SAFETY: by this function's own conditions.
    unsafe { free(volume) };
}

/// Size of the namespace in bytes, which follows changes; 0 for a null pointer.
///
/// # Safety
/// `volume` is null or from `selvedge_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_size(volume: *const SelvedgeVolume) -> u64 {
    // SAFETY: by this function's own conditions.
    unsafe { volume.as_ref() }.map_or(0, |volume| volume.0.size_bytes())
}

/// Bytes of a logical block; 0 for a null pointer.
///
/// # Safety
/// `volume` is null or from `selvedge_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_block_size(volume: *const SelvedgeVolume) -> u32 {
    // SAFETY: by this function's own conditions.
    unsafe { volume.as_ref() }.map_or(0, |volume| volume.0.block_size())
}

/// Reads `length` bytes from `offset` on.
///
/// # Safety
/// `volume` is null or from `selvedge_open` and not closed; `buffer` is null or has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_pread(
    volume: *const SelvedgeVolume,
    buffer: *mut u8,
    length: usize,
    offset: u64,
) -> c_int {
    guard(|| {
        check_memory(buffer, length)?;
        // SAFETY: by this function's own conditions, and the length was checked.
        let (volume, data) = unsafe { (open(volume)?, std::slice::from_raw_parts_mut(buffer, length)) };
        volume.read_at(offset, data)?;
        Ok(0)
    })
}

/// Writes `length` bytes from `offset` on.
///
/// # Safety
/// `volume` is null or from `selvedge_open` and not closed; `buffer` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_pwrite(
    volume: *const SelvedgeVolume,
    buffer: *const u8,
    length: usize,
    offset: u64,
    flags: u32,
) -> c_int {
    guard(|| {
        check_flags(flags, FUA)?;
        check_memory(buffer, length)?;
        // SAFETY: by this function's own conditions, and the length was checked.
        let (volume, data) = unsafe { (open(volume)?, std::slice::from_raw_parts(buffer, length)) };
        match flags & FUA {
            0 => volume.write_at(offset, data)?,
            _ => volume.write_durable_at(offset, data)?,
        }
        Ok(0)
    })
}

/// Makes all completed writes durable.
///
/// # Safety
/// `volume` is null or from `selvedge_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_flush(volume: *const SelvedgeVolume) -> c_int {
    guard(|| {
        // SAFETY: by this function's own conditions.
        unsafe { open(volume)? }.flush()?;
        Ok(0)
    })
}

/// Deallocates blocks that are not needed.
///
/// # Safety
/// `volume` is null or from `selvedge_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_discard(volume: *const SelvedgeVolume, offset: u64, length: u64) -> c_int {
    guard(|| {
        // SAFETY: by this function's own conditions.
        unsafe { open(volume)? }.deallocate(offset, length)?;
        Ok(0)
    })
}

/// Writes zeroes, without sending them.
///
/// # Safety
/// `volume` is null or from `selvedge_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_write_zeroes(
    volume: *const SelvedgeVolume,
    offset: u64,
    length: u64,
    flags: u32,
) -> c_int {
    guard(|| {
        check_flags(flags, DEALLOCATE)?;
        // SAFETY: by this function's own conditions.
        unsafe { open(volume)? }.write_zeroes(offset, length, flags & DEALLOCATE != 0)?;
        Ok(0)
    })
}

/// Opens a queue of this thread, for up to `depth` requests at a time.
///
/// # Safety
/// `options` is null or from `selvedge_options_new` and not freed; `queue` is null or has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_open(
    options: *const SelvedgeOptions,
    depth: u32,
    queue: *mut *mut SelvedgeQueue,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's own conditions.
        let (options, handle) = unsafe { (options.as_ref(), queue.as_mut()) };
        let handle = handle.ok_or_else(|| null("queue"))?;
        *handle = std::ptr::null_mut();
        let queue = Queue::open(&options.ok_or_else(|| null("options"))?.0, depth)?;
        *handle = Box::into_raw(Box::new(SelvedgeQueue {
            owner: thread::current().id(),
            queue,
            is_entered: false,
        }));
        Ok(0)
    })
}

/// Closes a queue, on the thread that has opened it. Requests that are outstanding have no completion.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open`, and is not used after a success.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_close(queue: *mut SelvedgeQueue) -> c_int {
    guard(|| {
        // SAFETY: by this function's own conditions.
        if !queue.is_null() && !unsafe { is_own_thread(queue) } {
            return Err(other_thread());
        }
        // SAFETY: by this function's own conditions.
        unsafe { free(queue) };
        Ok(0)
    })
}

/// Size of the namespace in bytes, which follows changes; 0 for a null pointer.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed, and this thread has opened it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_size(queue: *const SelvedgeQueue) -> u64 {
    // SAFETY: by this function's own conditions.
    unsafe { queue.as_ref() }.map_or(0, |handle| handle.queue.size_bytes())
}

/// Bytes of a logical block; 0 for a null pointer.
///
/// # Safety
/// As for `selvedge_queue_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_block_size(queue: *const SelvedgeQueue) -> u32 {
    // SAFETY: by this function's own conditions.
    unsafe { queue.as_ref() }.map_or(0, |handle| handle.queue.block_size())
}

/// Adds a read.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed; `buffer` is null or has room for `length` bytes, which nothing
/// else uses until the request has completed or the queue is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_read(
    queue: *mut SelvedgeQueue,
    buffer: *mut u8,
    length: usize,
    offset: u64,
    user: u64,
) -> c_int {
    let add = |queue: &mut Queue| {
        check_memory(buffer, length)?;
        // SAFETY: by this function's own conditions.
        let to = unsafe { CallerMemory::new(buffer) };
        queue.submit(Work::Read { to }, offset, length as u64, user).map(|()| 0)
    };
    // SAFETY: by this function's own conditions.
    unsafe { with_queue(queue, add) }
}

/// Adds a write.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed; `buffer` is null or has `length` bytes, which nothing changes
/// until the request has completed or the queue is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_write(
    queue: *mut SelvedgeQueue,
    buffer: *const u8,
    length: usize,
    offset: u64,
    flags: u32,
    user: u64,
) -> c_int {
    let add = |queue: &mut Queue| {
        check_flags(flags, FUA)?;
        check_memory(buffer, length)?;
        // SAFETY: by this function's own conditions; a write's memory is only read.
        let from = unsafe { CallerMemory::new(buffer.cast_mut()) };
        let work = Work::Write { from, is_durable: flags & FUA != 0 };
        queue.submit(work, offset, length as u64, user).map(|()| 0)
    };
    // SAFETY: by this function's own conditions.
    unsafe { with_queue(queue, add) }
}

/// Adds a flush.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_flush(queue: *mut SelvedgeQueue, user: u64) -> c_int {
    // SAFETY: by this function's own conditions.
    unsafe { with_queue(queue, |queue| queue.submit(Work::Flush, 0, 0, user).map(|()| 0)) }
}

/// Adds a deallocation.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_discard(
    queue: *mut SelvedgeQueue,
    offset: u64,
    length: u64,
    user: u64,
) -> c_int {
    // SAFETY: by this function's own conditions.
    unsafe { with_queue(queue, |queue| queue.submit(Work::Discard, offset, length, user).map(|()| 0)) }
}

/// Adds zeroes.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_write_zeroes(
    queue: *mut SelvedgeQueue,
    offset: u64,
    length: u64,
    flags: u32,
    user: u64,
) -> c_int {
    let add = |queue: &mut Queue| {
        check_flags(flags, DEALLOCATE)?;
        let work = Work::WriteZeroes { deallocate: flags & DEALLOCATE != 0 };
        queue.submit(work, offset, length, user).map(|()| 0)
    };
    // SAFETY: by this function's own conditions.
    unsafe { with_queue(queue, add) }
}

/// Sends all requests that were added.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_submit(queue: *mut SelvedgeQueue) -> c_int {
    let send = |queue: &mut Queue| {
        queue.flush();
        Ok(0)
    };
    // SAFETY: by this function's own conditions.
    unsafe { with_queue(queue, send) }
}

/// Sends all requests that were added, and takes completions: their number, or a negative errno.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed; `completions` is null or has room for `most` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_queue_poll(
    queue: *mut SelvedgeQueue,
    completions: *mut Completion,
    least: u32,
    most: u32,
    timeout_ms: c_int,
) -> c_int {
    let take = |queue: &mut Queue| {
        if completions.is_null() || most == 0 || least > most {
            return Err(Failure::misuse("completions is null, or has no room for `least`"));
        }
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let (least, most) = (least as usize, most as usize);
        let count = queue.poll(least, most, timeout, |place, completion| {
            // SAFETY: there is room for `most`, and `place` is below.
            unsafe { completions.add(place).write(completion) };
        })?;
        Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
    };
    // SAFETY: by this function's own conditions.
    unsafe { with_queue(queue, take) }
}

/// Runs a call on a queue.
///
/// # Safety
/// `queue` is null or from `selvedge_queue_open` and not closed.
unsafe fn with_queue(
    queue: *mut SelvedgeQueue,
    call: impl FnOnce(&mut Queue) -> Result<c_int, Failure>,
) -> c_int {
    guard(|| {
        if queue.is_null() {
            return Err(null("queue"));
        }
        // SAFETY: by this function's own conditions.
        if !unsafe { is_own_thread(queue) } {
            return Err(other_thread());
        }
        // SAFETY: it is not null, and this thread is the only one that gets here. Others may read the owner meanwhile.
        let (own, is_entered) = unsafe { (&mut (*queue).queue, &mut (*queue).is_entered) };
        if std::mem::replace(is_entered, true) {
            return Err(Failure::new(
                libc::ENOTRECOVERABLE,
                "an earlier call on this queue failed; close it",
            ));
        }
        let result = call(own);
        *is_entered = false;
        result
    })
}

/// True if this thread has opened a queue.
///
/// # Safety
/// `queue` is from `selvedge_queue_open` and not closed.
unsafe fn is_own_thread(queue: *const SelvedgeQueue) -> bool {
    // SAFETY: by this function's own conditions. The owner never changes, and no reference covers it with the rest.
    let owner = unsafe { (*queue).owner };
    owner == thread::current().id()
}

/// The volume of a handle.
///
/// # Safety
/// `volume` is null or from `selvedge_open` and not closed.
unsafe fn open<'a>(volume: *const SelvedgeVolume) -> Result<&'a Volume, Failure> {
    // SAFETY: by this function's own conditions.
    let handle = unsafe { volume.as_ref() };
    handle.map(|handle| &handle.0).ok_or_else(|| null("volume"))
}

/// A text of the caller's.
///
/// # Safety
/// `pointer` is null or a text that ends with a zero.
unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: by this function's own conditions.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::misuse(format!("{name} is not UTF-8")))
}

/// Frees what a handle stands for.
///
/// # Safety
/// `handle` is null or from `Box::into_raw`, and is not used afterwards.
unsafe fn free<T>(handle: *mut T) {
    if handle.is_null() {
        return;
    }
    let drop_it = || {
        // SAFETY: by this function's own conditions.
        drop(unsafe { Box::from_raw(handle) });
        Ok(0)
    };
    guard(drop_it);
}

fn check_memory(buffer: *const u8, length: usize) -> Result<(), Failure> {
    if buffer.is_null() {
        return Err(null("buffer"));
    }
    match isize::try_from(length) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::misuse(format!("length {length} exceeds any memory"))),
    }
}

fn check_flags(flags: u32, known: u32) -> Result<(), Failure> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Failure::misuse(format!("flags {unknown:#x} are unknown here"))),
    }
}

fn null(name: &str) -> Failure {
    Failure::misuse(format!("{name} is null"))
}

fn other_thread() -> Failure {
    Failure::new(libc::EPERM, "a queue is used on the thread that has opened it")
}
