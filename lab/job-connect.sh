# The kernel's initiator without nvme-cli: `selvedge connect` and `disconnect` with paths, digests, secrets, TLS and the tuner, what
# they say where something is wrong, and the files for the next boot, which nvme-cli in this guest reads and connects by.
#
#   job-connect.sh PROGRAM
#
# PROGRAM is the program's name beside this job. It takes two more network cards: our targets are in a network namespace.
. /guest-lib.sh

readonly ADDRESS=10.88.0.2 NQN=nqn.2026-01.io.selvedge:disks OTHER=nqn.2026-01.io.selvedge:other
readonly SECURE=nqn.2026-01.io.selvedge:secure TLS_PORT=4430 SECRET_PORT=4431
readonly CONFIG=/etc/nvme/config.json CONF=/etc/nvme/discovery.conf
host=$(cat /etc/nvme/hostnqn)

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

# Entries of another program, with keys that nvme-cli does not know, have to stay.
readonly THEIRS='[{"hostnqn":"nqn.2026-01.org.example:theirs","hostid":"other","colour":{"is":["blue"]},
    "subsystems":[{"nqn":"nqn.2026-01.org.example:a","ports":[{"transport":"fc","traddr":"none","new":1}]}]}]'

make_network() {
    ip netns add target
    ip link set eth2 netns target
    ip link set eth1 up
    ip addr add 10.88.0.1/24 dev eth1
    ip -n target link set lo up
    ip -n target link set eth2 up
    ip -n target addr add "$ADDRESS/24" dev eth2
}

write_configurations() {
    # By it a disk is the same one after a restart.
    echo 5e17ed9e00004000800000000000000a >/etc/machine-id
    "$selvedge" key generate --output /tmp/host.key
    "$selvedge" key generate --tls --output /tmp/tls.key
    cat >/tmp/clear.toml <<TOML
[[port]]
address = "$ADDRESS:4420"
[[port]]
address = "$ADDRESS:4421"
[[subsystem]]
nqn = "$NQN"
ports = [1, 2]
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
memory = "32m"
[[subsystem.namespace]]
nsid = 2
memory = "8m"
block = 512
[[subsystem]]
nqn = "$OTHER"
ports = [1]
allow_any_host = true
[[subsystem.namespace]]
memory = "4m"
TOML
    cat >/tmp/secure.toml <<TOML
[[port]]
address = "$ADDRESS:$TLS_PORT"
tls = "required"
[[port]]
address = "$ADDRESS:$SECRET_PORT"
tls = "off"
[[subsystem]]
nqn = "$SECURE"
hosts = ["$host"]
[[subsystem.host_key]]
host = "$host"
tls_key_file = "/tmp/tls.key"
dhchap_secret_file = "/tmp/host.key"
# Key exchanges take this processor seconds, and have a job of their own.
dhchap_dhgroup = ["null"]
[[subsystem.namespace]]
memory = "4m"
TOML
}

# serves NAME PORTS
serves() {
    ip netns exec target "$selvedge" serve -c "/tmp/$1.toml" --control "unix:/tmp/$1.sock" --reactors 1 \
        >"/tmp/$1.log" 2>&1 </dev/null &
    wait_ms 60000 "the target $1" listens "$1" || { cat "/tmp/$1.log"; return 1; }
}

listens() { (($(grep -c 'listening on' "/tmp/$1.log") == 2)); }

targets_serve() {
    make_network
    write_configurations
    serves clear
    serves secure
}

handshakes_are_done() {
    local module
    for module in nvme-tcp tls nvme-keyring; do modprobe "$module"; done
    printf '[debug]\nloglevel=1\ntls=1\nnl=0\n[authenticate]\nkeyrings=.nvme\n' >/etc/tlshd.conf
    tlshd -s -c /etc/tlshd.conf >/tmp/tlshd.log 2>&1 &
    wait_ms 10000 'tlshd has the keyring' grep -q "'.nvme' linked" /tmp/tlshd.log
}

# refuses WORDS COMMAND...: one line says why.
refuses() {
    local words=$1 status=0
    shift
    "$@" >/tmp/refused 2>&1 || status=$?
    cat /tmp/refused
    ((status == 1))
    grep -v '^connecting to ' /tmp/refused >/tmp/lines
    grep -qE -- "$words" /tmp/lines
    (($(wc -l </tmp/lines) == 1))
}

# nvme_cli_connects NQN: as config.json says.
nvme_cli_connects() {
    nvme connect -J "$CONFIG" -q "$host"
    wait_ms 10000 'nvme-cli connects it' has_controllers 1 "$1"
}

# The keep-alive is long because this processor is emulated, and the machine below may be busy too.
connect() {
    "$selvedge" connect -a "$ADDRESS" -k 60 "$@" -o json >/tmp/connected.json
    cat /tmp/connected.json
}

disconnect() {
    "$selvedge" disconnect "$@" >/tmp/disconnected
    cat /tmp/disconnected
}

nothing_is_left() { ! compgen -G '/sys/class/nvme/nvme*' && ! compgen -G '/dev/nvme*n*'; }

# disk [NQN]: the first one of what was connected last.
disk() { jq -er --arg nqn "${1:-$NQN}" 'first(.namespaces[] | select(.nqn == $nqn)).device' /tmp/connected.json; }

fio_verifies() {
    fio --name=verify --filename="$1" --size=1m --rw=randwrite --ioengine=libaio --direct=1 --iodepth=8 \
        --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --do_verify=1 --verify_fatal=1
}

bytes_come_back() {
    [[ -e /tmp/data ]] || head -c 262144 /dev/urandom >/tmp/data
    dd if=/tmp/data of="$1" bs=64k oflag=direct conv=notrunc status=none
    dd if="$1" bs=64k count=4 iflag=direct status=none | cmp - /tmp/data
}

# has_controllers COUNT NQN: as nvme-cli sees it.
has_controllers() {
    nvme list-subsys -o json | jq -e --argjson count "$1" --arg nqn "$2" \
        '[.. | objects | select(.NQN? == $nqn) | .Paths[]? | select(.State == "live")] | length == $count'
}

says_that_the_module_is_missing() {
    [[ ! -e /dev/nvme-fabrics ]]
    refuses 'modprobe nvme-tcp' "$selvedge" connect -a "$ADDRESS" -n "$NQN"
}

says_that_root_is_needed() {
    modprobe nvme-tcp
    local unprivileged=(setpriv --reuid 1000 --regid 1000 --clear-groups)
    refuses "is root's" "${unprivileged[@]}" "$selvedge" connect -a "$ADDRESS" -n "$NQN"
    "${unprivileged[@]}" "$selvedge" connect -a "$ADDRESS" -n "$NQN" --dry-run |
        grep "^nqn=$NQN,transport=tcp,traddr=$ADDRESS,trsvcid=4420,hostnqn=$host,"
    nothing_is_left
}

says_why() {
    refuses 'connection refused' "$selvedge" connect -a "$ADDRESS" -s 1 -n "$NQN"
    refuses "the kernel's log: nvme" "$selvedge" connect -a "$ADDRESS" -n nqn.2026-01.io.selvedge:none
    refuses 'no such interface' "$selvedge" connect -a "$ADDRESS" -n "$NQN" -f none0
    refuses '--dhchap-secret-file' "$selvedge" connect -a "$ADDRESS" -s "$SECRET_PORT" -n "$SECURE"
    # Kernels since 6.16 have it.
    if tr , '\n' </dev/nvme-fabrics | grep -qx concat; then return; fi
    refuses 'does not know the option `concat`' \
        "$selvedge" connect -a "$ADDRESS" -s "$SECRET_PORT" -n "$SECURE" -S /tmp/host.key --concat
}

connects_with_digests() {
    connect -n "$NQN" -i 2 -g -G
    jq -e '[.namespaces[].nsid] == [1, 2] and .namespaces[0].size_bytes == 33554432' /tmp/connected.json
    [[ $(cat "/sys/class/nvme/$(jq -r '.controllers[0].controller' /tmp/connected.json)/queue_count") == 3 ]]
    has_controllers 1 "$NQN"
    fio_verifies "$(disk)"
}

takes_a_second_path() {
    connect -a "$ADDRESS:4421" -n "$NQN" -i 2
    jq -e '[.controllers[].was_connected] == [true, false] and (.namespaces | length == 2)' /tmp/connected.json
    has_controllers 2 "$NQN"
    bytes_come_back "$(disk)"
}

leaves_what_is_mounted() {
    local disk
    disk=$(disk)
    mkfs.ext4 -q "$disk"
    mount "$disk" /mnt
    refuses "$disk is mounted on /mnt" "$selvedge" disconnect -n "$NQN"
    disconnect -n "$NQN" -a "$ADDRESS" -s 4420
    grep -qx 'disconnected 1 controller' /tmp/disconnected
    echo data >/mnt/file
    umount /mnt
    has_controllers 1 "$NQN"
    disconnect -n "$NQN" -o json
    jq -e '.controllers | length == 1' /tmp/disconnected
    nothing_is_left
    disconnect -n "$NQN"
    grep -qx 'disconnected 0 controllers' /tmp/disconnected
}

all_are_there() { has_controllers 2 "$NQN" && has_controllers 1 "$OTHER"; }

connects_all() {
    echo '# theirs' >"$CONF"
    connect -i 1 --persistent
    all_are_there
    cat "$CONF"
    disconnect --all-of -a "$ADDRESS"
    grep -qx 'disconnected 3 controllers' /tmp/disconnected
    nothing_is_left
    nvme connect-all
    wait_ms 10000 'nvme-cli connects all of it' all_are_there
    connect
    jq -e '[.controllers[].was_connected] == [true, true, true]' /tmp/connected.json
    disconnect --all-of -a "$ADDRESS" --persistent
    nothing_is_left
    [[ $(cat "$CONF") == '# theirs' ]]
}

keeps_one() {
    rm "$CONF"
    echo "$THEIRS" >"$CONFIG"
    connect -n "$NQN" -i 1 -c 3 --persistent
    cat "$CONFIG"
    disconnect -n "$NQN"
    nothing_is_left
    # The other host is not this one.
    nvme_cli_connects "$NQN"
    [[ $(cat "/sys/class/nvme/nvme0/queue_count" "/sys/class/nvme/nvme0/reconnect_delay") == $'2\n3' ]]
    disconnect -d nvme0 --persistent
    nothing_is_left
    diff <(jq -S . "$CONFIG") <(jq -S . <<<"$THEIRS")
}

authenticates() {
    connect -s "$SECRET_PORT" -n "$SECURE" -S /tmp/host.key -i 1
    bytes_come_back "$(disk "$SECURE")"
    disconnect -n "$SECURE"
    nothing_is_left
}

encrypts() {
    connect -s "$TLS_PORT" -n "$SECURE" -S /tmp/host.key --tls-key-file /tmp/tls.key -i 1 --persistent
    [[ $(stat -c %a "$CONFIG") == 600 ]]
    bytes_come_back "$(disk "$SECURE")"
    disconnect -n "$SECURE"
    keyctl clear %:.nvme
    nvme_cli_connects "$SECURE"
    disconnect -n "$SECURE" --persistent
    nothing_is_left
    ! grep -q "$SECURE" "$CONFIG"
}

steering() { cat /sys/class/net/eth1/queues/rx-0/rps_cpus; }

tunes() {
    echo 3 >/sys/class/net/eth1/queues/rx-0/rps_cpus
    connect -n "$NQN" --tune
    # The card has one queue, which one processor serves.
    [[ $(cat /sys/class/nvme/nvme0/queue_count) == 2 ]]
    jq -e '.tuned.steps | length > 0' /tmp/connected.json
    (($(steering) == 0))
    refuses 'tune revert' "$selvedge" connect -a "$ADDRESS" -n "$OTHER" --tune
    bytes_come_back "$(disk)"
    "$selvedge" tune revert
    (($(steering) == 3))
    disconnect -n "$NQN"
    nothing_is_left
}

hear_outside
if check 'our targets serve' targets_serve; then
    check 'no module is one line' says_that_the_module_is_missing
    check 'no right is one line' says_that_root_is_needed
    check 'a refusal is one line' says_why
    dmesg -C
    check 'connect with digests' connects_with_digests
    check 'a second path' takes_a_second_path
    check 'what is mounted stays' leaves_what_is_mounted
    check 'all that a target shows, and discovery.conf' connects_all
    check 'one subsystem, and config.json' keeps_one
    check 'a secret' authenticates
    if check 'tlshd does handshakes' handshakes_are_done; then check 'TLS' encrypts; fi
    check 'the tuner' tunes
fi
check 'kernel log is clean' kernel_log_is_clean
finish_checks
