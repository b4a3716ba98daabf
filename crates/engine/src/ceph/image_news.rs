//! Notices of an image to the program that has it open.

/// Called, on a thread of the library's, when an image's header has changed. It must not wait.
pub type ImageNews = Box<dyn Fn() + Send + Sync>;
