//! Bytes for a vectored send or receive: borrowed, and laid out as the system wants them.
//! Who sends and receives them is a socket.

use std::marker::PhantomData;

/// Bytes to be sent, borrowed from their owner. Unlike a slice, it may be of memory that others
/// write at the same time; only the kernel reads it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Span<'a>(libc::iovec, PhantomData<&'a [u8]>);

impl<'a> Span<'a> {
    /// No bytes.
    pub const EMPTY: Span<'static> =
        Span(libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }, PhantomData);

    /// The bytes of a slice.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() }, PhantomData)
    }

    /// `length` bytes at `pointer`.
    ///
    /// # Safety
    /// The memory must stay mapped and readable for `'a`.
    #[allow(unsafe_code)]
    pub(crate) const unsafe fn from_raw(pointer: *const u8, length: usize) -> Self {
        Self(libc::iovec { iov_base: pointer as *mut libc::c_void, iov_len: length }, PhantomData)
    }

    /// The bytes from `from` on.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub const fn skip(&self, from: usize) -> Self {
        assert!(from <= self.0.iov_len, "skipping past the end");
        let iov_base = self.0.iov_base.wrapping_byte_add(from);
        Self(libc::iovec { iov_base, iov_len: self.0.iov_len - from }, PhantomData)
    }

    /// Number of bytes.
    pub const fn len(&self) -> usize {
        self.0.iov_len
    }

    /// True if there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.iov_len == 0
    }

    /// The bytes, where no other thread writes them: in a simulation only one thread runs.
    #[cfg(feature = "simulation")]
    pub(crate) const fn bytes(&self) -> &[u8] {
        if self.0.iov_len == 0 {
            return &[];
        }
        // SAFETY: mapped and readable for as long as this lives, by the borrow or the promise of `from_raw`, and there is
        // no other thread that could write it meanwhile.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.0.iov_base.cast(), self.0.iov_len)
        }
    }
}

/// Room to receive into, borrowed alone.
#[repr(transparent)]
pub struct SpanMut<'a>(libc::iovec, PhantomData<&'a mut [u8]>);

impl<'a> SpanMut<'a> {
    /// The room of a slice.
    pub const fn new(bytes: &'a mut [u8]) -> Self {
        Self(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }, PhantomData)
    }

    /// Room of `length` bytes at `pointer`.
    ///
    /// # Safety
    /// The memory must stay mapped for `'a`, and nothing else may read or write it meanwhile.
    #[allow(unsafe_code)]
    pub(crate) const unsafe fn from_raw(pointer: *mut u8, length: usize) -> Self {
        Self(libc::iovec { iov_base: pointer.cast(), iov_len: length }, PhantomData)
    }

    /// Address of the first byte.
    pub(super) const fn pointer(&mut self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    /// Number of bytes.
    pub const fn len(&self) -> usize {
        self.0.iov_len
    }

    /// True if there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.iov_len == 0
    }

    /// The room as a slice.
    #[cfg(feature = "simulation")]
    pub(crate) const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: made of a slice that is borrowed alone for as long as this lives.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.0.iov_base.cast(), self.0.iov_len)
        }
    }
}
