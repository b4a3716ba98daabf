//! Files as libnvme writes them, and others.

use super::*;

const FIRST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd";
const SECOND: &str = "nqn.2014-08.org.example:second";

fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32], None).unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn file() -> String {
    let key = |byte| secret(byte).reveal().to_string();
    format!(
        r#"[
  {{
    "hostnqn":"{FIRST}",
    "hostid":"2b4e28ba-2fa1-11d2-883f-0016d3ccabcd",
    "dhchap_key":"{}",
    "hostsymname":"first",
    "subsystems":[
      {{
        "nqn":"nqn.a",
        "application":"none of ours",
        "ports":[
          {{"transport":"rdma","traddr":"10.0.0.1","trsvcid":"4420","dhchap_key":"{}"}},
          {{"transport":"tcp","traddr":"10.0.0.1","trsvcid":"4420","dhchap_key":"{}","dhchap_ctrl_key":"{}","nr_io_queues":4}},
          {{"transport":"tcp","traddr":"10.0.0.2","keep_alive_tmo":30}},
          {{"transport":"tcp","traddr":"a.name","dhchap_key":"{}"}}
        ]
      }},
      {{"nqn":"nqn.b","dhchap_key":"{}"}}
    ]
  }},
  {{"hostnqn":"{SECOND}","subsystems":[{{"nqn":"nqn.a","ports":[{{"transport":"tcp","traddr":"10.0.0.9"}}]}}]}},
  {{"hostid":"nobody's"}}
]"#,
        key(1),
        key(2),
        key(3),
        key(4),
        key(5),
        key(6)
    )
}

fn meant<'a>(host: Option<&'a Nqn>, addresses: &'a [SocketAddr]) -> Meant<'a> {
    Meant { host, addresses, reauth_interval: None }
}

#[test]
fn a_host_is_who_is_named_or_who_has_the_target() {
    let (first, second) = (address("10.0.0.1:4420"), address("10.0.0.9:4420"));
    let known = |host: Option<&str>, addresses: &[SocketAddr]| {
        let host = host.map(|nqn| Nqn::new(nqn).unwrap());
        read_text(&file(), &meant(host.as_ref(), addresses)).map(|host| host.identity)
    };
    let host = known(None, &[first]).unwrap();
    assert_eq!((host.nqn.as_str(), host.id[0]), (FIRST, 0x2b));
    assert_eq!(known(None, &[second]).unwrap(), HostIdentity::from_nqn(SECOND));
    assert_eq!(known(Some(SECOND), &[first]).unwrap().nqn, SECOND);
    let several = known(None, &[address("10.0.0.3:4420")]).unwrap_err();
    assert!(several.contains("name one with -q: ") && several.contains(SECOND), "{several}");
    assert!(known(Some("nqn.other"), &[first]).unwrap_err().contains("no host nqn.other"));
    assert!(read_text("[]", &meant(None, &[first])).unwrap_err().contains("no host"));
    let only = format!(r#"{{"hosts":[{{"hostnqn":"{SECOND}"}}]}}"#);
    assert_eq!(read_text(&only, &meant(None, &[first])).unwrap().identity.nqn, SECOND);
}

#[test]
fn a_ports_secrets_count_before_the_subsystems_and_the_hosts() {
    let first = address("10.0.0.1:4420");
    let host = read_text(&file(), &meant(None, &[first])).unwrap();
    let of = |nqn: &str, address: SocketAddr| {
        let secrets = host.secrets(nqn, address).unwrap();
        (secrets.secret.clone(), secrets.controller_secret.clone())
    };
    assert_eq!(of("nqn.a", first), (secret(3), Some(secret(4))));
    assert_eq!(of("nqn.a", address("10.0.0.2:4420")), (secret(1), None));
    assert_eq!(of("nqn.a", address("10.0.0.7:4420")), (secret(5), None), "that of the port with a name");
    assert_eq!(of("nqn.b", first), (secret(6), None));
    assert_eq!(of("nqn.c", first), (secret(1), None));
    let second = read_text(&file(), &meant(None, &[address("10.0.0.9:4420")])).unwrap();
    assert!(second.secrets("nqn.a", address("10.0.0.9:4420")).is_none());
    assert!(!format!("{host:?}").contains("DHHC"));
}

#[test]
fn what_is_wrong_is_told_without_what_is_in_it() {
    let key = secret(7).reveal();
    let wrong = |text: &str| {
        let what = read_text(text, &meant(None, &[])).unwrap_err();
        assert!(!what.contains(&key[8..20]), "{what}");
        what
    };
    let not = wrong(&format!("[\n\"{}\"]", *key));
    assert!(not.starts_with("it is not a config.json of nvme-cli (line 2, column "), "{not}");
    assert!(wrong("").contains("not a config.json"));
    let cut = wrong(&format!(r#"[{{"hostnqn":"nqn.a","dhchap_key":"{}"}}]"#, &key[..30]));
    assert!(cut.starts_with("hosts[0].dhchap_key: "), "{cut}");
    let port = |what: &str| format!(r#"[{{"hostnqn":"nqn.a","subsystems":[{{"ports":[{{{what}}}]}}]}}]"#);
    let service = wrong(&port(r#""trsvcid":"nvme""#));
    assert_eq!(service, "hosts[0].subsystems[0].ports[0].trsvcid is not a TCP port");
    assert!(wrong(r#"[{"hostnqn":"nqn.a","hostid":"1"}]"#).starts_with("hosts[0].hostid: "));
}
