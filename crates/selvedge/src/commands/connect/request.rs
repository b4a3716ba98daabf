//! Requests to the kernel: subsystems, addresses and options.

use std::net::SocketAddr;

use engine::address::NetAddress;
use engine::initiator::ConnectOptions;
use nvme::discovery::Nqn;
use uuid::Uuid;

use super::tls::KernelKeys;
use crate::config::connection::Connection;
use crate::discovery::{self, Shown};
use crate::failure::Failure;
use crate::flags::connect::ConnectFlags;
use crate::kernel_initiator::FabricsOptions;

/// Connection to a controller.
pub(super) struct Request {
    pub(super) nqn: Nqn,
    /// Addresses and identity of the connection.
    pub(super) path: ConnectOptions,
    /// True if the discovery log says that the port requires TLS.
    pub(super) requires_tls: bool,
}

/// All that are wanted. Where no subsystem is named, the discovery services are asked.
///
/// # Errors
/// When none of them answers, or none shows a subsystem.
pub(super) fn requests(flags: &ConnectFlags, connection: &Connection) -> Result<Vec<Request>, Failure> {
    if let Some(nqn) = &flags.nqn {
        let paths = connection.paths(nqn).into_iter();
        return Ok(paths.map(|path| Request { nqn: nqn.clone(), path, requires_tls: false }).collect());
    }
    let (mut found, mut failed): (Vec<Request>, Vec<Failure>) = (Vec::new(), Vec::new());
    let mut answered = false;
    for one in connection.each() {
        match shown_by(&one) {
            Ok(shown) => {
                answered = true;
                for request in shown {
                    let is_it = |known: &Request| {
                        known.nqn == request.nqn && known.path.address == request.path.address
                    };
                    if !found.iter().any(is_it) {
                        found.push(request);
                    }
                }
            }
            Err(failure) => failed.push(failure),
        }
    }
    match failed.into_iter().next() {
        Some(failure) if !answered => return Err(failure),
        Some(failure) => eprintln!("selvedge: {}", failure.line().unwrap_or_default()),
        None => {}
    }
    if found.is_empty() { Err(discovery::none(connection)) } else { Ok(found) }
}

/// Returns the subsystems that a discovery service leads to.
fn shown_by(connection: &Connection) -> Result<Vec<Request>, Failure> {
    let mut found = Vec::new();
    for Shown { nqn, connection, requires_tls } in discovery::shown(connection)? {
        let paths = connection.paths(&nqn);
        found.extend(paths.into_iter().map(|path| Request { nqn: nqn.clone(), path, requires_tls }));
    }
    Ok(found)
}

/// An address without its port, as the kernel and nvme-cli read it.
pub(super) fn traddr(address: SocketAddr) -> String {
    NetAddress::from(address).host()
}

impl Request {
    /// The options, in nvme-cli's order; `keys` are those that the kernel has for it.
    ///
    /// # Errors
    /// When the kernel could not read one of them.
    pub(super) fn options(
        &self,
        flags: &ConnectFlags,
        queues: Option<u16>,
        keys: Option<KernelKeys>,
    ) -> Result<FabricsOptions, Failure> {
        self.try_options(flags, queues, keys.unwrap_or_default()).map_err(Failure::usage)
    }

    fn try_options(
        &self,
        flags: &ConnectFlags,
        queues: Option<u16>,
        keys: KernelKeys,
    ) -> Result<FabricsOptions, String> {
        let Self { nqn, path, .. } = self;
        let (kernel, connection) = (&flags.kernel, &flags.connection);
        let mut options = FabricsOptions::default();
        options.set("nqn", Some(nqn))?;
        options.set("transport", Some("tcp"))?;
        options.set("traddr", Some(traddr(path.address)))?;
        options.set("host_traddr", path.host_traddr)?;
        options.set("host_iface", path.host_iface.as_ref())?;
        options.set("trsvcid", Some(path.address.port()))?;
        options.set("hostnqn", Some(&path.host.nqn))?;
        options.set("hostid", Some(Uuid::from_bytes(path.host.id)))?;
        let secrets = path.secrets.as_deref();
        options.set_secret("dhchap_secret", secrets.map(|secrets| secrets.secret.reveal()))?;
        let controller_secret = secrets.and_then(|secrets| secrets.controller_secret.as_ref());
        options.set_secret("dhchap_ctrl_secret", controller_secret.map(|secret| secret.reveal()))?;
        options.set("nr_io_queues", queues)?;
        options.set("nr_write_queues", kernel.nr_write_queues)?;
        options.set("nr_poll_queues", kernel.nr_poll_queues)?;
        options.set("queue_size", kernel.queue_size)?;
        options.set("keep_alive_tmo", connection.keep_alive_tmo)?;
        options.set("reconnect_delay", kernel.reconnect_delay)?;
        options.set("ctrl_loss_tmo", kernel.ctrl_loss_tmo)?;
        options.set("fast_io_fail_tmo", kernel.fast_io_fail_tmo)?;
        options.set("tos", connection.tos)?;
        options.set("tclass", connection.tclass)?;
        options.set("keyring", keys.keyring)?;
        options.set("tls_key", keys.key)?;
        options.flag("duplicate_connect", kernel.duplicate_connect);
        options.flag("disable_sqflow", kernel.disable_sqflow);
        options.flag("hdr_digest", path.digests.header);
        options.flag("data_digest", path.digests.data);
        options.flag("tls", path.tls.is_some());
        options.flag("concat", path.concat);
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &str) -> Vec<String> {
        let flags = ConnectFlags::of(arguments);
        let connection = Connection::new(&flags.connection).unwrap();
        let requests = requests(&flags, &connection).unwrap();
        let text = |request: &Request| {
            let options = request.options(&flags, flags.kernel.nr_io_queues, None).unwrap();
            assert_eq!(*options.reveal(), options.to_string(), "no secret here");
            options.to_string()
        };
        requests.iter().map(text).collect()
    }

    const HOST: &str = "-q nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd";
    const HOST_OPTIONS: &str = "hostnqn=nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd,\
        hostid=1b4e28ba-2fa1-11d2-883f-0016d3ccabcd";

    #[test]
    fn flags_become_what_the_kernel_reads() {
        assert_eq!(
            options(&format!("-a 127.0.0.1 -n nqn.a {HOST}")),
            [format!("nqn=nqn.a,transport=tcp,traddr=127.0.0.1,trsvcid=4420,{HOST_OPTIONS}")]
        );
        let all = "-w 127.0.0.9 -f lo -s 1 -i 2 -W 3 -P 4 -Q 64 -k 30 -c 5 -l -1 -F 7 -T 8 -D -d -g -G";
        assert_eq!(
            options(&format!("-a ::1,127.0.0.1 -n nqn.a {HOST} {all}").replace("::1,", "")),
            [format!(
                "nqn=nqn.a,transport=tcp,traddr=127.0.0.1,host_traddr=127.0.0.9,host_iface=lo,trsvcid=1,{HOST_OPTIONS},\
                 nr_io_queues=2,nr_write_queues=3,nr_poll_queues=4,queue_size=64,keep_alive_tmo=30,reconnect_delay=5,\
                 ctrl_loss_tmo=-1,fast_io_fail_tmo=7,tos=8,duplicate_connect,disable_sqflow,hdr_digest,data_digest"
            )]
        );
        assert!(options(&format!("-a ::1 -n nqn.a {HOST} --tclass 72"))[0].ends_with(",tclass=72"));
        let two = options(&format!("-a ::1 -a 127.0.0.1:1 -n nqn.a {HOST}"));
        assert!(two[0].contains("traddr=::1,trsvcid=4420") && two[1].contains("traddr=127.0.0.1,trsvcid=1"));
    }

    #[test]
    fn addresses_of_a_link_go_with_it() {
        let address: NetAddress = "[fe80::1%lo]:4420".parse().unwrap();
        assert_eq!(traddr(address.socket_addr().unwrap()), "fe80::1%lo");
        assert_eq!(traddr("[::1]:1".parse().unwrap()), "::1");
    }

    #[test]
    fn one_flag_cannot_bring_another_option() {
        let flags = ConnectFlags::of("-a 127.0.0.1 -n nqn.a -k 5");
        let connection = Connection::new(&flags.connection).unwrap();
        let mut requests = requests(&flags, &connection).unwrap();
        requests[0].path.host_iface = Some("eth0,tls".to_owned());
        let refused = requests[0].options(&flags, None, None).err().and_then(|failure| failure.line());
        assert!(refused.unwrap().contains("host_iface"));
    }
}
