//! Programs in C on the shared library, and the header against the functions that the library has.

mod c_program;
mod header;
