//! Connections in memory: a client's bytes, and what the server makes of them.

mod handshake;
mod requests;

use crate::Export;

/// Bytes of a client.
#[derive(Clone, Debug, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn option(mut self, option: u32, data: &[u8]) -> Self {
        self.0.extend(b"IHAVEOPT");
        self.0.extend(option.to_be_bytes());
        self.0.extend((data.len() as u32).to_be_bytes());
        self.0.extend(data);
        self
    }

    fn flags(flags: u32) -> Self {
        Self(flags.to_be_bytes().to_vec())
    }
}

/// A string behind its length.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// The data of NBD_OPT_GO.
fn export_option(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((infos.len() as u16).to_be_bytes());
    infos.iter().for_each(|info| data.extend(info.to_be_bytes()));
    data
}

/// The data of the options of contexts.
fn context_option(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}

fn exports() -> Vec<Export> {
    let disk = Export {
        name: "disk".to_owned(),
        description: "a disk".to_owned(),
        size: 1 << 20,
        block_bytes: 4096,
        ..Export::default()
    };
    let image = Export {
        name: "image".to_owned(),
        size: 6 << 30,
        is_read_only: true,
        can_write_zeroes: false,
        ..Export::default()
    };
    vec![disk, image]
}
