//! Others' NBD clients by TLS: with keys on TCP, with certificates of both ends on a Unix socket, and those that have to be refused.

use std::path::Path;
use std::time::Duration;

use crate::attach::{IMAGE, NQN};
use crate::command::{Process, Step};

const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(20);
const CLIENT_LIMIT_S: u64 = 60;

/// Certificates and keys, as libnbd and QEMU look for them in a folder.
const FILES: &str = "umask 077; mkdir -p $F/pki $F/ca $F/keys && cd $F/pki &&
    printf 'cn = authority\\nca\\ncert_signing_key\\n' > ca.tmpl &&
    printf 'cn = localhost\\ndns_name = localhost\\ntls_www_server\\nsigning_key\\n' > server.tmpl &&
    printf 'cn = client\\ntls_www_client\\nsigning_key\\n' > client.tmpl &&
    for name in ca server client; do certtool --generate-privkey --key-type rsa --bits 2048 --outfile $name-key.pem; done &&
    certtool --generate-self-signed --load-privkey ca-key.pem --template ca.tmpl --outfile ca-cert.pem &&
    for name in server client; do
        certtool --generate-certificate --load-privkey $name-key.pem --template $name.tmpl --outfile $name-cert.pem \\
            --load-ca-certificate ca-cert.pem --load-ca-privkey ca-key.pem || exit 1
    done &&
    cp ca-cert.pem $F/ca && cd $F/keys && psktool -u alice -p keys.psk && psktool -u alice -p other.psk && psktool -u bob -p bob.psk";

/// Commands of each client, for a shell: `$PORT` is that of clients with keys, `$SOCKET` that of
/// clients with certificates, and `$F` the folder.
const CLIENTS: [(&str, &str); 8] = [
    (
        "nbdinfo with a key",
        "nbdinfo \"nbds://alice@127.0.0.1:$PORT/1?tls-psk-file=$F/keys/keys.psk\" | tee $F/info &&
         grep -q 'newstyle-fixed with TLS, using structured packets' $F/info",
    ),
    (
        "nbdcopy with a key, in and out",
        "U=\"nbds://alice@127.0.0.1:$PORT/1?tls-psk-file=$F/keys/keys.psk\"
         nbdcopy --connections=4 --flush $F/image.raw \"$U\" && nbdcopy \"$U\" $F/out.raw && cmp $F/image.raw $F/out.raw",
    ),
    (
        "qemu-img with a key",
        "qemu-img compare --object tls-creds-psk,id=tls,dir=$F/keys,endpoint=client,username=alice --image-opts \\
           driver=nbd,host=127.0.0.1,port=$PORT,export=1,tls-creds=tls driver=file,filename=$F/image.raw",
    ),
    (
        "nbdcopy with a certificate, in and out",
        "U=\"nbds+unix://localhost/2?socket=$SOCKET&tls-certificates=$F/pki\"
         nbdcopy --connections=4 --flush $F/image.raw \"$U\" && nbdcopy \"$U\" $F/out.raw && cmp $F/image.raw $F/out.raw",
    ),
    (
        "qemu-io with a certificate",
        "qemu-io --object tls-creds-x509,id=tls,dir=$F/pki,endpoint=client --image-opts -c 'write -P 7 0 1M' \\
           -c 'aio_write -P 8 4M 40M' -c aio_flush -c 'write -z 8k 64k' -c flush -c 'read -P 7 0 8k' -c 'read -P 0 8k 64k' \\
           -c 'read -P 8 4M 40M' \\
           driver=nbd,server.type=unix,server.path=$SOCKET,export=2,tls-creds=tls,tls-hostname=localhost | tee $F/io &&
         ! grep -qi 'failed\\|error' $F/io",
    ),
    (
        "clients with another key, another name or no TLS",
        "! nbdinfo \"nbds://alice@127.0.0.1:$PORT/1?tls-psk-file=$F/keys/other.psk\" &&
         ! nbdinfo \"nbds://bob@127.0.0.1:$PORT/1?tls-psk-file=$F/keys/bob.psk\" &&
         ! nbdinfo --size \"nbd://127.0.0.1:$PORT/1\" && ! nbdinfo --list \"nbd://127.0.0.1:$PORT\" &&
         ! nbdinfo \"nbds://localhost:$PORT/1?tls-certificates=$F/pki\"",
    ),
    (
        "clients without a certificate, or without TLS",
        "! nbdinfo \"nbds+unix://localhost/2?socket=$SOCKET&tls-certificates=$F/ca\" &&
         ! nbdinfo --size \"nbd+unix:///2?socket=$SOCKET\"",
    ),
    (
        "those with a key, behind these",
        "nbdinfo --size \"nbds://alice@127.0.0.1:$PORT/1?tls-psk-file=$F/keys/keys.psk\" | grep -qx 134217728",
    ),
];

/// Serves namespaces by TLS, and tries all clients.
pub(crate) fn run(program: &str, port: &str, scratch: &Path) -> Result<usize, String> {
    let folder = scratch.display().to_string();
    if !Step::new("sh", &["-c", FILES]).env("F", &folder).run().passed {
        return Err("certificates and keys cannot be made".to_owned());
    }
    let file = |name: &str| scratch.join(name).display().to_string();
    let (keys, socket) = (file("keys/keys.psk"), file("tls.nbd"));
    let address = format!("unix:{socket}");
    let pki = ["server-cert.pem", "server-key.pem", "ca-cert.pem"].map(|name| file(&format!("pki/{name}")));
    let with_keys = ["--nbd", "127.0.0.1:0", "--nbd-tls-psk-file", &keys];
    let (mut by_keys, line) = attach(program, port, &with_keys, "nbds://127.0.0.1:")?;
    let tls_port = line.rsplit_once('/').and_then(|(uri, _)| uri.rsplit_once(':')).map(|(_, port)| port);
    let tls_port = tls_port.ok_or_else(|| format!("`{line}` has no port"))?.to_owned();
    let with_certificates = [
        &["--nbd", &address, "--nbd-tls-cert", &pki[0], "--nbd-tls-key", &pki[1]][..],
        // Both processes serve the same namespaces, to clients that take turns.
        &["--nbd-tls-client-ca", &pki[2], "--allow-second-attach"],
    ]
    .concat();
    let (mut by_certificates, _) = attach(program, port, &with_certificates, "nbds+unix:///2")?;
    let mut failed = Vec::new();
    for (name, script) in [("an image", IMAGE)].into_iter().chain(CLIENTS) {
        println!("-- {name}");
        let step = Step::new("sh", &["-c", script]).limit_s(CLIENT_LIMIT_S);
        let step = step.env("PORT", &tls_port).env("SOCKET", &socket).env("F", &folder);
        if !step.run().passed {
            failed.push(name);
        }
    }
    for process in [&mut by_keys, &mut by_certificates] {
        process.terminate();
        let is_clean = process.wait(END_LIMIT, false).is_some_and(|status| status.success());
        if !is_clean || !failed.is_empty() {
            println!("-- what attach said:\n{}--", process.output());
        }
        if !is_clean {
            failed.push("the end on SIGTERM");
        }
    }
    if failed.is_empty() { Ok(CLIENTS.len()) } else { Err(failed.join(", ")) }
}

/// An `attach` that serves, and the line that says so.
fn attach(program: &str, port: &str, more: &[&str], ready: &str) -> Result<(Process, String), String> {
    let args = [&["attach", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--nsid", "1,2"], more].concat();
    println!("$ {program} {}", args.join(" "));
    let started = Process::start(&Step::new(program, &args));
    let mut process = started.map_err(|error| format!("{program} does not start: {error}"))?;
    match process.wait_for_line(ready, START_LIMIT) {
        Ok(line) => Ok((process, line)),
        Err(reason) => Err(format!("attach: {reason}\n{}", process.output())),
    }
}
