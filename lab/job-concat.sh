# Secure channel concatenation (TP8018) with the Linux kernel at either end: its host at our target and our host at its target,
# and the generated PSK replaced again and again while blocks are written and compared. Both of them authenticated is what
# Linux does not do up to 7.3.4: its host does not ask the controller, and its target makes no key then.
# Requires kernel 6.16 or later: SELVEDGE_LAB_KERNEL=trixie-backports for build-guest.sh and run-guest.sh.
#
#   job-concat.sh PROGRAM
#
# PROGRAM is the program's name beside this job. Both ends are in the guest, on its loopback.
. /guest-lib.sh

readonly OURS=nqn.2026-01.io.selvedge:concat THEIRS=nqn.2026-01.io.selvedge:nvmet
# The port of our target, and that of the kernel's.
readonly REQUIRED=4421 NVMET=4420
host=$(cat /etc/nvme/hostnqn)

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge
export SELVEDGE_LOG=debug

handshakes_are_done() {
    local module
    for module in nvme-tcp nvmet-tcp tls nvme-keyring; do modprobe "$module"; done
    printf '[debug]\nloglevel=1\ntls=1\nnl=0\n[authenticate]\nkeyrings=.nvme\n' >/etc/tlshd.conf
    tlshd -s -c /etc/tlshd.conf >/tmp/tlshd.log 2>&1 &
    wait_ms 10000 'tlshd has the keyring' grep -q "'.nvme' linked" /tmp/tlshd.log
}

make_secrets() {
    umask 077
    "$selvedge" key generate -m 1 --output /tmp/host.key
    "$selvedge" key generate -m 1 --output /tmp/controller.key
    "$selvedge" key generate -m 1 --output /tmp/other.key
}

serves() {
    cat >/tmp/target.toml <<TOML
[[port]]
address = "127.0.0.1:$REQUIRED"
[[subsystem]]
nqn = "$OURS"
hosts = ["$host"]
[[subsystem.host_key]]
host = "$host"
dhchap_secret_file = "/tmp/host.key"
dhchap_ctrl_secret_file = "/tmp/controller.key"
tls_concat = true
[[subsystem.namespace]]
memory = "16m"
TOML
    "$selvedge" serve -c /tmp/target.toml --control unix:/tmp/control.sock >>/tmp/target.log 2>&1 &
    echo $! >/tmp/target.pid
    wait_ms 20000 'our target listens' grep -q "listening on 127.0.0.1:$REQUIRED" /tmp/target.log
}

# Sets the host's secrets, and further options such as hash functions.
set_key() {
    "$selvedge" host set-key "$OURS" "$host" --control unix:/tmp/control.sock -S /tmp/host.key -C /tmp/controller.key \
        --tls-concat "$@"
}

# connect SECRET CONTROLLER'S-SECRET|- [OPTION]...
connect() {
    local secret=$1 controller=$2
    shift 2
    nvme connect -t tcp -a 127.0.0.1 -s "$REQUIRED" -n "$OURS" -i 2 -k 60 --reconnect-delay 1 --concat -S "$(cat "$secret")" \
        $([[ $controller == - ]] || echo -C "$(cat "$controller")") "$@"
}

disconnect() { nvme disconnect -n "$1"; }

# fio_verifies SIZE [OPTION]...: writes that are read back and compared, through both queues.
fio_verifies() {
    local device size=$1
    shift
    device=$(wait_for_namespace "$OURS" 1)
    fio --name=verify --filename="$device" --size="$size" --rw=randwrite --ioengine=libaio --direct=1 --iodepth=8 --numjobs=2 \
        --offset_increment="$size" --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --do_verify=1 --verify_fatal=1 "$@"
}

# Connections by TLS whose key has come out of the host's authentication.
secured() { grep -c 'TLS peer.*identity=NVMe1G01' /tmp/target.log; }

# cell GROUP CONTROLLER'S-SECRET|- [CONNECT'S OPTION]...: an admin queue and two for commands are TLS then.
cell() {
    local group=$1 controller=$2
    shift 2
    set_key --dhchap-dhgroup "$group"
    : >/tmp/target.log
    connect /tmp/host.key "$controller" "$@"
    fio_verifies 512k
    disconnect "$OURS"
    cat /tmp/target.log
    grep -q "has authenticated.* group=$group is_bidirectional=false" /tmp/target.log
    (($(secured) == 3))
}

# refused OUR-WORDS CONNECT'S-ARGUMENT...
refused() {
    local ours=$1
    shift
    : >/tmp/target.log
    dmesg -C
    ! connect "$@"
    cat /tmp/target.log
    dmesg
    grep -q "$ours" /tmp/target.log
}

refused_without_concat() {
    : >/tmp/target.log
    ! nvme connect -t tcp -a 127.0.0.1 -s "$REQUIRED" -n "$OURS" -i 1 -k 60 -S "$(cat /tmp/host.key)"
    cat /tmp/target.log
}

controller_is() { holds "/sys/class/nvme/${controller##*/}/state" "$1"; }

is_secured_again() { (($(secured) >= $1)) && controller_is live; }

# The kernel requests another PSK, and connects again.
replaces() {
    local before
    before=$(secured)
    echo 0 >"/sys/class/nvme/${controller##*/}/tls_configured_key"
    wait_ms 30000 'the kernel is back' is_secured_again $((before + 3))
    cat "/sys/class/nvme/${controller##*/}/tls_key"
}

# replaced_under_writes CONTROLLER'S-SECRET|-
replaced_under_writes() {
    local controller writer status=0 round
    set_key
    : >/tmp/target.log
    connect /tmp/host.key "$1"
    controller=$(controller_device "$OURS")
    fio_verifies 1m --time_based --runtime=12 --verify_backlog=64 >/tmp/fio.log 2>&1 &
    writer=$!
    sleep 1
    for round in 1 2 3; do replaces; done
    wait "$writer" || status=$?
    cat /tmp/fio.log /tmp/target.log
    dmesg | tail -n 30
    controller_is live
    disconnect "$OURS"
    return "$status"
}

# A controller that is reset begins in clear again.
resets_under_writes() {
    local controller before
    : >/tmp/target.log
    connect /tmp/host.key -
    controller=$(controller_device "$OURS")
    before=$(secured)
    echo 1 >"/sys/class/nvme/${controller##*/}/reset_controller"
    wait_ms 30000 'the kernel is back' is_secured_again $((before + 3))
    fio_verifies 512k
    disconnect "$OURS"
}

end_target() {
    local pid
    pid=$(cat /tmp/target.pid)
    kill "$pid"
    wait "$pid" 2>/dev/null || true
}

nvmet_serves() {
    modprobe brd rd_nr=1 rd_size=16384
    nvmet_subsystem "$THEIRS"
    nvmet_namespace "$THEIRS" 1 /dev/ram0
    echo 0 >"$nvmet/subsystems/$THEIRS/attr_allow_any_host"
    mkdir -p "$nvmet/hosts/$host"
    cat /tmp/host.key >"$nvmet/hosts/$host/dhchap_key"
    echo 'hmac(sha256)' >"$nvmet/hosts/$host/dhchap_hash"
    echo ffdhe2048 >"$nvmet/hosts/$host/dhchap_dhgroup"
    ln -s "$nvmet/hosts/$host" "$nvmet/subsystems/$THEIRS/allowed_hosts/$host"
    nvmet_port 127.0.0.1 "$NVMET" "$THEIRS" tls1.3 'not required'
}

# visit GROUP CONTROLLER'S-SECRET|- [OPTION]...: our host at the kernel's target.
visit() {
    local group=$1 controller=$2
    shift 2
    echo "$group" >"$nvmet/hosts/$host/dhchap_dhgroup"
    "$selvedge" bench -a 127.0.0.1 -s "$NVMET" -n "$THEIRS" -q "$host" -S /tmp/host.key --concat \
        $([[ $controller == - ]] || echo -C "$controller") --rw randwrite --size 1m --verify --destroy-data "$@"
}

# The generated keys that the kernel's keyring has seen during a visit, by their identities.
visit_with_replacement() {
    local visitor status=0
    : >/tmp/identities
    visit ffdhe2048 "$@" --reauth-interval 1s --runtime 8 -i 2 >/tmp/visit.log 2>&1 &
    visitor=$!
    while kill -0 "$visitor" 2>/dev/null; do
        keyctl list %:.nvme | grep -o 'NVMe1G01.*' >>/tmp/identities || true
        sleep 0.1
    done
    wait "$visitor" || status=$?
    tail -n 40 /tmp/visit.log
    sort -u /tmp/identities
    dmesg | tail -n 20
    echo "measured: $(sort -u /tmp/identities | wc -l) generated keys in one visit"
    ((status == 0 && $(sort -u /tmp/identities | wc -l) >= 3))
}

# visit_fails WORDS [OPTION]...
visit_fails() {
    local words=$1
    shift
    ! "$selvedge" identify -a 127.0.0.1 -s "$NVMET" -n "$THEIRS" -q "$host" "$@" 2>/tmp/error
    cat /tmp/error
    grep -q "$words" /tmp/error
}

uname -r
nvme version
check 'tlshd does handshakes' handshakes_are_done
check 'secrets are made' make_secrets
check 'our target serves' serves
for group in ffdhe2048 ffdhe3072; do check "kernel to ours, $group" cell "$group" -; done
check 'kernel to ours, with a secret for the controller' cell ffdhe2048 /tmp/controller.key
check 'kernel to ours, both digests' cell ffdhe2048 - -g -G
check 'kernel to ours, a reset' resets_under_writes
check 'kernel to ours, the PSK is replaced three times under writes' replaced_under_writes -
check 'a wrong secret is refused' refused "the host.s response is wrong" /tmp/other.key -
check 'a host without --concat is refused' refused_without_concat
end_target
check 'nvmet serves' nvmet_serves
for group in ffdhe2048 ffdhe3072; do check "ours to nvmet, $group" visit "$group" -; done
check 'ours to nvmet, both digests' visit ffdhe2048 - -g -G
check 'ours to nvmet, the PSK is replaced again and again' visit_with_replacement -
check 'nvmet refuses a wrong secret' visit_fails "secret is not the one" -S /tmp/other.key --concat
cat /tmp/controller.key >"$nvmet/hosts/$host/dhchap_ctrl_key"
check 'nvmet makes no key both ways, which our host says' visit_fails 'makes no TLS key where it has to authenticate too' \
    -S /tmp/host.key -C /tmp/controller.key --concat
check 'nvmet with a wrong secret is refused' visit_fails "the controller's response is wrong" -S /tmp/host.key \
    -C /tmp/other.key --concat
rm "$nvmet/subsystems/$THEIRS/allowed_hosts/$host"
rmdir "$nvmet/hosts/$host"
check 'nvmet removed' nvmet_remove "$THEIRS"
finish_checks
