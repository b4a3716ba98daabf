//! How stream sockets come to be: listening, accepting, connecting, and their options.
//! Moving bytes through them belongs to `ring`, and what the bytes mean to `nvme`.

pub mod tcp;
