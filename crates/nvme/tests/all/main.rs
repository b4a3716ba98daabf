//! The integration tests of what the bytes mean, as one program that is linked once: `cargo nextest run -p selvedge-nvme -E
//! 'test(tcp_faults)'` runs those of one module.

mod admin_properties;
mod command_properties;
mod cross_reset;
mod pair;
mod reservation_properties;
mod tcp_faults;
mod tcp_pair;
mod tcp_properties;
mod wire_bytes;
