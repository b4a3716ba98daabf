# Another process goes on in place of our target, under the Linux kernel's host: in clear with both digests, with
# authentication, by TLS, and by both, each under fio that verifies. The kernel must not notice any of it.
#
#   job-upgrade.sh PROGRAM [UPGRADES]
#
# PROGRAM is the program's name beside this job, UPGRADES how often. Both ends are in the guest, on its loopback.
. /guest-lib.sh

readonly UPGRADES=${2:-3}
readonly CLEAR=4421 SECURE=4422
# The subsystems by what their host does, each of which is a name's end and fio's job.
readonly WAYS=(digests authenticated tls both)
host=$(cat /etc/nvme/hostnqn)

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

nqn() { echo "nqn.2026-01.io.selvedge:$1"; }

handshakes_are_done() {
    local module
    for module in nvme-tcp tls nvme-keyring; do modprobe "$module"; done
    modprobe dh_generic || true
    printf '[debug]\nloglevel=1\n[authenticate]\nkeyrings=.nvme\n' >/etc/tlshd.conf
    tlshd -s -c /etc/tlshd.conf >/tmp/tlshd.log 2>&1 &
    wait_ms 10000 'tlshd has the keyring' grep -q "'.nvme' linked" /tmp/tlshd.log
}

# subsystem WAY PORT-NUMBER NAMESPACE: what the file says of it.
subsystem() {
    printf '[[subsystem]]\nnqn = "%s"\nports = [%s]\nhosts = ["%s"]\n[[subsystem.namespace]]\n%s\n' \
        "$(nqn "$1")" "$2" "$host" "$3"
}

serves() {
    umask 077
    "$selvedge" key generate --output /tmp/secret
    "$selvedge" key generate --tls --output /tmp/tls.key
    {
        printf '[[port]]\naddress = "127.0.0.1:%s"\ntls = "off"\n[[port]]\naddress = "127.0.0.1:%s"\n' "$CLEAR" "$SECURE"
        subsystem digests 1 $'file = "/tmp/disk-1"\nsize = "64m"'
        subsystem authenticated 1 'memory = "64m"'
        printf '[[subsystem.host_key]]\nhost = "%s"\ndhchap_secret_file = "/tmp/secret"\n' "$host"
        subsystem tls 2 $'file = "/tmp/disk-2"\nsize = "64m"'
        printf '[[subsystem.host_key]]\nhost = "%s"\ntls_key_file = "/tmp/tls.key"\n' "$host"
        subsystem both 2 'memory = "64m"'
        printf '[[subsystem.host_key]]\nhost = "%s"\n' "$host"
        printf 'tls_key_file = "/tmp/tls.key"\ndhchap_secret_file = "/tmp/secret"\n'
    } >/tmp/target.toml
    serve_again /tmp/target.toml "$SECURE"
}

# connect WAY PORT [OPTION]...
connect() {
    local way=$1 port=$2
    shift 2
    nvme connect -t tcp -a 127.0.0.1 -s "$port" -n "$(nqn "$way")" -i 2 -k 30 --reconnect-delay 1 "$@"
    wait_for_namespace "$(nqn "$way")" 1
}

kernel_connects() {
    local way secret
    secret=$(cat /tmp/secret)
    for way in tls both; do
        "$selvedge" key identity /tmp/tls.key -q "$host" -n "$(nqn "$way")" --identity 1 --insert
    done
    connect digests "$CLEAR" -g -G
    connect authenticated "$CLEAR" -S "$secret"
    connect tls "$SECURE" --tls
    connect both "$SECURE" --tls -S "$secret" -g
}

# Each block has its place and number in it, and is compared as soon as some more were written.
begin_writing() {
    local way
    for way in "${WAYS[@]}"; do
        fio --name="$way" --filename="$(wait_for_namespace "$(nqn "$way")" 1)" --size=16m --rw=randrw --ioengine=libaio \
            --direct=1 --iodepth=8 --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
            --time_based --runtime=100000 --trigger-file="/tmp/$way.enough" --output-format=json --output="/tmp/$way.json" \
            >"/tmp/$way.log" 2>&1 &
        echo $! >"/tmp/$way.pid"
    done
    sleep 3
}

# Controllers of the kernel: those that it had to create again would have other numbers, or be in another state.
controllers() { grep -H . /sys/class/nvme/nvme*/{subsysnqn,cntlid,state} | sort; }

target_is_upgraded() {
    local count
    controllers >/tmp/controllers
    dmesg -C
    for ((count = 1; count <= UPGRADES; count++)); do
        "$selvedge" upgrade --control unix:/tmp/control.sock -o json >/tmp/upgraded
        jq .process /tmp/upgraded >/tmp/target.pid
        jq -c '[.process, .took_ms]' /tmp/upgraded
        sleep 1
        controllers >/tmp/controllers.now
        diff /tmp/controllers /tmp/controllers.now
    done
    (($(grep -c 'live$' /tmp/controllers) == ${#WAYS[@]}))
}

# The kernel would log a lost or recreated controller by name.
kernel_has_noticed_nothing() {
    dmesg | not grep -iE 'nvme|tls|I/O error|WARNING|BUG:'
}

# ended WAY: fio has, without an error.
ended() {
    local pid
    pid=$(cat "/tmp/$1.pid")
    wait_ms 120000 "fio of $1 ends" has_ended "/tmp/$1.pid" || { kill -KILL "$pid"; return 1; }
    # Lines before the report are for people.
    sed -n '/^{/,$p' "/tmp/$1.json" >"/tmp/$1.report"
    jq -e '.jobs[0] | .error == 0 and .write.total_ios > 100 and .read.total_ios > 100' "/tmp/$1.report" ||
        { cat "/tmp/$1.json"; return 1; }
    jq -r '.jobs[0] | "measured: \(.jobname): \(.read.total_ios) reads, \(.write.total_ios) writes, slowest " +
        "\(([.read.clat_ns.max, .write.clat_ns.max] | max) / 1000000 | round) ms"' "/tmp/$1.report" >>/tmp/measured
}

writers_have_lost_nothing() {
    local way
    # Each takes its own away when it sees it, which is within seconds.
    for way in "${WAYS[@]}"; do touch "/tmp/$way.enough"; done
    for way in "${WAYS[@]}"; do ended "$way"; done
}

hosts_leave() {
    local way
    for way in "${WAYS[@]}"; do nvme disconnect -n "$(nqn "$way")"; done
}

check 'tlshd does handshakes' handshakes_are_done
check 'our target serves' serves
check 'the kernel connects in four ways' kernel_connects
check 'fio begins' begin_writing
check "our target is upgraded $UPGRADES times" target_is_upgraded
check 'the kernel has noticed nothing' kernel_has_noticed_nothing
check 'fio has found nothing wrong' writers_have_lost_nothing
cat /tmp/measured
check 'the hosts leave' hosts_leave
finish_checks
