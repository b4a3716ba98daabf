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
  {{"hostid":"not-a-uuid"}}
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
    Meant { host, addresses, reauth_interval: None, tls: TlsChoice::default() }
}

#[test]
fn numbers_stand_for_texts_and_flags_as_libnvme_has_them() {
    let read = |port: &str| {
        let port = format!(r#"{{"transport":"tcp","traddr":"10.0.0.1",{port}}}"#);
        let text = format!(r#"[{{"hostnqn":"{FIRST}","subsystems":[{{"nqn":"nqn.a","ports":[{port}]}}]}}]"#);
        read_text(&text, &meant(None, &[]))
    };
    let key = secret(1).reveal().to_string();
    let host = read(&format!(r#""trsvcid":4421,"dhchap_key":"{key}""#)).unwrap();
    assert!(host.secrets("nqn.a", address("10.0.0.1:4421")).is_some());
    assert!(host.secrets("nqn.a", address("10.0.0.1:4420")).is_none());
    let host = read(&format!(r#""concat":1,"tls":0,"dhchap_key":"{key}""#)).unwrap();
    assert!(host.concatenates("nqn.a", address("10.0.0.1:4420")));
    assert!(read(r#""concat":1,"tls":true"#).unwrap_err().contains("both tls and concat"));
    for (wrong, part) in [
        (r#""trsvcid":70000"#, "trsvcid is not a TCP port"),
        (r#""trsvcid":-1"#, "trsvcid is not a TCP port"),
        (r#""trsvcid":[4420]"#, "not a config.json"),
        (r#""tls":"yes""#, "not a config.json"),
        (r#""dhchap_key":7"#, "not a config.json"),
    ] {
        assert!(read(wrong).unwrap_err().contains(part), "{wrong}");
    }
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
fn error_messages_contain_no_secrets() {
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

fn psk(byte: u8) -> ConfiguredPsk {
    ConfiguredPsk::new(&[byte; 32], None).unwrap()
}

/// A host with these ports of one subsystem.
fn with_ports(ports: &str) -> String {
    format!(r#"[{{"hostnqn":"{FIRST}","subsystems":[{{"nqn":"nqn.a","ports":[{ports}]}}]}}]"#)
}

#[test]
fn a_port_has_the_key_that_the_file_gives_it() {
    use secure_channel::{IdentityVersion, Suite};
    let (one, two) = (psk(1).reveal().to_string(), psk(2).reveal().to_string());
    let (first, second, third) =
        (address("10.0.0.1:4420"), address("10.0.0.2:4420"), address("10.0.0.3:4420"));
    let port = |traddr: &str, more: &str| format!(r#"{{"transport":"tcp","traddr":"{traddr}"{more}}}"#);
    let text = with_ports(
        &[
            port("10.0.0.1", &format!(r#","tls":true,"tls_key":"{one}""#)),
            port("10.0.0.2", &format!(r#","tls_key":"{two}","tls_key_identity":"NVMe0R02 {FIRST} nqn.a""#)),
            port("10.0.0.3", &format!(r#","tls":false,"tls_key":"{two}""#)),
        ]
        .join(","),
    );
    let host = read_text(&text, &meant(None, &[first])).unwrap();
    let keys = host.tls_keys("nqn.a", first).unwrap();
    assert_eq!((keys.keys, keys.identity, keys.suite), (vec![psk(1)], None, None));
    let keys = host.tls_keys("nqn.a", second).unwrap();
    assert_eq!((keys.keys, keys.identity), (vec![psk(2)], Some(IdentityVersion::Zero)));
    assert_eq!(keys.suite, Some(Suite::Aes256Gcm));
    assert!(host.tls_keys("nqn.a", third).is_none(), "the file says so");
    assert!(host.tls_keys("nqn.b", first).is_none());
    assert_eq!(host.tls_keys(DISCOVERY_NQN, first).unwrap().keys, [psk(1)]);
    // Once it is asked for, nothing is in clear.
    let required = TlsChoice { is_required: true, ..TlsChoice::default() };
    let host = read_text(&text, &Meant { tls: required, ..meant(None, &[first]) }).unwrap();
    assert_eq!(host.tls_keys("nqn.a", third).unwrap().keys, [psk(2)]);
    assert_eq!(host.tls_keys("nqn.b", first).unwrap().keys, [psk(1), psk(2)]);
}

#[test]
fn tls_without_a_key_is_refused_and_no_key_is_shown() {
    let first = address("10.0.0.1:4420");
    let port = |more: &str| with_ports(&format!(r#"{{"transport":"tcp","traddr":"10.0.0.1",{more}}}"#));
    let wrong = |more: &str| read_text(&port(more), &meant(None, &[first])).unwrap_err();
    let in_keyring = wrong(r#""tls":true,"keyring":".nvme""#);
    assert!(in_keyring.contains("nqn.a") && in_keyring.contains("--tls-key-file"), "{in_keyring}");
    let text = psk(1).reveal();
    let cut = wrong(&format!(r#""tls_key":"{}""#, &text[..30]));
    assert!(cut.contains("ports[0].tls_key: ") && !cut.contains(&text[20..30]), "{cut}");
    assert!(wrong(r#""tls_key_identity":"NVMe3""#).contains("ports[0].tls_key_identity: "));
    let required = TlsChoice { is_required: true, ..TlsChoice::default() };
    let plain = read_text(&port(r#""trsvcid":"4420""#), &Meant { tls: required, ..meant(None, &[first]) });
    assert!(plain.unwrap_err().contains("it has no tls_key"));
    assert!(read_text(&port(r#""tls":true"#), &meant(None, &[address("10.0.0.9:4420")])).is_ok());
}

#[test]
fn a_port_with_concat_has_its_tls_key_made_of_the_secret() {
    let (first, second) = (address("10.0.0.1:4420"), address("10.0.0.2:4420"));
    let (key, text) = (psk(1).reveal().to_string(), secret(2).reveal().to_string());
    let port = |traddr: &str, more: &str| format!(r#"{{"transport":"tcp","traddr":"{traddr}",{more}}}"#);
    let made = format!(r#""concat":true,"dhchap_key":"{text}""#);
    let text =
        with_ports(&[port("10.0.0.1", &made), port("10.0.0.2", &format!(r#""tls_key":"{key}""#))].join(","));
    for is_required in [false, true] {
        let tls = TlsChoice { is_required, ..TlsChoice::default() };
        let host = read_text(&text, &Meant { tls, ..meant(None, &[first, second]) }).unwrap();
        assert!(host.concatenates("nqn.a", first) && !host.concatenates("nqn.a", second));
        assert!(!host.concatenates("nqn.b", first) && !host.concatenates(DISCOVERY_NQN, first));
        assert!(host.tls_keys("nqn.a", first).is_none(), "no other key is offered there");
        assert_eq!(host.tls_keys("nqn.a", second).unwrap().keys, [psk(1)]);
    }
    let wrong =
        |more: &str| read_text(&with_ports(&port("10.0.0.1", more)), &meant(None, &[first])).unwrap_err();
    assert!(wrong(r#""concat":true"#).contains("nqn.a has concat, and no dhchap_key"));
    assert!(wrong(&format!(r#"{made},"tls":true"#)).contains("ports[0] has both tls and concat"));
    let elsewhere = with_ports(&port("10.0.0.1", r#""concat":true"#));
    assert!(read_text(&elsewhere, &meant(None, &[second])).is_ok(), "it is not looked at here");
}

#[test]
fn files_of_nvme_cli_3_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nvme-fabrics.conf");
    let write = |path: &Path, text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    let key = |byte| secret(byte).reveal().to_string();
    let main = format!(
        "# nvme-cli 3\n[I/O Controller Defaults]\nkeep-alive-tmo = 5\n[Host]\nhostnqn = {FIRST}\n\
         hostid = 2b4e28ba-2fa1-11d2-883f-0016d3ccabcd\nkxchap-secret = {}\n\n\
         [Subsystem]\nnqn = nqn.2026-01.org.example:a\nkxchap-secret = {}\nkxchap-ctrl-secret = {}\n\
         controller = transport=tcp;traddr=10.0.0.1;trsvcid=4421;nr-io-queues=4\n\
         controller = transport=tcp;traddr=fe80::1%lo\n\n[Subsystem]\nnqn = nqn.2026-01.org.example:b\n\
         kxchap-secret =\ncontroller = transport=tcp;traddr=10.0.0.3\n",
        key(1),
        key(2),
        key(3)
    );
    write(&path, &main);
    std::fs::create_dir(folder.path().join("nvme-fabrics.conf.d")).unwrap();
    let beside = format!(
        "[Host]\nhostnqn = {SECOND}\n[Subsystem]\nnqn = nqn.2026-01.org.example:a\ndhchap-secret = {}\n\
         controller = transport=tcp;traddr=10.0.0.9\n",
        key(4)
    );
    write(&folder.path().join("nvme-fabrics.conf.d/second.conf"), &beside);
    let at = [address("10.0.0.1:4421")];
    let first = read(&path, &meant(None, &at)).unwrap();
    assert_eq!((first.identity.nqn.as_str(), first.identity.id[0]), (FIRST, 0x2b));
    let secrets =
        |host: &KnownHost, nqn: &str, at| host.secrets(nqn, at).map(|secrets| secrets.secret.clone());
    assert_eq!(secrets(&first, "nqn.2026-01.org.example:a", at[0]), Some(secret(2)));
    let both = first.secrets("nqn.2026-01.org.example:a", at[0]).unwrap();
    assert_eq!(both.controller_secret, Some(secret(3)));
    assert_eq!(secrets(&first, "nqn.2026-01.org.example:c", at[0]), Some(secret(1)), "the host's");
    let second = read(&path, &meant(None, &[address("10.0.0.9:4420")])).unwrap();
    assert_eq!(second.identity.nqn, SECOND);
    assert_eq!(secrets(&second, "nqn.2026-01.org.example:a", address("10.0.0.9:4420")), Some(secret(4)));
    // Without a name it is of this machine, or of the host that is named.
    write(
        &path,
        "[Subsystem]\nnqn = nqn.2026-01.org.example:a\ncontroller = transport=tcp;traddr=10.0.0.1\n",
    );
    let name = Nqn::new("nqn.2026-01.org.example:me").unwrap();
    assert_eq!(read(&path, &meant(Some(&name), &at)).unwrap().identity.nqn, name.as_str());
    write(&path, "[Subsystem]\nnqn\n");
    assert!(read(&path, &meant(None, &at)).unwrap_err().contains("line 2"));
}
