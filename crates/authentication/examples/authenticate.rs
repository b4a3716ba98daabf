//! Authenticates a host and a controller to each other, without a connection between them:
//! `cargo run -p selvedge-authentication --example authenticate`.

use std::error::Error;
use std::fs::File;
use std::io::Read as _;

use authentication::{
    Concatenation, ControllerSide, ControllerTerms, Group, Hash, HostSide, HostStep, HostTerms, Progress,
    Secret,
};

const HOST: &str = "nqn.2014-08.org.example:host";
const SUBSYSTEM: &str = "nqn.2014-08.org.example:disk";

fn main() -> Result<(), Box<dyn Error>> {
    let mut random = File::open("/dev/urandom")?;
    let mut entropy = |bytes: &mut [u8]| assert!(random.read_exact(bytes).is_ok(), "there is no randomness");
    let mut secret = || {
        let mut key = [0; 32];
        entropy(&mut key);
        Secret::new(&key, Some(Hash::Sha256))
    };
    let (of_host, of_controller) = (secret()?, secret()?);

    let mut controller = ControllerSide::new(ControllerTerms {
        host_nqn: HOST.to_owned(),
        subsystem_nqn: SUBSYSTEM.to_owned(),
        secrets: vec![of_host.clone()],
        controller_secret: Some(of_controller.clone()),
        hashes: Hash::ALL.to_vec(),
        groups: vec![Group::Secp256r1, Group::Ffdhe2048],
        concatenation: Concatenation::None,
    });
    let terms = HostTerms {
        host_nqn: HOST.to_owned(),
        subsystem_nqn: SUBSYSTEM.to_owned(),
        secret: of_host,
        controller_secret: Some(of_controller),
        hashes: Hash::ALL.to_vec(),
        groups: Group::ALL.to_vec(),
        concatenation: Concatenation::None,
    };
    let mut host = HostSide::new(terms, 1);

    // The host sends its messages, and asks for the controller's.
    let mut sent = host.offer();
    loop {
        report(&controller.take(&sent));
        let (given, progress) = controller.give(&mut entropy);
        report(&progress);
        match host.take(&given, &mut entropy) {
            HostStep::Exchange(message) => sent = message,
            HostStep::Done(how, last) => {
                println!("host: {how}");
                if let Some(message) = last {
                    report(&controller.take(&message));
                }
                return Ok(());
            }
            HostStep::Failed(fault, _) => return Err(fault.into()),
        }
    }
}

fn report(progress: &Progress) {
    match progress {
        Progress::Continues => {}
        Progress::Authenticated(how) => println!("controller: {how}"),
        Progress::Failed(fault) => println!("controller: {fault}"),
    }
}
