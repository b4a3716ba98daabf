# The kernel as a host of two gateways that serve the same image of a Ceph cluster: one disk with two paths, of which one
# is optimized and the other inaccessible. The gateway of the optimized one is killed and started again while a file system
# is written and verified, and what is on the disk then is the image.
#
#   job-gateways.sh ADDRESS PORT-1 PORT-2 NQN
#
# Namespace 1 has 64 MiB and is the first gateway's. Outside, `gateway kill` and `gateway start` are about that one, and
# `image SHA256` compares what is in the image.
. /guest-lib.sh

address=$1 ports=([1]=$2 [2]=$3) nqn=$4
# What a host says of a gateway that is gone, until it is there again, and of a path that it must not use any more.
readonly GONE='error recovery|(send request|receive failed:) +-(32|104)|connect socket: -111|Failed reconnect attempt|Asymmetric|Internal Path|failed: -111'

first_is_optimized() {
    wait_ms 30000 'path 1 optimized' has_ana_state 1 optimized
    wait_ms 30000 'path 2 inaccessible' has_ana_state 2 inaccessible
    has_state 1 live
    has_state 2 live
    # No two gateways give the same identifier to controllers of one subsystem.
    [[ $(cat "${controllers[1]}/cntlid") != "$(cat "${controllers[2]}/cntlid")" ]]
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

# Its host is told by the end of its connections, and hears from the other one when that has taken over.
gateway_is_killed() {
    gateway kill
    within_ms 60000 'path 1 connecting' has_state 1 connecting
    within_ms 60000 'path 2 optimized' has_ana_state 2 optimized
    goes_on 2 60
    has_state 1 connecting
    gateway start
    within_ms 120000 'path 1 live again' has_state 1 live
    within_ms 120000 'path 1 optimized again' has_ana_state 1 optimized
    wait_ms 60000 'path 2 inaccessible again' has_ana_state 2 inaccessible
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
    # It says that it was ended, in its report too: whether all went well is what that report is for.
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

hear_outside
modprobe nvme-tcp
if check 'connect to both gateways' connects_twice 600; then
    disk=$(wait_for_namespace "$nqn" 1)
    controllers=([1]=$(find_controller 1) [2]=$(find_controller 2))
    paths=([1]=$(find_path 1) [2]=$(find_path 2))
    check 'one path is optimized and one inaccessible' first_is_optimized
    check 'one disk' is_one_disk
    if check 'mkfs.ext4, mount' makes_file_system; then
        check 'a gateway is killed and started again under fio verify' file_is_verified_meanwhile
        check 'fio verify afterwards' file_is_verified_afterwards
        check 'umount, fsck' file_system_is_whole
        check 'the image has what the disk has' disk_is_the_image
    fi
    check 'still one optimized and one inaccessible' first_is_optimized
    check 'disconnect' disconnects
fi
check 'kernel log has nothing but the outage' kernel_log_is_clean "$GONE"
finish_checks
