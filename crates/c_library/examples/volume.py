#!/usr/bin/env python3
"""Writes a block of a namespace and reads it back, by libselvedge and ctypes.

    volume.py ADDRESS[:PORT] NQN OFFSET [OPTION=VALUE]...

The block at OFFSET is overwritten. Options are those of selvedge.h, such as nsid=2.
"""

import ctypes
import os
import sys

library = ctypes.CDLL(os.environ.get("SELVEDGE_LIBRARY", "libselvedge.so.0"))

library.selvedge_last_error.restype = ctypes.c_char_p
library.selvedge_options_new.restype = ctypes.c_void_p
library.selvedge_options_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
library.selvedge_options_free.argtypes = [ctypes.c_void_p]
library.selvedge_options_free.restype = None
library.selvedge_open.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
library.selvedge_close.argtypes = [ctypes.c_void_p]
library.selvedge_close.restype = None
library.selvedge_size.argtypes = [ctypes.c_void_p]
library.selvedge_size.restype = ctypes.c_uint64
library.selvedge_block_size.argtypes = [ctypes.c_void_p]
library.selvedge_block_size.restype = ctypes.c_uint32
library.selvedge_pread.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
library.selvedge_pwrite.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint32,
]
library.selvedge_flush.argtypes = [ctypes.c_void_p]


def check(result):
    """Raises the error of a call that has failed."""
    if result < 0:
        raise OSError(-result, library.selvedge_last_error().decode())


class Volume:
    """A namespace. Its methods wait, and other threads of Python run meanwhile."""

    def __init__(self, **options):
        made = library.selvedge_options_new()
        self.handle = ctypes.c_void_p()
        try:
            for name, value in options.items():
                check(library.selvedge_options_set(made, name.encode(), str(value).encode()))
            check(library.selvedge_open(made, ctypes.byref(self.handle)))
        finally:
            library.selvedge_options_free(made)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        library.selvedge_close(self.handle)
        self.handle = ctypes.c_void_p()

    @property
    def size(self):
        """Bytes of the namespace."""
        return library.selvedge_size(self.handle)

    @property
    def block_size(self):
        """Bytes of a block."""
        return library.selvedge_block_size(self.handle)

    def read(self, length, offset):
        """Bytes from `offset` on."""
        buffer = ctypes.create_string_buffer(length)
        check(library.selvedge_pread(self.handle, buffer, length, offset))
        return buffer.raw

    def write(self, data, offset):
        """Writes bytes; a flush makes them durable."""
        check(library.selvedge_pwrite(self.handle, data, len(data), offset, 0))

    def flush(self):
        """Makes all completed writes durable."""
        check(library.selvedge_flush(self.handle))


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    address, nqn, offset = sys.argv[1:4]
    options = dict(option.split("=", 1) for option in sys.argv[4:])
    with Volume(traddr=address, subnqn=nqn, **options) as volume:
        print(f"{volume.size} bytes in blocks of {volume.block_size}")
        block = os.urandom(volume.block_size)
        volume.write(block, int(offset))
        volume.flush()
        if volume.read(len(block), int(offset)) != block:
            sys.exit("the block holds other bytes than were written")
        print(f"the block at {offset} was written and read back")


if __name__ == "__main__":
    main()
