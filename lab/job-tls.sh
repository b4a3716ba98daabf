# TLS 1.3 with the Linux kernel at either end, its handshakes by tlshd: its host at our target with keys put into the kernel's
# keyring by nvme-cli and by us, for both versions of identities; discovery; wrong keys, and no key; keys that
# change and get old, and a target that restarts, under a host that writes; our host at the kernel's target.
#
#   job-tls.sh PROGRAM
#
# PROGRAM is the program's name beside this job. Both ends are in the guest, on its loopback.
. /guest-lib.sh

readonly OURS=nqn.2026-01.io.selvedge:secure CLEAR=nqn.2026-01.io.selvedge:clear THEIRS=nqn.2026-01.io.selvedge:nvmet
readonly DISCOVERY=nqn.2014-08.org.nvmexpress.discovery
# Ports of our target, by their use of TLS.
readonly REQUIRED=4421 ALLOWED=4422 OFF=4423
readonly NVMET=4420
readonly -A SUITES=([1]=TLS_AES_128_GCM_SHA256 [2]=TLS_AES_256_GCM_SHA384)
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

make_keys() {
    local hmac
    umask 077
    for hmac in 1 2; do
        nvme gen-tls-key -m "$hmac" -n "$host" -c "$OURS" >"/tmp/theirs-$hmac"
        "$selvedge" key generate --tls -m "$hmac" --output "/tmp/ours-$hmac"
        # Each program accepts the other's keys.
        "$selvedge" key check "/tmp/theirs-$hmac"
        nvme check-tls-key -d "$(cat "/tmp/ours-$hmac")" -n "$host" -c "$OURS"
    done
    "$selvedge" key generate --tls -m 0 --output /tmp/ours-0
    cp /tmp/theirs-1 /tmp/host.key
}

serve() {
    "$selvedge" serve -c /tmp/target.toml --control unix:/tmp/control.sock "$@" >>/tmp/target.log 2>&1 &
    echo $! >/tmp/target.pid
    wait_ms 20000 'our target listens' grep -q "listening on 127.0.0.1:$OFF" /tmp/target.log
}

serves() {
    # By it a disk is the same one after a restart.
    echo 5e17ed9e00004000800000000000000a >/etc/machine-id
    cat >/tmp/target.toml <<TOML
[[port]]
address = "127.0.0.1:$REQUIRED"
[[port]]
address = "127.0.0.1:$ALLOWED"
tls = "allowed"
[[port]]
address = "127.0.0.1:$OFF"
tls = "off"
[[subsystem]]
nqn = "$OURS"
ports = [1, 2]
hosts = ["$host"]
[[subsystem.host_key]]
host = "$host"
tls_key_file = "/tmp/host.key"
[[subsystem.namespace]]
file = "/tmp/disk"
size = "16m"
[[subsystem]]
nqn = "$CLEAR"
ports = [3]
hosts = ["$host"]
[[subsystem.namespace]]
memory = "1m"
TOML
    serve
}

is_gone() { ! kill -0 "$1"; }

end_target() {
    local pid
    pid=$(cat /tmp/target.pid)
    kill "$pid"
    wait_ms 20000 'our target ends' is_gone "$pid"
}

set_key() { "$selvedge" host set-key "$OURS" "$host" --control unix:/tmp/control.sock --tls-key-file "$1"; }

# insert nvme-cli|selvedge FILE IDENTITY NQN [SUITE]: the only key that the kernel has then. This nvme-cli derives PSKs as all of
# them did until 2025.
insert() {
    keyctl clear %:.nvme
    case $1 in
        nvme-cli) nvme check-tls-key -d "$(cat "$2")" -n "$host" -c "$4" -I "$3" -i ;;
        selvedge) "$selvedge" key identity "$2" -q "$host" -n "$4" --identity "$3" --insert ${5:+-m "$5"} ;;
    esac
}

connect() { nvme connect -t tcp -a 127.0.0.1 -n "$OURS" -i 2 -k 60 --reconnect-delay 1 "$@"; }

disconnect() { nvme disconnect -n "$1"; }

# fio_verifies SIZE [OPTION]...: writes that are read back and compared, through both queues.
fio_verifies() {
    local device size=$1
    shift
    device=$(wait_for_namespace "$OURS" 1)
    fio --name=verify --filename="$device" --size="$size" --rw=randwrite --ioengine=libaio --direct=1 --iodepth=8 --numjobs=2 \
        --offset_increment="$size" --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --do_verify=1 --verify_fatal=1 "$@"
}

# cell PROGRAM FILE SUITE IDENTITY [CONNECT'S OPTION]...: what was chosen is in our log.
cell() {
    local by=$1 file=$2 suite=$3 identity=$4 derivation=standard
    shift 4
    [[ $by == selvedge ]] || derivation=compat
    cp "$file" /tmp/host.key
    set_key /tmp/host.key
    insert "$by" "$file" "$identity" "$OURS" "$suite"
    : >/tmp/target.log
    connect -s "$REQUIRED" --tls "$@"
    fio_verifies 512k
    disconnect "$OURS"
    cat /tmp/target.log
    (($(grep -c "TLS peer.*identity=NVMe${identity}R0$suite .* suite=${SUITES[$suite]} derivation=$derivation" \
        /tmp/target.log) == 3))
}

counts_old_keys() {
    local counted
    counted=$("$selvedge" status --control unix:/tmp/control.sock -o json | jq '.peculiarities.compat_tls_key')
    echo "compat_tls_key $counted"
    ((counted > 0))
}

# offers NQN PORT SECTYPE: the discovery log has this entry. This nvme-cli shows no TREQ that has the bit ZHIDS, which is newer.
offers() {
    jq -e --arg nqn "$1" --arg port "$2" --arg sectype "$3" '.records[] | select(.subnqn == $nqn and .trsvcid == $port
        and .sectype == $sectype)' /tmp/log.json
}

discovery_says() {
    nvme discover -t tcp -a 127.0.0.1 "$@" -o json >/tmp/log.json
    cat /tmp/log.json
    offers "$OURS" "$REQUIRED" tls13
    offers "$OURS" "$ALLOWED" tls13
    offers "$CLEAR" "$OFF" none
}

# Two paths to one disk by TLS. What is in clear is connected only without --tls, which counts for all that is found.
connects_all() {
    : >/tmp/target.log
    nvme connect-all -t tcp -a 127.0.0.1 -k 60 -i 1 "$@"
    wait_for_namespace "$OURS" 1
    nvme list-subsys
    nvme disconnect -n "$OURS"
    cat /tmp/target.log
    (($(grep -c "TLS peer.*$OURS" /tmp/target.log) == 4))
}

discovers_in_clear() {
    connects_all -s "$ALLOWED"
    wait_for_namespace "$CLEAR" 1
    nvme disconnect -n "$CLEAR"
}

discovers_by_tls() {
    nvme check-tls-key -d "$(cat /tmp/host.key)" -n "$host" -c "$DISCOVERY" -I 1 -i
    discovery_says -s "$REQUIRED" --tls
    connects_all -s "$REQUIRED" --tls
    ! controller_device "$CLEAR"
}

# refused OUR-WORDS KERNEL-WORDS CONNECT'S-OPTION...: the connection is refused, and both ends give the reason.
refused() {
    local ours=$1 kernels=$2
    shift 2
    : >/tmp/target.log
    dmesg -C
    : >/tmp/tlshd.log
    ! connect "$@"
    cat /tmp/target.log /tmp/tlshd.log
    dmesg
    grep -q "$ours" /tmp/target.log
    { cat /tmp/tlshd.log; dmesg; } | grep -q "$kernels"
}

refused_with_key() {
    insert "$1" "$2" "$3" "$OURS"
    shift 3
    refused "$@" -s "$REQUIRED" --tls
}

# This tlshd's GnuTLS computes binders by SHA-256 for every key, so that its suite 2 is one that NVMe/TCP does not have.
suite_2_is_refused() {
    cp /tmp/theirs-2 /tmp/host.key
    set_key /tmp/host.key
    refused_with_key nvme-cli /tmp/theirs-2 1 'give the host a key of SHA-256' 'error -13'
}

controller_is() { holds "/sys/class/nvme/${controller##*/}/state" "$1"; }

is_connected() { (($(grep -c "TLS peer.*identity=$1" /tmp/target.log) >= 3)) && controller_is live; }

begin_writing() {
    insert nvme-cli /tmp/host.key 1 "$OURS"
    connect -s "$REQUIRED" --tls
    controller=$(controller_device "$OURS")
    fio_verifies 1m --time_based --runtime="$1" --verify_backlog=64 >/tmp/fio.log 2>&1 &
    writer=$!
    sleep 2
}

end_writing() {
    local status=0
    wait "$writer" || status=$?
    cat /tmp/fio.log /tmp/target.log
    dmesg | tail -n 30
    # The controller may be reconnecting: its keys may just have expired.
    wait_ms 20000 'the controller is live' controller_is live
    disconnect "$OURS"
    return "$status"
}

connects_again() {
    : >/tmp/target.log
    echo 1 >"/sys/class/nvme/${controller##*/}/reset_controller"
    wait_ms 20000 'all queues connect again' is_connected NVMe1R01
}

keys_change_under_writes() {
    local controller writer
    cp /tmp/theirs-1 /tmp/host.key
    set_key /tmp/host.key
    begin_writing 8
    cat /tmp/ours-1 >>/tmp/host.key
    set_key /tmp/host.key
    connects_again
    insert nvme-cli /tmp/ours-1 1 "$OURS"
    connects_again
    cp /tmp/ours-1 /tmp/host.key
    set_key /tmp/host.key
    connects_again
    end_writing
}

target_restarts_under_writes() {
    local controller writer
    begin_writing 8
    end_target
    : >/tmp/target.log
    serve
    wait_ms 20000 'the kernel is back' is_connected NVMe1R01
    end_writing
}

# The kernel cannot replace a queue's keys, so that the queue ends; it then connects the whole controller again.
keys_get_old_under_writes() {
    local controller writer worn
    end_target
    : >/tmp/target.log
    serve --tls-record-limit 600
    dmesg -C
    # A slow processor seals few records in a round.
    for _ in {1..12}; do
        begin_writing 10
        end_writing
        worn=$(grep -c 'TLS keys of a queue are worn' /tmp/target.log)
        ((worn < 2)) || break
    done
    echo "measured: $worn queues ended with worn keys"
    ((worn >= 2))
}

nvmet_serves() {
    modprobe brd rd_nr=1 rd_size=16384
    nvmet_subsystem "$THEIRS"
    nvmet_namespace "$THEIRS" 1 /dev/ram0
    echo 0 >"$nvmet/subsystems/$THEIRS/attr_allow_any_host"
    mkdir -p "$nvmet/hosts/$host"
    ln -s "$nvmet/hosts/$host" "$nvmet/subsystems/$THEIRS/allowed_hosts/$host"
    nvmet_port 127.0.0.1 "$NVMET" "$THEIRS" tls1.3
}

# visit PROGRAM FILE IDENTITY [OPTION]...: our host at the kernel's target, whose keyring PROGRAM fills.
visit() {
    local by=$1 file=$2 identity=$3
    shift 3
    insert "$by" "$file" "$identity" "$THEIRS"
    "$selvedge" bench -a 127.0.0.1 -s "$NVMET" -n "$THEIRS" -q "$host" --tls-key-file "$file" --rw randwrite --size 1m \
        --verify --destroy-data "$@"
}

# visit_fails WORDS TLSHD'S-WORDS [OPTION]...
visit_fails() {
    local words=$1 theirs=$2
    shift 2
    : >/tmp/tlshd.log
    ! "$selvedge" identify -a 127.0.0.1 -s "$NVMET" -n "$THEIRS" -q "$host" "$@" 2>/tmp/error
    wait_ms 5000 'tlshd says why' grep -a "$theirs" /tmp/tlshd.log
    cat /tmp/error /tmp/tlshd.log
    grep -q "$words" /tmp/error
}

# This tlshd ends at the first identity that it does not know: the host offers one after the other then.
keys_are_tried_one_by_one() {
    visit nvme-cli /tmp/theirs-1 1
    visit selvedge /tmp/theirs-1 0
}

# The kernel's target replaces no keys either. One queue of our host after the other ends when nothing is outstanding, and
# reconnects to the same controller: a path that was lost would fail the run.
keys_get_old_towards_nvmet() {
    local reconnected
    insert selvedge /tmp/ours-1 1 "$THEIRS"
    dmesg -C
    "$selvedge" bench -a 127.0.0.1 -s "$NVMET" -n "$THEIRS" -q "$host" --tls-key-file /tmp/ours-1 --tls-identity 1 -k 60 \
        --tls-record-limit 200 --rw randrw --size 4m --numjobs 2 --iodepth 8 --runtime 15 --verify --destroy-data "$@" \
        2>/tmp/visit.log || { tail -n 40 /tmp/visit.log; dmesg; return 1; }
    dmesg
    reconnected=$(grep -c 'reconnecting the queue' /tmp/visit.log)
    echo "measured: $reconnected queues reconnected"
    ((reconnected >= 4))
    (($(dmesg | grep -c 'nvmet: creat.*controller') == 1))
}

nvmet_has_no_suite_2() {
    insert selvedge /tmp/ours-2 1 "$THEIRS"
    visit_fails 'closed the connection during the TLS handshake' 'unhandled error -55' --tls-key-file /tmp/ours-2
}

check 'tlshd does handshakes' handshakes_are_done
check 'each knows the other'\''s keys' make_keys
check 'our target serves' serves
for identity in 0 1; do
    check "kernel to ours, suite 1, identity $identity, nvme-cli's key" cell nvme-cli /tmp/theirs-1 1 "$identity"
    check "kernel to ours, suite 1, identity $identity, our key" cell selvedge /tmp/ours-1 1 "$identity"
done
check 'kernel to ours, header digests' cell nvme-cli /tmp/theirs-1 1 1 -g
check 'kernel to ours, both digests' cell selvedge /tmp/ours-1 1 1 -g -G
check 'kernel to ours, key without a hash function' cell selvedge /tmp/ours-0 1 1
check 'kernel to ours, key without a hash function, nvme-cli' cell nvme-cli /tmp/ours-0 1 1
check 'our target counts keys of old nvme-cli' counts_old_keys
check 'kernel to ours, suite 2, is refused with a word on tlshd' suite_2_is_refused
cp /tmp/theirs-1 /tmp/host.key
set_key /tmp/host.key
insert nvme-cli /tmp/host.key 1 "$OURS"
check 'discovery says where TLS is' discovery_says -s "$ALLOWED"
check 'discovery in clear is on a port without TLS too' discovery_says -s "$OFF"
check 'connect-all by discovery in clear' discovers_in_clear
check 'connect-all by discovery with TLS' discovers_by_tls
check 'a wrong key is refused' refused_with_key nvme-cli /tmp/ours-1 1 'no key has identity' 'error -13'
check 'a wrong key that its identity does not name is refused' refused_with_key nvme-cli /tmp/ours-1 0 'has another key of identity' 'error -13'
check 'no key is refused' refused 'Refused a host without TLS' 'nvme' -s "$REQUIRED"
insert nvme-cli /tmp/host.key 1 "$OURS"
check 'TLS on a port without it is refused' refused 'with TLS, which this port does not have' 'error -13' -s "$OFF" --tls
check 'keys change under a host that writes' keys_change_under_writes
check 'our target restarts under a host that writes' target_restarts_under_writes
check 'keys get old under a host that writes' keys_get_old_under_writes
end_target
check 'nvmet serves' nvmet_serves
for identity in 0 1; do
    check "ours to nvmet, identity $identity, our key" visit selvedge /tmp/ours-1 "$identity" --tls-identity "$identity"
    check "ours to nvmet, identity $identity, nvme-cli's derivation" \
        visit nvme-cli /tmp/theirs-1 "$identity" --tls-identity "$identity" --tls-compat
done
check 'ours to nvmet, what our host offers by default' visit selvedge /tmp/ours-1 1
check 'ours to nvmet, both digests' visit selvedge /tmp/ours-1 1 -g -G
check 'ours to nvmet, one key after the other' keys_are_tried_one_by_one
check 'ours to nvmet, keys get old' keys_get_old_towards_nvmet
check 'ours to nvmet, keys get old, both digests' keys_get_old_towards_nvmet -g -G
check 'nvmet has suite 2 by GnuTLS'\'' rules alone' nvmet_has_no_suite_2
insert selvedge /tmp/ours-1 0 "$THEIRS"
check 'nvmet refuses a wrong key' visit_fails 'TLS handshake' 'failed' --tls-key-file /tmp/theirs-1 --tls-identity 0
cat /tmp/error
check 'nvmet refuses a host in clear' visit_fails 'it may require TLS' 'unhandled error -15'
rm "$nvmet/subsystems/$THEIRS/allowed_hosts/$host"
rmdir "$nvmet/hosts/$host"
check 'nvmet removed' nvmet_remove "$THEIRS"
finish_checks
