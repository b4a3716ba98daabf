//! The bare server and the client alone, once, as one line of JSON: what `lab peers` measures others against. It keeps out
//! servers that speak NVMe/TCP.

use std::time::Duration;

use engine::ring::core;
use serde_json::json;

use super::SPAN;
use super::bare::{BareServer, Style};
use super::client::{BLOCK, Direction, Opening, Run};

/// Runs `what`, which is `RW,4096,DEPTH,CONNECTIONS`, the server on the first of two processors and the client on
/// the second. DEPTH counts over all connections.
///
/// # Errors
/// The bare pair cannot do this.
pub(crate) fn run(what: &str, cpus: &str, seconds: f64) -> Result<String, String> {
    let [rw, block, depth, connections] = what.split(',').collect::<Vec<_>>()[..] else {
        return Err(format!("--pair {what}: not RW,BLOCK,DEPTH,CONNECTIONS"));
    };
    let direction = Direction::of(rw).filter(|_| block == BLOCK.to_string());
    let Some(direction) = direction else {
        return Err(format!("--pair {what}: the bare pair only does randread,{BLOCK} and randwrite,{BLOCK}"));
    };
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("`{text}` is not a number"));
    let (depth, connections) = (number(depth)?, number(connections)?);
    if connections == 0 || depth < connections {
        return Err(format!("--pair {what}: fewer commands than connections"));
    }
    let (server_cpu, client_cpu) =
        cpus.split_once(',').ok_or(format!("--cpus {cpus}: not two processors"))?;
    let (server_cpu, client_cpu) = (number(server_cpu)?, number(client_cpu)?);
    let server = BareServer::start((Style::Busy, false), server_cpu, SPAN, connections, direction);
    core::pin_to(client_cpu).map_err(|error| error.to_string())?;
    let before = core::thread_time();
    let run = Run {
        address: server.address(),
        connections,
        depth: depth / connections,
        blocks: SPAN / BLOCK as u64,
        opening: Opening::None,
        direction,
        is_tls: false,
    };
    let iops = run.per_second(Duration::from_secs_f64(seconds));
    let client_s = core::thread_time().saturating_sub(before).as_secs_f64();
    let server_s = server.finish().as_secs_f64();
    let line =
        json!({ "iops": iops, "requests": iops * seconds, "server_s": server_s, "client_s": client_s });
    Ok(line.to_string())
}
