//! Calls about key management servers, which are not used here: the keys of encrypted images are files of the gateways.

use ceph_nvmeof::{
    AddKmipServerEndpointsReq, DelKmipServerEndpointsReq, KmipServerEndpointsInfo,
    ListKmipServerEndpointsReq, ReqStatus,
};
use libc::{EINVAL, ENOENT, EOPNOTSUPP};

use super::failed::Failed;
use super::native::Native;

pub(super) async fn add(native: Native, request: AddKmipServerEndpointsReq) -> Result<ReqStatus, Failed> {
    let (nqn, server) = (&request.subsystem_nqn, &request.server_name);
    let doing = format!("Failure adding endpoints to KMIP server \"{server}\" on subsystem {nqn}");
    let failed = |failed: Failed| failed.amid(&doing);
    check(&native, nqn, request.endpoints.len()).await.map_err(failed)?;
    let what = "passphrases of encrypted images are files of the gateways (`selvedge namespace add`, passphrase_file)";
    Err(failed(Failed::new(EOPNOTSUPP, what)))
}

pub(super) async fn delete(native: Native, request: DelKmipServerEndpointsReq) -> Result<ReqStatus, Failed> {
    let (nqn, server) = (&request.subsystem_nqn, &request.server_name);
    let doing = format!("Failure deleting endpoints from KMIP server \"{server}\" on subsystem {nqn}");
    let failed = |failed: Failed| failed.amid(&doing);
    check(&native, nqn, request.endpoints.len()).await.map_err(failed)?;
    Err(failed(Failed::new(ENOENT, "Server endpoint not found")))
}

async fn check(native: &Native, nqn: &str, endpoints: usize) -> Result<(), Failed> {
    if endpoints == 0 {
        return Err(Failed::new(EINVAL, "No endpoints were specified"));
    }
    native.subsystem(nqn, ENOENT).await.map(drop)
}

pub(super) async fn list(
    native: Native,
    _: ListKmipServerEndpointsReq,
) -> Result<KmipServerEndpointsInfo, Failed> {
    // One that may not read learns that, and not that there is none.
    native.ports().await?;
    Ok(KmipServerEndpointsInfo::default())
}
