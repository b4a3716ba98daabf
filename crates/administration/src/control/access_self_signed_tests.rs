//! Certificates that sign themselves, at either end: trusted where they are given, and refused with a remedy elsewhere.

use super::*;

#[test]
fn a_certificate_that_signs_itself_is_trusted_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    // As `openssl req -x509` makes one.
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    write(&folder.path().join("cert"), &certificate.pem());
    write(&folder.path().join("key"), &key.serialize_pem());
    write(&folder.path().join("token"), &token("admin"));
    let flags = "--control tls:127.0.0.1:0 --control-token-file FOLDER/token --control-tls-cert FOLDER/cert \
                 --control-tls-key FOLDER/key";
    let house = House::new(folder, flags).unwrap_or_else(|failure| panic!("{failure:?}"));
    let trusts =
        ControlTlsFlags { control_ca: Some(house.folder.path().join("cert")), ..ControlTlsFlags::default() };
    let token = house.folder.path().join("token");
    house.client(&trusts, Some(&token)).unwrap().get::<Value>("/v1/log").unwrap();
    Authority::new().write(&house.folder.path().join("other"));
    let distrusts =
        ControlTlsFlags { control_ca: Some(house.folder.path().join("other")), ..ControlTlsFlags::default() };
    let refused = house.client(&distrusts, Some(&token)).unwrap().get::<Value>("/v1/log");
    let line = refused.unwrap_err().line().unwrap();
    assert!(line.contains("--control-ca FILE") && !line.contains("Other"), "{line}");
    let Endpoint::Tls { port, .. } = *house.controls[0].endpoint() else { panic!("no TLS") };
    let elsewhere = Endpoint::Tls { host: "localhost".to_owned(), port };
    let refused = Client::new(Some(&elsewhere), Some(&token), &trusts).unwrap().get::<Value>("/v1/log");
    assert!(refused.unwrap_err().line().unwrap().contains("not the one of this host"));
}

#[test]
fn a_client_s_certificate_that_signs_itself_is_trusted_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new();
    ours.write(&folder.path().join("ca"));
    ours.sign(folder.path(), "target", "127.0.0.1", 2999);
    let sign_itself = |name: &str, last_year: i32| {
        let mut params = CertificateParams::new(vec!["ops.example.org".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(last_year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        write(&folder.path().join(format!("{name}.pem")), &pem);
        write(&folder.path().join(format!("{name}.key")), &key.serialize_pem());
        pem
    };
    let trusted =
        ["ops", "old"].map(|name| sign_itself(name, if name == "old" { 2025 } else { 2999 })).concat();
    write(&folder.path().join("clients"), &trusted);
    sign_itself("strange", 2999);
    let certificate = "[[certificate]]\nname = \"ops.example.org\"\nrole = \"admin\"\n";
    write(&folder.path().join("access.toml"), &access(certificate));
    let flags = "--control tls:127.0.0.1:0 --control-access FOLDER/access.toml --control-tls-cert FOLDER/target.pem \
                 --control-tls-key FOLDER/target.key --control-tls-client-ca FOLDER/clients";
    let house = House::new(folder, flags).unwrap_or_else(|failure| panic!("{failure:?}"));
    let asks = |name: &str| {
        let path = |name: String| Some(house.folder.path().join(name));
        let flags = ControlTlsFlags {
            control_ca: path("ca".to_owned()),
            control_cert: path(format!("{name}.pem")),
            control_key: path(format!("{name}.key")),
        };
        house.client(&flags, None)?.get::<Value>("/v1/log")
    };
    asks("ops").unwrap();
    let error = |name| asks(name).unwrap_err().line().unwrap();
    assert!(error("old").contains("certificate of --control-cert has expired"), "{}", error("old"));
    assert!(error("strange").contains("it refuses the connection"), "{}", error("strange"));
}

#[test]
fn a_client_s_own_certificate_signs_no_other_client() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    ours.write(&folder.path().join("ca"));
    ours.sign(folder.path(), "target", "127.0.0.1", 2999);
    theirs.sign(folder.path(), "ops", "ops.example.org", 2999);
    let mut params = CertificateParams::new(vec!["reader.example.org".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    write(&folder.path().join("reader.key"), &key.serialize_pem());
    let reader = Authority(CertifiedIssuer::self_signed(params, key).unwrap());
    reader.write(&folder.path().join("reader.pem"));
    reader.sign(folder.path(), "forged", "ops.example.org", 2999);
    write(&folder.path().join("clients"), &(theirs.0.pem() + &reader.0.pem()));
    let entry = |name: &str, role: &str| {
        format!("[[certificate]]\nname = \"{name}.example.org\"\nrole = \"{role}\"\n")
    };
    write(&folder.path().join("access.toml"), &access(&entry("ops", "admin")));
    let flags = "--control tls:127.0.0.1:0 --control-access FOLDER/access.toml --control-tls-cert FOLDER/target.pem \
                 --control-tls-key FOLDER/target.key --control-tls-client-ca FOLDER/clients";
    let house = House::new(folder, flags).unwrap_or_else(|failure| panic!("{failure:?}"));
    let asks = |name: &str| {
        house.client(&shows(&house, Some(name)), None)?.get::<Value>("/v1/connections").map(drop)
    };
    // An authority, as long as it is not known to be a client's.
    asks("forged").unwrap();
    house.change_access(&access(&(entry("ops", "admin") + &entry("reader", "read"))));
    for name in ["ops", "reader"] {
        asks(name).unwrap();
    }
    let refused = asks("forged").unwrap_err().line().unwrap();
    assert!(refused.contains("it refuses the connection"), "{refused}");
}
