//! The program: starts what is in the library, and keeps out everything else.

use std::process::ExitCode;

fn main() -> ExitCode {
    selvedge::run()
}
