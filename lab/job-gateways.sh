# The kernel as a host of three gateways that serve the same image of a Ceph cluster: one disk with three paths, of which one
# is optimized and the others inaccessible. One of them is asked where all are. The gateway of the optimized path is killed and
# started again while a file system is written and verified, and what is on the disk then is the image. A reservation outlives the
# gateway that is killed, and the way back.
#
#   job-gateways.sh ADDRESS PORT-1 PORT-2 PORT-3 NQN
#
# Namespace 1 has 64 MiB and is the first gateway's. Outside, `gateway kill` and `gateway start` are about that one, and
# `image SHA256` compares what is in the image; `other-host writes` and `other-host refused` say what becomes of another host's
# write.
. /guest-lib.sh

address=$1 ports=([1]=$2 [2]=$3 [3]=$4) nqn=$5
# Kernel messages of a host about a gateway that is gone, until it returns, and about a path that it must no longer use.
readonly GONE='error recovery|(send request|receive failed:) +-(32|104)|connect socket: -111|Failed reconnect attempt|Asymmetric|Internal Path|failed: -111'

# The second gateway says where all are. The keep-alive is long because this processor is emulated, and the machine below may
# be busy too.
connects_to_all() {
    local number
    nvme connect-all -t tcp -a "$address" -s "${ports[2]}" -i 2 -k 60 --reconnect-delay 2 --ctrl-loss-tmo 600
    wait_for_namespace "$nqn" 1
    for number in 1 2 3; do wait_ms 15000 "path $number" find_path "$number"; done
}

first_is_optimized() {
    local number
    wait_ms 30000 'path 1 optimized' has_ana_state 1 optimized
    for number in 2 3; do wait_ms 30000 "path $number inaccessible" has_ana_state "$number" inaccessible; done
    for number in 1 2 3; do has_state "$number" live; done
    # No two gateways give the same identifier to controllers of one subsystem.
    (($(sort -u "${controllers[1]}/cntlid" "${controllers[2]}/cntlid" "${controllers[3]}/cntlid" | wc -l) == 3))
}

makes_file_system() {
    mkfs.ext4 -q -F "$disk"
    mount "$disk" /mnt
    dd if=/dev/urandom of=/mnt/before bs=1M count=4 status=none
    sync
    sha256sum /mnt/before >/tmp/before.sha256
}

# goes_on PATH COUNT: the path completes that many more reads and writes.
has_carried() {
    local -a fields
    read -ra fields <"${paths[$1]}/stat"
    ((fields[0] + fields[4] >= $2))
}

goes_on() {
    local -a fields
    read -ra fields <"${paths[$1]}/stat"
    wait_ms 120000 "$2 more commands on path $1" has_carried "$1" $((fields[0] + fields[4] + $2))
}

gateway() { ask_outside gateway "$1"; }

another_is_optimized() {
    for next_owner in 2 3; do has_ana_state "$next_owner" optimized && return; done
    return 1
}

# The host sees its connections end, and another gateway notifies it after the takeover.
gateway_is_killed() {
    local next_owner
    gateway kill
    within_ms 60000 'path 1 connecting' has_state 1 connecting
    within_ms 60000 'another path optimized' another_is_optimized
    goes_on "$next_owner" 60
    has_state 1 connecting
    gateway start
    within_ms 120000 'path 1 live again' has_state 1 live
    within_ms 120000 'path 1 optimized again' has_ana_state 1 optimized
    wait_ms 60000 "path $next_owner inaccessible again" has_ana_state "$next_owner" inaccessible
    goes_on 1 60
}

end_load() { kill -TERM "$fio" 2>/dev/null; }

# Not as fast as it can: the emulated processors have to do the rest, too.
file_is_verified_meanwhile() {
    local fio
    fio --name=load --filename=/mnt/load --size=16m --rw=randwrite --ioengine=libaio --direct=1 --iodepth=8 \
        --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --verify_backlog=16 --verify_fatal=1 --rate_iops=100 \
        --time_based --runtime=1200 --output-format=json --output=/tmp/load.json >/tmp/load.log 2>&1 &
    fio=$!
    trap end_load EXIT
    goes_on 1 100
    gateway_is_killed
    trap - EXIT
    kill -0 "$fio"
    end_load
    # fio exits with an error when it is ended; its report has the result.
    wait "$fio" || true
    sed -i '/^{/,$!d' /tmp/load.json
    jq -c '.jobs[0] | {error, written: .write.total_ios, read: .read.total_ios}' /tmp/load.json >&3
    jq -e '.jobs[0] | .error == 0 and .write.total_ios > 16 and .read.total_ios > 0' /tmp/load.json
}

# All of a file is written and then all of it read.
file_is_verified_afterwards() {
    fio --name=verify --filename=/mnt/verify --size=8m --rw=randwrite --ioengine=libaio --direct=1 --iodepth=8 \
        --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --do_verify=1 --verify_fatal=1
    echo 3 >/proc/sys/vm/drop_caches
    sha256sum -c /tmp/before.sha256
}

file_system_is_whole() {
    umount /mnt
    fsck.ext4 -f -n "$disk"
}

disk_is_the_image() {
    local sum
    sync
    echo 3 >/proc/sys/vm/drop_caches
    read -r sum _ < <(dd if="$disk" bs=1M iflag=direct status=none | sha256sum)
    ask_outside image "$sum"
}

# Write Exclusive, of the registrant with this key.
reserves() {
    nvme resv-register "$disk" -n 1 -k 0xa -r 0
    nvme resv-acquire "$disk" -n 1 -c 0xa -t 1 -a 0
    holds_reservation
}

holds_reservation() {
    nvme resv-report "$disk" -n 1 -e -o json >/tmp/report.json
    jq -e '.rtype == 1 and ([.regctlext[]? | select(.rcsts == 1 and .rkey == 10)] | length) == 1' /tmp/report.json
    ask_outside other-host refused
}

# One that comes late has to find the reservation, and so has the one that gets the image back.
reservation_outlives_gateway() {
    local next_owner
    gateway kill
    within_ms 60000 'another path optimized' another_is_optimized
    holds_reservation
    dd if=/dev/urandom of="$disk" bs=4k count=16 oflag=direct status=none
    gateway start
    within_ms 120000 'path 1 live again' has_state 1 live
    within_ms 120000 'path 1 optimized again' has_ana_state 1 optimized
    wait_ms 60000 "path $next_owner inaccessible again" has_ana_state "$next_owner" inaccessible
    holds_reservation
    dd if=/dev/urandom of="$disk" bs=4k count=16 oflag=direct status=none
}

releases() {
    nvme resv-release "$disk" -n 1 -c 0xa -t 1 -a 1
    ask_outside other-host writes
}

hear_outside
modprobe nvme-tcp
if check 'connect to all gateways through one' connects_to_all; then
    disk=$(wait_for_namespace "$nqn" 1)
    controllers=([1]=$(find_controller 1) [2]=$(find_controller 2) [3]=$(find_controller 3))
    paths=([1]=$(find_path 1) [2]=$(find_path 2) [3]=$(find_path 3))
    check 'one path is optimized and the others inaccessible' first_is_optimized
    check 'one disk' is_one_disk
    if check 'mkfs.ext4, mount' makes_file_system; then
        check 'a gateway is killed and started again under fio verify' file_is_verified_meanwhile
        check 'fio verify afterwards' file_is_verified_afterwards
        check 'umount, fsck' file_system_is_whole
        check 'the image has what the disk has' disk_is_the_image
    fi
    if check 'another host is kept off by a reservation' reserves; then
        check 'a reservation outlives its gateway, and the way back' reservation_outlives_gateway
        check 'another host writes after the reservation is cleared' releases
    fi
    check 'still one optimized and the others inaccessible' first_is_optimized
    check 'disconnect' disconnects
fi
check 'kernel log has nothing but the outage' kernel_log_is_clean "$GONE"
finish_checks
