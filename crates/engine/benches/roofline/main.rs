//! Speed of the target beside that of bare sockets on this machine: the same client, the same requests and
//! answers, once from servers that do nothing but answer and once from the target. It asserts no figure.

mod bare;
mod client;
mod pair;
mod report;
mod sealed;

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::ring::core;
use engine::target::{
    FabricConfig, HostKeyConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};

use bare::{BareServer, Style};
use client::{Direction, Opening, Run};
use report::{Report, Sample};

/// Bytes that random blocks are read from.
const SPAN: u64 = 256 << 20;
const NQN: &str = "nqn.2026-01.io.selvedge:roofline";

/// Connections and depth of each.
const CASES: [Case; 4] = [
    Case { connections: 1, depth: 1 },
    Case { connections: 1, depth: 32 },
    Case { connections: 1, depth: 128 },
    Case { connections: 4, depth: 32 },
];

#[derive(Clone, Copy)]
struct Case {
    connections: usize,
    depth: usize,
}

/// Server that answers.
#[derive(Clone, Copy)]
enum Server {
    Bare(Style),
    Target { nsid: u32, name: &'static str },
}

const SERVERS: [Server; 5] = [
    Server::Bare(Style::Busy),
    Server::Bare(Style::Epoll),
    Server::Bare(Style::Uring),
    Server::Target { nsid: 1, name: "target, memory" },
    Server::Target { nsid: 2, name: "target, null" },
];

impl Server {
    const fn name(self) -> &'static str {
        match self {
            Server::Bare(style) => style.name(),
            Server::Target { name, .. } => name,
        }
    }
}

struct Options {
    direction: Direction,
    seconds: f64,
    rounds: usize,
    output: Option<std::path::PathBuf>,
    only: Option<String>,
    is_tls: bool,
    /// Pair of `lab peers`, which asks for this alone.
    pair: Option<String>,
    cpus: Option<String>,
}

fn main() {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("roofline: {message}");
            eprintln!(
                "options: --rw randread|randwrite  --tls  --seconds S  --rounds N  --output DIR  --only PART-OF-A-NAME"
            );
            std::process::exit(2);
        }
    };
    if let Some(pair) = &options.pair {
        let run = pair::run(pair, options.cpus.as_deref().unwrap_or("0,1"), options.seconds);
        match run {
            Ok(line) => println!("{line}"),
            Err(reason) => {
                eprintln!("roofline: {reason}");
                std::process::exit(2);
            }
        }
        return;
    }
    let cpus = core::available();
    let [client_cpu, server_cpu, ..] = cpus[..] else {
        eprintln!("roofline: it needs two processors, one for the server and one for the client");
        std::process::exit(1);
    };
    let folder = tempfile::tempdir().expect("a folder");
    let target = start_target(server_cpu, options.is_tls.then_some(folder.path()));
    core::pin_to(client_cpu).expect("the client's processor");
    // Every page is really there then, as it is for the bare servers.
    client::fill((target.ports()[0], options.is_tls), NQN, 1, SPAN);
    let mut report = Report::new((options.direction, options.is_tls), &options.output, options.seconds);
    for case in CASES {
        for round in 0..options.rounds {
            for server in SERVERS {
                if options
                    .only
                    .as_ref()
                    .is_some_and(|only| !only.split('|').any(|part| server.name().contains(part)))
                {
                    continue;
                }
                let per_second = measure(server, case, &target, server_cpu, &options);
                report.add(Sample {
                    server: server.name(),
                    connections: case.connections,
                    depth: case.depth,
                    round,
                    per_second,
                });
            }
        }
    }
    report.finish();
    target.shutdown();
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        direction: Direction::Read,
        seconds: 1.0,
        rounds: 5,
        output: None,
        only: None,
        is_tls: false,
        pair: None,
        cpus: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        // Cargo passes this one to every benchmark.
        if word == "--bench" {
            continue;
        }
        if word == "--tls" {
            options.is_tls = true;
            continue;
        }
        let value = words.next().ok_or(format!("{word} wants a value"))?;
        let wrong = |_| format!("{word} {value}: not a number");
        match word.as_str() {
            "--rw" => {
                let unknown = format!("{word} {value}: there are randread and randwrite");
                options.direction = Direction::of(&value).ok_or(unknown)?;
            }
            "--seconds" => options.seconds = value.parse().map_err(wrong)?,
            "--rounds" => {
                options.rounds = value.parse().map_err(|_| format!("{word} {value}: not a number"))?;
            }
            "--output" => options.output = Some(value.into()),
            "--only" => options.only = Some(value),
            "--pair" => options.pair = Some(value),
            "--cpus" => options.cpus = Some(value),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    Ok(options)
}

/// With a folder for keys, its connections are TLS.
fn start_target(cpu: usize, keys: Option<&Path>) -> Target {
    let namespace = |nsid, backend| NamespaceConfig::new(nsid, backend, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "roofline", "Selvedge").with(vec![
        namespace(1, BackendConfig::Memory { size: SPAN }),
        namespace(2, BackendConfig::Null { size: SPAN }),
    ]);
    if let Some(folder) = keys {
        let file = folder.join("key");
        std::fs::write(&file, sealed::key().reveal().as_bytes()).expect("a file for the key");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
        subsystem.host_keys = vec![HostKeyConfig::tls(client::HOST, file)];
    }
    let config = TargetConfig {
        fabric: FabricConfig {
            ports: vec![PortConfig::new(1, SocketAddr::from(([127, 0, 0, 1], 0)))],
            subsystems: vec![subsystem],
            ..FabricConfig::default()
        },
        reactors: Reactors::Cpus(vec![cpu]),
        ..TargetConfig::default()
    };
    Target::start(&config).expect("the target starts")
}

fn measure(server: Server, case: Case, target: &Target, server_cpu: usize, options: &Options) -> f64 {
    let run = |address, opening| {
        let Case { connections, depth } = case;
        let (direction, is_tls) = (options.direction, options.is_tls);
        Run { address, connections, depth, blocks: SPAN / 4096, opening, direction, is_tls }
            .per_second(Duration::from_secs_f64(options.seconds))
    };
    match server {
        Server::Bare(style) => {
            let style = (style, options.is_tls);
            let server = BareServer::start(style, server_cpu, SPAN, case.connections, options.direction);
            run(server.address(), Opening::None)
        }
        Server::Target { nsid, .. } => run(target.ports()[0], Opening::Nvme { nqn: NQN, nsid }),
    }
}
