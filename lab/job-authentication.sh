# DH-HMAC-CHAP with the Linux kernel at either end: its host at our target with every hash function and group that it has,
# one way and both ways, with nvme-cli's secrets and ours; our host at its target; wrong secrets; other secrets under a host
# that writes, and the kernel's reauthentication of queues in use.
#
#   job-authentication.sh PROGRAM
#
# PROGRAM is the program's name beside this job. Both ends are in the guest, on its loopback.
. /guest-lib.sh

readonly OURS=nqn.2026-01.io.selvedge:authenticated THEIRS=nqn.2026-01.io.selvedge:nvmet PORT=4421
readonly HASHES=(sha256 sha384 sha512)
readonly GROUPS_KNOWN=(null ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192)
host=$(cat /etc/nvme/hostnqn)

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge
export SELVEDGE_LOG=debug

make_secrets() {
    local hmac
    umask 077
    modprobe nvme-tcp
    modprobe dh_generic || true
    for hmac in 0 1 2 3; do
        # nvme-cli 2 prints what the secret becomes for the name.
        nvme gen-dhchap-key -m "$hmac" -n "$host" | grep -o 'DHHC-1:.*' >"/tmp/host-$hmac"
        nvme gen-dhchap-key -m "$hmac" -n "$OURS" | grep -o 'DHHC-1:.*' >"/tmp/controller-$hmac"
        "$selvedge" key generate -m "$hmac" --output "/tmp/ours-$hmac"
    done
}

each_knows_the_others_secrets() {
    local hmac
    for hmac in 0 1 2 3; do
        "$selvedge" key check "/tmp/host-$hmac"
        nvme check-dhchap-key -k "$(cat "/tmp/ours-$hmac")"
        [[ $(nvme check-dhchap-key -k "$(cat "/tmp/ours-$hmac")") == "$("$selvedge" key check "/tmp/ours-$hmac")" ]]
    done
}

serve() {
    cat >/tmp/target.toml <<TOML
[[port]]
address = "127.0.0.1:$PORT"
[[subsystem]]
nqn = "$OURS"
hosts = ["$host"]
[[subsystem.namespace]]
memory = "32m"
TOML
    "$selvedge" serve -c /tmp/target.toml --control unix:/tmp/control.sock >/tmp/target.log 2>&1 &
    echo $! >/tmp/target.pid
    wait_ms 20000 'our target listens' grep -q 'listening on' /tmp/target.log
}

set_key() { "$selvedge" host set-key "$OURS" "$host" --control unix:/tmp/control.sock "$@"; }

# Sets these keys and no others: a secret of the subsystem that is there would be lost, which set-key refuses.
set_only() {
    "$selvedge" host remove-key "$OURS" "$host" --control unix:/tmp/control.sock || true
    set_key "$@"
}

# connect SECRET [CONTROLLER'S SECRET]
connect() {
    nvme connect -t tcp -a 127.0.0.1 -s "$PORT" -n "$OURS" -i 1 -k 60 -S "$(cat "$1")" ${2:+-C "$(cat "$2")"}
}

disconnect() { nvme disconnect -n "$1"; }

reads_and_writes() {
    local device
    device=$(wait_for_namespace "$OURS" 1)
    head -c 262144 /dev/urandom >/tmp/data
    dd if=/tmp/data of="$device" bs=64k oflag=direct conv=notrunc status=none
    dd if="$device" bs=64k count=4 iflag=direct status=none | cmp - /tmp/data
}

# cell HASH GROUP SECRET [CONTROLLER'S SECRET]: what was chosen is in our log.
cell() {
    set_only -S "$3" ${4:+-C "$4"} --dhchap-hash "$1" --dhchap-dhgroup "$2"
    : >/tmp/target.log
    connect "$3" ${4:+"$4"}
    reads_and_writes
    disconnect "$OURS"
    grep -q "has authenticated.*hash=$1.* group=$2 is_bidirectional=${4:+true}" /tmp/target.log
}

refused() { ! connect "$@"; }

refused_without() { ! nvme connect -t tcp -a 127.0.0.1 -s "$PORT" -n "$OURS" -i 1 -k 60; }

falls_back() {
    set_only -S /tmp/host-1 --dhchap-dhgroup secp256r1mlkem768,mlkem768,secp256r1,ffdhe2048
    : >/tmp/target.log
    connect /tmp/host-1
    disconnect "$OURS"
    grep -q 'has authenticated.*group=ffdhe2048' /tmp/target.log
}

# The kernel authenticates all queues again when its secret is set, while it writes.
secrets_change_under_writes() {
    local controller device writer status
    set_only -S /tmp/host-1
    connect /tmp/host-1
    device=$(wait_for_namespace "$OURS" 1)
    controller=$(controller_device "$OURS")
    fio --name=verify --filename="$device" --size=8m --rw=randwrite --ioengine=libaio --direct=1 --iodepth=8 --bs=4k \
        --verify=crc32c --verify_fatal=1 --time_based --runtime=20 >/tmp/fio.log 2>&1 &
    writer=$!
    sleep 3
    set_key -S /tmp/host-3 --overlap 1h
    : >/tmp/target.log
    cat /tmp/host-3 >"/sys/class/nvme/${controller##*/}/dhchap_secret"
    wait_ms 20000 'both queues authenticate again' twice_authenticated
    set_key -S /tmp/host-3 --dhchap-hash sha512
    status=0
    wait "$writer" || status=$?
    cat /tmp/fio.log
    [[ $(cat "/sys/class/nvme/${controller##*/}/state") == live ]]
    disconnect "$OURS"
    return "$status"
}

twice_authenticated() { (($(grep -c 'has authenticated' /tmp/target.log) >= 2)); }

nvmet_serves() {
    modprobe nvmet-tcp
    modprobe brd rd_nr=1 rd_size=32768
    nvmet_subsystem "$THEIRS"
    nvmet_namespace "$THEIRS" 1 /dev/ram0
    nvmet_port 127.0.0.1 4420 "$THEIRS"
    echo 0 >"$nvmet/subsystems/$THEIRS/attr_allow_any_host"
    mkdir -p "$nvmet/hosts/$host"
    cat /tmp/ours-1 >"$nvmet/hosts/$host/dhchap_key"
    ln -s "$nvmet/hosts/$host" "$nvmet/subsystems/$THEIRS/allowed_hosts/$host"
}

# visit HASH GROUP [CONTROLLER'S SECRET]: our host at the kernel's target.
visit() {
    echo "hmac($1)" >"$nvmet/hosts/$host/dhchap_hash"
    echo "$2" >"$nvmet/hosts/$host/dhchap_dhgroup"
    "$selvedge" bench -a 127.0.0.1 -s 4420 -n "$THEIRS" -q "$host" -S /tmp/ours-1 ${3:+-C "$3"} --rw randwrite --size 1m \
        --verify --destroy-data
}

visit_with() {
    # Words of the error that our host prints.
    ! "$selvedge" identify -a 127.0.0.1 -s 4420 -n "$THEIRS" -q "$host" -S "$1" ${3:+-C "$3"} 2>/tmp/error
    cat /tmp/error
    grep -q "$2" /tmp/error
}

check 'secrets are made' make_secrets
check 'each side knows the other'\''s secrets' each_knows_the_others_secrets
check 'our target serves' serve
for hash in "${HASHES[@]}"; do
    for group in "${GROUPS_KNOWN[@]}"; do check "kernel to ours, $hash $group" cell "$hash" "$group" /tmp/host-1; done
done
for group in "${GROUPS_KNOWN[@]}"; do
    check "kernel to ours, both ways, $group" cell sha256 "$group" /tmp/host-2 /tmp/controller-2
done
for hmac in 0 3; do
    check "kernel to ours, secrets of kind $hmac" cell sha384 null "/tmp/host-$hmac" "/tmp/controller-$hmac"
    check "kernel to ours, our secrets of kind $hmac" cell sha512 ffdhe2048 "/tmp/ours-$hmac" /tmp/ours-2
done
check 'the kernel falls back to a group that it knows' falls_back
check 'secrets change under a host that writes' secrets_change_under_writes
check 'a wrong secret is refused' refused /tmp/host-2
check 'no secret is refused' refused_without
check 'the target says who is wrong' grep -q 'Refused a host that did not authenticate: the host.s response is wrong' /tmp/target.log
check 'a controller with a wrong secret is refused by the kernel' refused /tmp/host-3 /tmp/host-1
kill "$(cat /tmp/target.pid)"
check 'nvmet serves' nvmet_serves
for hash in "${HASHES[@]}"; do
    for group in "${GROUPS_KNOWN[@]}"; do check "ours to nvmet, $hash $group" visit "$hash" "$group"; done
done
cat /tmp/ours-2 >"$nvmet/hosts/$host/dhchap_ctrl_key"
for group in null ffdhe2048 ffdhe8192; do
    check "ours to nvmet, both ways, $group" visit sha256 "$group" /tmp/ours-2
done
# The kernel may close the connection before it sends the reason.
check 'nvmet refuses a wrong secret' visit_with /tmp/ours-3 "this host's secret is \(not \)\?the one"
check 'nvmet with a wrong secret is refused' visit_with /tmp/ours-1 "the controller's response is wrong" /tmp/ours-3
rm "$nvmet/subsystems/$THEIRS/allowed_hosts/$host"
rmdir "$nvmet/hosts/$host"
check 'nvmet removed' nvmet_remove "$THEIRS"
finish_checks
