//! The program: starts what is in the library, and keeps out everything else.

use std::process::ExitCode;

use selvedge::Linkage;

fn main() -> ExitCode {
    // Asked here, because crates are built once for both.
    selvedge::run(if cfg!(target_feature = "crt-static") { Linkage::Static } else { Linkage::Dynamic })
}
