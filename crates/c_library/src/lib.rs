//! libselvedge: the initiator for programs in C, and in languages that call C. A namespace is a volume, whose calls wait and may
//! come from any thread, or a queue of one thread, which takes many requests at a time. `include/selvedge.h` is its interface;
//! `calls` has the functions of it. It decides nothing about I/O.

pub mod calls;
mod failure;
mod limits;
mod options;
mod queue;

pub use queue::Completion;
