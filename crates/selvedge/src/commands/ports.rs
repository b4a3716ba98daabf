//! `selvedge listener` and `selvedge referral`: where a running target listens, and where else hosts may look.

use engine::address::{HostAddress, NetAddress};
use engine::target::ReferralConfig;
use engine::transport::Transport;
use hyper::Method;
use serde_json::{Value, json};

use super::ask::{cell, client, done, items, tell};
use super::fabric::table;
use crate::control::client::{Client, encode};
use crate::failure::Failure;
use crate::flags::control::{ControlFlags, ListenerAction, ReferralAction};
use crate::spec::service::{DISCOVERY_SERVICE_DEFAULT, SERVICE_DEFAULT};

/// Runs `selvedge listener`.
pub(super) fn listener(action: &ListenerAction) -> Result<(), Failure> {
    match action {
        ListenerAction::Add {
            address,
            trsvcid,
            id,
            transport,
            congestion,
            tls,
            advertise,
            discovery_only,
            control,
        } => {
            let written: HostAddress = address.parse().map_err(Failure::usage)?;
            let addresses = written.local(*trsvcid).map_err(Failure::failed)?;
            if let (Some(_), [_, _, ..]) = (id, addresses.as_slice()) {
                let all = shown(&addresses);
                return Err(Failure::usage(format!(
                    "--id is one listener's, and {address} has several addresses: name one of {all}"
                )));
            }
            let mut body = json!({ "discovery_only": discovery_only });
            body["transport"] = json!(Transport::from(*transport));
            if let Some(congestion) = congestion {
                body["congestion"] = json!(congestion);
            }
            if let Some(tls) = tls {
                body["tls"] = json!(engine::target::TlsUse::from(*tls));
            }
            if let Some(id) = id {
                body["id"] = json!(id);
            }
            if let Some(advertise) = advertise {
                body["advertise"] = json!(advertise);
            }
            add_listeners(control, &addresses, &body)
        }
        ListenerAction::Remove { which, trsvcid, control } => {
            let client = client(control)?;
            let id = port_number(&client, which, *trsvcid)?;
            client.delete(&format!("/v1/ports/{id}"))?;
            done(control, format!("port number {id} is removed"), &json!({ "removed": id }))
        }
        ListenerAction::List { control } => {
            let json: Value = client(control)?.get("/v1/ports")?;
            let names = ["id", "address", "transport", "congestion", "tls", "advertise", "discovery_only"];
            let mut rows = items(&json, "ports").to_vec();
            for row in rows.iter_mut().filter(|row| row.get("transport").is_none()) {
                row["transport"] = json!(Transport::Tcp);
            }
            tell(control, table(&rows, &names), &json)
        }
    }
}

/// The number of a port that was named by it, or by the address that it listens on.
fn port_number(client: &Client, which: &str, trsvcid: Option<u16>) -> Result<u16, Failure> {
    if let (Ok(number), None) = (which.parse(), trsvcid) {
        return Ok(number);
    }
    let written: HostAddress = which.parse().map_err(Failure::usage)?;
    let wanted = written.all(trsvcid.unwrap_or(SERVICE_DEFAULT)).map_err(Failure::failed)?;
    let json: Value = client.get("/v1/ports")?;
    let ports = items(&json, "ports");
    let is_meant = |port: &&Value| {
        cell(port, "address").parse().is_ok_and(|known: NetAddress| wanted.iter().any(|at| at.fits(&known)))
    };
    let found: Vec<&Value> = ports.iter().filter(is_meant).collect();
    let known =
        |ports: &[&Value]| ports.iter().map(|port| cell(port, "address")).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [port] => port["id"]
            .as_u64()
            .and_then(|id| id.try_into().ok())
            .ok_or_else(|| Failure::failed(format!("the target does not say which number {which} has"))),
        [] => {
            let all: Vec<&Value> = ports.iter().collect();
            Err(Failure::failed(format!(
                "the target does not listen on {}, but on {}",
                shown(&wanted),
                known(&all)
            )))
        }
        several => {
            Err(Failure::usage(format!("{which} is several listeners: name one of {}", known(several))))
        }
    }
}

fn shown(addresses: &[NetAddress]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Listens on all of these addresses, or on none.
fn add_listeners(control: &ControlFlags, addresses: &[NetAddress], settings: &Value) -> Result<(), Failure> {
    let client = client(control)?;
    let mut added: Vec<Value> = Vec::with_capacity(addresses.len());
    for address in addresses {
        let mut body = settings.clone();
        body["address"] = json!(address);
        match client.change(Method::POST, "/v1/ports", &body) {
            Ok(port) => added.push(port),
            Err(failure) => {
                for port in &added {
                    client.delete(&format!("/v1/ports/{}", cell(port, "id")))?;
                }
                return Err(failure);
            }
        }
    }
    let line =
        |port: &Value| format!("listening on {} as port number {}", cell(port, "address"), cell(port, "id"));
    let lines: Vec<String> = added.iter().map(line).collect();
    let json = if added.len() == 1 { added.remove(0) } else { json!({ "ports": added }) };
    done(control, lines.join("\n"), &json)
}

/// Other discovery services.
pub(super) fn referral(action: &ReferralAction) -> Result<(), Failure> {
    match action {
        ReferralAction::Add { address, trsvcid, nqn, control } => {
            let referral = referred_to(address, *trsvcid).map_err(Failure::usage)?;
            referral.check().map_err(Failure::usage)?;
            let ReferralConfig { address, service, .. } = referral;
            let mut body = json!({ "address": address, "service": service });
            if let Some(nqn) = nqn {
                body["nqn"] = json!(nqn.as_str());
            }
            let json: Value = client(control)?.change(Method::POST, "/v1/referrals", &body)?;
            done(control, format!("{} is announced to hosts", with_port(&address, &service)), &json)
        }
        ReferralAction::Remove { address, trsvcid, control } => {
            // A referral of an earlier version may have an address that is none.
            let referral = referred_to(address, *trsvcid).unwrap_or_else(|_| ReferralConfig {
                address: address.clone(),
                service: trsvcid.unwrap_or(DISCOVERY_SERVICE_DEFAULT).to_string(),
                nqn: None,
            });
            let ReferralConfig { address, service, .. } = referral;
            client(control)?.delete(&format!("/v1/referrals/{}/{service}", encode(&address)))?;
            done(
                control,
                format!("{} is no longer announced to hosts", with_port(&address, &service)),
                &json!({ "removed": address }),
            )
        }
        ReferralAction::List { control } => {
            let json: Value = client(control)?.get("/v1/referrals")?;
            tell(control, table(items(&json, "referrals"), &["address", "service", "nqn"]), &json)
        }
    }
}

/// An address as commands take it.
fn with_port(address: &str, port: &str) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// A discovery service as its address is written, and its port where that is written apart.
fn referred_to(address: &str, port: Option<u16>) -> Result<ReferralConfig, String> {
    let written = address.parse::<HostAddress>().map_err(|error| error.to_string())?;
    if let (Some(own), Some(port)) = (written.port(), port)
        && own != port
    {
        return Err(format!("`{address}` has port {own}, and -s is {port}: keep one"));
    }
    let port = written.port().or(port).unwrap_or(DISCOVERY_SERVICE_DEFAULT);
    Ok(ReferralConfig { address: written.host(), service: port.to_string(), nqn: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_printed_as_it_is_typed() {
        for address in ["10.0.0.2:8009", "[fd00::2]:8009", "[fe80::2%eth0]:8009", "storage.example:8009"] {
            let ReferralConfig { address: host, service, .. } = referred_to(address, None).unwrap();
            assert_eq!(with_port(&host, &service), address);
        }
    }
}
