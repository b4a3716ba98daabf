//! Which secrets a host has to have, by the files that hold them: a configuration can be shown to anybody, and a secret
//! cannot.

use std::path::PathBuf;

use authentication::{Group, Hash};
use serde::{Deserialize, Serialize};

use super::{names, written};

/// The secrets of one host (DH-HMAC-CHAP). A host that has one here has to authenticate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostKey")]
pub struct HostKeyConfig {
    /// NQN of the host.
    #[serde(deserialize_with = "written::nqn")]
    pub host: String,
    /// File with the host's secret, `DHHC-1:…`, which others than the target's user and group cannot read. Several lines are
    /// several secrets, each of which is accepted.
    pub dhchap_secret_file: PathBuf,
    /// File with the secret by which the subsystem authenticates to the host, where the host asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_ctrl_secret_file: Option<PathBuf>,
    /// Hash functions that are taken of those that the host offers, the preferred one first: `sha256`, `sha384`, `sha512`. All of
    /// them without any.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub dhchap_hash: Vec<Hash>,
    /// Groups of the key exchange, in the same way: `null`, `ffdhe2048` to `ffdhe8192`, `secp256r1`, `secp384r1`, `mlkem768`,
    /// `mlkem1024`, `secp256r1mlkem768`, `secp384r1mlkem1024`.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub dhchap_dhgroup: Vec<Group>,
}

impl HostKeyConfig {
    /// The secret of this host in this file, with all hash functions and groups.
    pub fn new(host: &str, dhchap_secret_file: PathBuf) -> Self {
        Self {
            host: host.to_owned(),
            dhchap_secret_file,
            dhchap_ctrl_secret_file: None,
            dhchap_hash: Vec::new(),
            dhchap_dhgroup: Vec::new(),
        }
    }
}
