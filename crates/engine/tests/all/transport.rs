//! TCP and MPTCP at both ends: what really carries a connection is what both ends say, whatever one end wanted, and
//! congestion control is what was asked for.

use prerequisite::{missing, wait_for};
use std::io;
use std::net::SocketAddr;

use crate::raw_host::configure;
use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, Volume};
use engine::limits::NEAR_PATH_SEND_BUFFER_LENGTH;
use engine::ring::tcp::{TcpListener, connect_start, listen, stream_info};
use engine::ring::{Engine, Socket, Span, SpanMut};
use engine::target::{
    Change, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig, TargetError,
};
use engine::transport::{ConnectionOptions, ListenOptions, StreamInfo, Transport, congestion};
use rustix::net::sockopt;

const NQN: &str = "nqn.2014-08.org.example:test";

/// True if the kernel has MPTCP; where it has not, there is nothing to be tested.
fn has_mptcp() -> bool {
    match open(Transport::Mptcp, None) {
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            missing(error);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn open(transport: Transport, congestion: Option<&str>) -> io::Result<TcpListener> {
    let options = ListenOptions { transport, congestion, backlog: 16 };
    listen("127.0.0.1:0".parse().unwrap(), &options)
}

/// A connection to the listener: the accepting end and the connecting one.
fn connect(listener: &TcpListener, options: &ConnectionOptions<'_>) -> (Socket, Socket) {
    let pending = connect_start(listener.address(), options).unwrap();
    wait_for("a connection", || pending.is_made().unwrap().then_some(()));
    let client = pending.into_socket().unwrap();
    // MPTCP is agreed on with the first byte that goes each way.
    assert_eq!(client.send(&[Span::new(b"hello")]).unwrap(), 5);
    let (server, peer) = wait_for("a peer", || listener.accept().ok());
    assert_eq!(peer.ip(), listener.address().ip());
    receive(&server, b"hello");
    assert_eq!(server.send(&[Span::new(b"welcome")]).unwrap(), 7);
    receive(&client, b"welcome");
    (server, client)
}

fn receive(socket: &Socket, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    let mut length = 0;
    wait_for("bytes", || {
        length += socket.receive(&mut [SpanMut::new(&mut bytes[length..])]).unwrap_or(0);
        (length == expected.len()).then_some(())
    });
    assert_eq!(bytes, expected);
}

fn check_ends(ends: &[(&str, &Socket)], transport: Transport) -> Vec<StreamInfo> {
    let infos = ends.iter().map(|(name, socket)| {
        let info = stream_info(*socket).unwrap();
        assert_eq!(info.transport, transport, "{name}: {info:?}");
        assert_eq!(info.subflows.len(), 1, "one way on the loopback, {name}: {info:?}");
        assert!(info.rtt_us > 0 && info.congestion_window > 0, "{name}: {info:?}");
        // Each has got the other's greeting.
        assert!(info.received_bytes >= 5 && info.acknowledged_bytes > 0, "{name}: {info:?}");
        info
    });
    let infos: Vec<StreamInfo> = infos.collect();
    let [server, client] = [&infos[0].subflows[0], &infos[1].subflows[0]];
    assert_eq!((server.local, server.remote), (client.remote, client.local), "both report one connection");
    infos
}

#[test]
fn what_carries_a_connection_is_what_both_ends_have() {
    if !has_mptcp() {
        return;
    }
    let (tcp, mptcp) = (Transport::Tcp, Transport::Mptcp);
    for (listening, connecting, real) in
        [(mptcp, mptcp, mptcp), (mptcp, tcp, tcp), (tcp, mptcp, tcp), (tcp, tcp, tcp)]
    {
        println!("{connecting} to {listening}");
        let listener = open(listening, None).unwrap();
        let options = ConnectionOptions { transport: connecting, ..ConnectionOptions::default() };
        let (server, client) = connect(&listener, &options);
        let infos = check_ends(&[("server", &server), ("client", &client)], real);
        assert_eq!(infos[1].subflows[0].remote, listener.address());
    }
}

/// A port that is free at this moment.
fn free_port() -> u16 {
    open(Transport::Tcp, None).unwrap().address().port()
}

#[test]
fn a_connection_comes_from_the_first_port_that_is_free() {
    let listener = open(Transport::Tcp, None).unwrap();
    let taken = open(Transport::Tcp, None).unwrap();
    let in_use = taken.address().port();
    let local = |socket: &Socket| stream_info(socket).unwrap().subflows[0].local;
    let address: std::net::IpAddr = "127.0.0.1".parse().unwrap();
    for host_traddr in [None, Some(address)] {
        let ports = [in_use, free_port(), free_port()];
        let options = ConnectionOptions { source_ports: &ports, host_traddr, ..ConnectionOptions::default() };
        let (_server, client) = connect(&listener, &options);
        assert_eq!(local(&client), SocketAddr::new(address, ports[1]), "{ports:?}");
        let (_server, second) = connect(&listener, &options);
        assert_eq!(local(&second).port(), ports[2], "the one before has {}", ports[1]);
        let (_server, third) = connect(&listener, &options);
        assert!(!ports.contains(&local(&third).port()), "all of {ports:?} are taken");
    }
}

#[test]
fn ipv6_and_its_wildcard_carry_both() {
    if !has_mptcp() {
        return;
    }
    let options = ListenOptions { transport: Transport::Mptcp, congestion: None, backlog: 16 };
    let Ok(listener) = listen("[::]:0".parse().unwrap(), &options) else {
        return missing("this machine has no IPv6");
    };
    let service = listener.address().port();
    for address in [SocketAddr::from(([127, 0, 0, 1], service)), format!("[::1]:{service}").parse().unwrap()]
    {
        let options = ConnectionOptions { transport: Transport::Mptcp, ..ConnectionOptions::default() };
        let client = connect_start(address, &options).unwrap();
        wait_for("a connection", || client.is_made().unwrap().then_some(()));
        let (server, _) = wait_for("a peer", || listener.accept().ok());
        let info = stream_info(&server).unwrap();
        assert_eq!(info.transport, Transport::Mptcp);
        assert_eq!(info.subflows[0].local, address, "IPv4 is reported as IPv4");
    }
}

#[test]
fn packets_are_marked_as_asked_for() {
    let transports: &[Transport] =
        if has_mptcp() { &[Transport::Tcp, Transport::Mptcp] } else { &[Transport::Tcp] };
    let both = (Some(0x28), Some(0x48));
    // Listener, options, and the marks of the socket that connects to it.
    let cases = [
        ("127.0.0.1:0", both, (0x28, None)),
        ("[::1]:0", both, (0x28, Some(0x48))),
        ("[::ffff:127.0.0.1]:0", both, (0x28, Some(0x48))),
        ("[::ffff:127.0.0.1]:0", (None, Some(0x48)), (0x48, Some(0x48))),
        ("[::ffff:127.0.0.1]:0", (Some(0x28), None), (0x28, Some(0))),
    ];
    for (&transport, (address, (tos, tclass), expected)) in
        transports.iter().flat_map(|transport| cases.iter().map(move |case| (transport, *case)))
    {
        let address: SocketAddr = address.parse().unwrap();
        let Ok(listener) = listen(address, &ListenOptions { transport, congestion: None, backlog: 16 })
        else {
            missing("this machine has no IPv6");
            continue;
        };
        let options = ConnectionOptions { transport, tos, tclass, ..ConnectionOptions::default() };
        if transport == Transport::Mptcp && address.ip().to_canonical().is_ipv6() {
            // Linux 6.18 does not do it.
            let Err(refused) = connect_start(listener.address(), &options) else { continue };
            assert_eq!(refused.kind(), io::ErrorKind::Unsupported, "{refused}");
            assert!(refused.to_string().contains("--tclass"), "{refused}");
            continue;
        }
        let (_, client) = connect(&listener, &options);
        assert_eq!(sockopt::ip_tos(&client).unwrap(), expected.0, "{transport} to {address}");
        if let (Some(tclass), Transport::Tcp) = (expected.1, transport) {
            assert_eq!(sockopt::ipv6_tclass(&client).unwrap(), tclass, "{transport} to {address}");
        }
    }
}

#[test]
fn connections_have_the_congestion_control_that_was_asked_for() {
    let transports: &[Transport] =
        if has_mptcp() { &[Transport::Tcp, Transport::Mptcp] } else { &[Transport::Tcp] };
    for &transport in transports {
        let plain = open(transport, None).unwrap();
        let options = ConnectionOptions { transport, ..ConnectionOptions::default() };
        let (server, client) = connect(&plain, &options);
        let system = stream_info(&server).unwrap().congestion;
        assert_eq!(stream_info(&client).unwrap().congestion, system);
        let mut names = vec!["reno"];
        names.extend(congestion::choice(Some(congestion::AUTO)));
        for name in names {
            let listener = open(transport, Some(name)).unwrap();
            let (server, client) = connect(&listener, &options);
            assert_eq!(stream_info(&server).unwrap().congestion, name, "accepted with {transport}");
            assert_eq!(stream_info(&client).unwrap().congestion, system, "its peer's is its own");
            let options = ConnectionOptions { congestion: Some(name), ..options };
            let (server, client) = connect(&plain, &options);
            assert_eq!(stream_info(&client).unwrap().congestion, name, "connected with {transport}");
            assert_eq!(stream_info(&server).unwrap().congestion, system);
        }
        plain.set_congestion(Some("reno")).unwrap();
        assert_eq!(stream_info(&connect(&plain, &options).0).unwrap().congestion, "reno");
        plain.set_congestion(None).unwrap();
        assert_eq!(stream_info(&connect(&plain, &options).0).unwrap().congestion, system);
        for error in [
            open(transport, Some("nonsense")).unwrap_err(),
            connect_start(
                plain.address(),
                &ConnectionOptions { congestion: Some("nonsense"), transport, ..Default::default() },
            )
            .unwrap_err(),
            plain.set_congestion(Some("nonsense")).unwrap_err(),
        ] {
            let message = error.to_string();
            assert!(message.contains("nonsense") && message.contains("reno"), "{transport}: {message}");
        }
    }
}

#[test]
fn only_near_peers_without_a_configured_send_buffer_have_a_bounded_one() {
    let length = |socket: &Socket| sockopt::socket_send_buffer_size(socket).unwrap();
    // As the kernel counts it, which may allow less.
    let bound = {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sockopt::set_socket_send_buffer_size(&socket, NEAR_PATH_SEND_BUFFER_LENGTH).unwrap();
        sockopt::socket_send_buffer_size(&socket).unwrap()
    };
    let listener = open(Transport::Tcp, None).unwrap();
    // Beside other work, the first round trip may take longer than those of near peers.
    wait_for("two near ends", || {
        let (server, client) = connect(&listener, &ConnectionOptions::default());
        ((length(&server), length(&client)) == (bound, bound)).then_some(())
    });
    let chosen = ConnectionOptions { send_buffer: Some(64 << 10), ..ConnectionOptions::default() };
    assert_eq!(length(&connect(&listener, &chosen).1), 128 << 10);
    if has_mptcp() {
        let transport = Transport::Mptcp;
        let listener = open(transport, None).unwrap();
        let (server, client) =
            connect(&listener, &ConnectionOptions { transport, ..ConnectionOptions::default() });
        assert!(length(&server) != bound && length(&client) != bound, "it may get other paths");
    }
}

#[test]
fn bytes_in_the_queues_of_a_socket_are_reported() {
    let transports: &[Transport] =
        if has_mptcp() { &[Transport::Tcp, Transport::Mptcp] } else { &[Transport::Tcp] };
    for &transport in transports {
        let listener = open(transport, None).unwrap();
        let options = ConnectionOptions { transport, ..ConnectionOptions::default() };
        let (server, client) = connect(&listener, &options);
        wait_for("empty queues", || {
            let info = stream_info(&client).unwrap();
            ((info.unread_bytes, info.unsent_bytes) == (0, 0)).then_some(())
        });
        client.send(&[Span::new(&[7; 1000])]).unwrap();
        wait_for("unread bytes", || (stream_info(&server).unwrap().unread_bytes == 1000).then_some(()));
        let block = vec![7; 1 << 20];
        // Until nothing more is taken, without a reader.
        let mut idle = 0;
        wait_for("a full socket", || {
            idle = if client.send(&[Span::new(&block)]).is_ok() { 0 } else { idle + 1 };
            (idle > 50).then_some(())
        });
        let info = stream_info(&client).unwrap();
        assert!(info.unsent_bytes > 0, "{transport}: {info:?}");
        assert!(stream_info(&server).unwrap().unread_bytes > 1000, "{transport}");
        drop(server);
        wait_for("the end", || {
            client.send(&[Span::new(b"x")]).err().filter(|error| error.kind() != io::ErrorKind::WouldBlock)
        });
    }
}

fn start(port: PortConfig) -> Result<Target, TargetError> {
    let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 16 << 20 }, 4096);
    let subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
    let mut config =
        TargetConfig { reactors: Reactors::Count(2), ..configure(Engine::Automatic, vec![subsystem]) };
    config.fabric.ports = vec![port];
    Target::start(&config)
}

fn port() -> PortConfig {
    PortConfig::new(1, "127.0.0.1:0".parse().unwrap())
}

/// Reports of the target about the connections of its only controller.
fn streams(target: &Target) -> Vec<StreamInfo> {
    let mut status = target.status();
    assert_eq!(status.controllers.len(), 1);
    let queues = status.controllers.remove(0).queues;
    queues.into_iter().map(|queue| queue.stream.expect("the queue is there")).collect()
}

#[test]
fn a_port_with_mptcp_serves_hosts_with_and_without_it() {
    if !has_mptcp() {
        return;
    }
    let (tcp, mptcp) = (Transport::Tcp, Transport::Mptcp);
    for (served, wanted, real) in [(mptcp, mptcp, mptcp), (mptcp, tcp, tcp), (tcp, mptcp, tcp)] {
        for engine in [Engine::IoUring, Engine::Epoll] {
            let target =
                start(PortConfig { transport: served, congestion: Some("reno".to_owned()), ..port() });
            let target = target.unwrap();
            assert_eq!(target.status().ports[0].transport, served);
            let options =
                ConnectOptions { transport: wanted, engine, ..ConnectOptions::new(target.ports()[0], NQN) };
            let controller = Controller::connect(options.clone()).unwrap();
            let namespace = Volume::on_controller(&controller, 1).unwrap();
            let mut data: Vec<u8> = (0..3 << 20).map(|at| (at % 251) as u8).collect();
            namespace.write_at(4096, &data).unwrap();
            let written = data.clone();
            data.fill(0);
            namespace.read_at(4096, &mut data).unwrap();
            assert!(data == written, "{wanted} to {served}");
            let streams = streams(&target);
            assert!(streams.len() >= 2, "an admin queue and an I/O queue");
            for stream in streams {
                assert_eq!(stream.transport, real, "{wanted} to {served}: {stream:?}");
                assert_eq!(stream.congestion, "reno");
            }
            drop(namespace);
            controller.disconnect().unwrap();
        }
    }
}

#[test]
fn the_congestion_control_of_a_port_changes_while_it_is_open() {
    let target = start(PortConfig { congestion: Some("reno".to_owned()), ..port() }).unwrap();
    let connect = || Controller::connect(ConnectOptions::new(target.ports()[0], NQN)).unwrap();
    let controller = connect();
    assert!(streams(&target).iter().all(|stream| stream.congestion == "reno"));
    let mut fabric = target.config();
    fabric.ports[0].congestion = Some(congestion::SYSTEM.to_owned());
    assert_eq!(target.apply(&fabric).unwrap(), [Change::PortCongestionChanged { port: 1 }]);
    assert!(streams(&target).iter().all(|stream| stream.congestion == "reno"), "those there are stay");
    controller.disconnect().unwrap();
    wait_for("the end of a controller", || target.status().controllers.is_empty().then_some(()));
    let controller = connect();
    let listener = open(Transport::Tcp, None).unwrap();
    let system = stream_info(&connect_plain(&listener)).unwrap().congestion;
    assert!(streams(&target).iter().all(|stream| stream.congestion == system));

    for (wrong, reason) in
        [("nonsense", "reno"), ("", "not the name"), ("longer than it can be", "not the name")]
    {
        fabric.ports[0].congestion = Some(wrong.to_owned());
        let error = target.apply(&fabric).unwrap_err().to_string();
        assert!(error.contains(wrong) && error.contains(reason), "{error}");
    }
    fabric.ports[0].congestion = Some(congestion::SYSTEM.to_owned());
    fabric.ports[0].transport = Transport::Mptcp;
    let error = target.apply(&fabric).unwrap_err().to_string();
    assert!(error.contains("cannot become mptcp"), "{error}");
    assert!(controller.namespace(1).is_ok(), "what was refused changed nothing");
    let error = start(PortConfig { congestion: Some("nonsense".to_owned()), ..port() }).unwrap_err();
    assert!(error.to_string().contains("reno"), "{error}");
}

fn connect_plain(listener: &TcpListener) -> Socket {
    connect(listener, &ConnectionOptions::default()).0
}
