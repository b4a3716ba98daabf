//! Lines on stderr where nothing may read them: on a terminal that was closed, in a file that is full or has reached the limit of its
//! size. The standard library's `eprintln!` panics there, and ends a thread that serves disks.

/// Prints a line on stderr, if that can be done.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::eprintln!("") };
    ($($what:tt)*) => {{
        use std::io::Write as _;
        // In one piece: lines of other threads and processes come between pieces.
        let line = format!($($what)*) + "\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    }};
}

/// Prints a text on stderr, if that can be done.
#[macro_export]
macro_rules! eprint {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = std::io::stderr().write_all(format!($($what)*).as_bytes());
    }};
}
