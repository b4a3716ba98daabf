//! `selvedge discover`: the discovery log of a target.

use crate::config::connection::Connection;
use crate::discovery;
use crate::failure::Failure;
use crate::flags::look::DiscoverFlags;
use crate::report;

/// Reads and prints the log.
pub(super) fn run(flags: &DiscoverFlags) -> Result<(), Failure> {
    let connection = Connection::one(&flags.connection)?;
    let log = discovery::read(&connection)?;
    report::print_as(flags.output.output_format, &log)
}
