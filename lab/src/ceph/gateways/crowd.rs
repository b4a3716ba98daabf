//! A crowd at all gateways of a group, which claims the name of a host with a secret and never proves it: it takes no
//! controller, and no place from others, also while a gateway is taken over and comes back. It keeps out how gateways and
//! hosts are run.

use std::io::{Error, Result as Answer, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use engine::limits::PROMISED_IDS_PER_NETWORK_MAX;
use engine::target::Measured;

use super::group::{Gateway, Group, NQN};
use super::rounds::{RANGE_MIB, Rounds, has_states, ms};
use crate::answer;
use crate::ceph::testbed::soon;
use crate::chaos::raise_descriptors;
use crate::chaos::wire::{self, Connect};
use crate::namespace;

/// Strangers at each gateway: twice as many as are promised an identifier at a time.
const STRANGERS: usize = 2 * PROMISED_IDS_PER_NETWORK_MAX;
/// Number of the host whose name they claim.
const CLAIMED: u64 = 0xc0de;
/// Port of all gateways.
const PORT: u16 = 4420;
/// Time for which hosts write.
const RUNTIME_S: u64 = 40;
/// Time for an answer to a stranger.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bits of the answer to a Connect that ask for authentication (AUTHREQ, Base 6.3).
const AUTHENTICATION_REQUIRED: u32 = 0x6_0000;

impl Rounds {
    /// Gathers strangers at all gateways, has hosts come, and kills a gateway.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn withstand_crowd(&mut self) -> Result<(), String> {
        raise_descriptors()?;
        let [victim, other] = self.two_gateways();
        let nsids = self.nsids([victim, other]);
        let secret = self.group.key.with_file_name("crowd.key");
        give_secret(&self.group, &secret)?;
        let mut hosts = self.start_hosts(nsids, RUNTIME_S, RANGE_MIB, false)?;
        let count = self.group.gateways.len();
        let mut crowds = Vec::new();
        for number in 0..count {
            crowds.push(gather(&self.group, number)?);
        }
        let entered = self.enters_by_secret(nsids[0], victim, &secret)?;
        self.has_states(nsids[1], other)?;
        let began = Instant::now();
        self.group.gateways[victim].daemon.kill();
        let takeover = self.group.await_takeover(victim, began)?;
        self.group.gateways[victim].daemon.start()?;
        let back = Instant::now();
        soon("an answer of the gateway that was killed", || self.group.gateways[victim].status())?;
        crowds[victim] = gather(&self.group, victim)?;
        let group = self.group.gateways[victim].group;
        let returned = self.group.await_service(victim, group, back)?;
        if hosts.hit.has_ended() {
            return Err("the host has ended before the gateway was back".to_owned());
        }
        let again = self.enters_by_secret(nsids[0], victim, &secret)?;
        let mut deeds = hosts.finish()?;
        drop(crowds);
        deeds.add(&hosts.check()?);
        self.group.await_rest()?;
        println!(
            "        beside {STRANGERS} strangers at each gateway the host with the name reads after {} ms and {} ms; taken over \
             after {} ms, given back after {} ms; worst stall {} ms (of the other's host {} ms); {deeds}",
            ms(entered),
            ms(again),
            ms(takeover),
            ms(returned),
            hosts.hit.worst_ms()?,
            hosts.beside.worst_ms()?,
        );
        Ok(())
    }

    /// Time until the host whose name the strangers claim has read from a namespace of this gateway, with a path to each.
    fn enters_by_secret(&self, nsid: u32, gateway: usize, secret: &Path) -> Result<Duration, String> {
        let name = wire::host_nqn(CLAIMED);
        let (began, secret) = (Instant::now(), secret.display().to_string());
        let identifier = name.rsplit(':').next().unwrap_or_default();
        let host = ["-q", name.as_str(), "-I", identifier, "-S", secret.as_str()];
        let paths = self.group.paths_of(nsid, &host)?;
        has_states(&paths, &self.group.gateways[gateway].address, self.group.gateways.len())?;
        Ok(began.elapsed())
    }
}

/// Gives the host whose name is claimed a secret in this file.
fn give_secret(group: &Group, file: &Path) -> Result<(), String> {
    let _ = std::fs::remove_file(file);
    let text = file.display().to_string();
    group.generate_secret(&text)?;
    group.administer(0, &["host", "set-key", NQN, &wire::host_nqn(CLAIMED), "--dhchap-secret-file", &text])
}

/// Strangers at a gateway, which stay as long as the result: none has a controller, and most have no identifier either.
fn gather(group: &Group, number: usize) -> Result<Vec<TcpStream>, String> {
    let gateway = &group.gateways[number];
    let address: SocketAddr =
        format!("{}:{PORT}", gateway.address).parse().map_err(|_| "no address of a gateway".to_owned())?;
    let (name, former) = (gateway.name, taken_back(gateway)?);
    let strangers = namespace::inside(group.network.names().1, || {
        // The gateway may be about to read the secret.
        answer::await_some("a stranger is asked for a secret", || {
            come(address).map_err(|error| error.to_string())
        })?;
        let all = (0..STRANGERS).map(|_| come(address)).collect::<Answer<Vec<TcpStream>>>();
        all.map_err(|error| format!("a stranger at gateway {name}: {error}"))
    })?;
    let claimed = wire::host_nqn(CLAIMED);
    if group.connections(number)?.iter().any(|controller| controller["host_nqn"] == claimed.as_str()) {
        return Err(format!("gateway {name} has given a stranger a controller"));
    }
    let lost = taken_back(gateway)? - former;
    let least = (STRANGERS - PROMISED_IDS_PER_NETWORK_MAX) as u64;
    if lost < least {
        return Err(format!("gateway {name} took {lost} identifiers back, and not {least}"));
    }
    Ok(strangers)
}

/// A stranger that is asked to authenticate, and says nothing more.
fn come(address: SocketAddr) -> Answer<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(&wire::ic_request())?;
    wire::read_pdu(&mut stream)?;
    // Without a keep alive time-out it may take two minutes to authenticate.
    let connect = Connect {
        host: CLAIMED,
        subsystem: NQN,
        queue: 0,
        controller: 0xffff,
        entries: 32,
        keep_alive_ms: 0,
    };
    stream.write_all(&connect.pdu())?;
    match wire::completion(&wire::read_pdu(&mut stream)?) {
        Some((word, 0)) if word & AUTHENTICATION_REQUIRED != 0 => Ok(stream),
        Some((_, 0)) => Err(Error::other("a controller without authentication")),
        other => Err(Error::other(format!("the answer to a Connect is {other:x?}"))),
    }
}

/// Number of promised identifiers that a gateway has taken back.
fn taken_back(gateway: &Gateway) -> Result<u64, String> {
    let metrics = gateway.metrics()?;
    let is_it = |sample: &Measured<'_>| {
        sample.name == "selvedge_connect_refusals_total" && sample.label("rule") == "promised_controllers"
    };
    Ok(Measured::all(&metrics).filter(is_it).map(|sample| sample.count()).sum())
}
