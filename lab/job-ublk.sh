# Namespaces of our target as block devices, without the kernel's NVMe/TCP: limits in the block layer, data by every kind of
# request, xfs and ext4 under a target that is killed, or a process that serves them, and what is left when a device goes.
#
#   job-ublk.sh PROGRAM [KILLS [ENDS [UPGRADES]]]
#
# PROGRAM is the program's name beside this job, KILLS how often attach is killed under writes, ENDS how often it ends at random,
# UPGRADES how often another process goes on in its place.
# Both ends are in the guest, on its loopback.
. /guest-lib.sh

readonly NQN=nqn.2026-01.io.selvedge:ublk PORT=4420
readonly LARGE=/dev/ublkb0 SMALL=/dev/ublkb1 DISK=/tmp/disk KEPT=/run/selvedge-attach
# Number of times that the process of a device is killed, ends at random and is upgraded.
readonly KILLS=${2:-5} ENDS=${3:-5} UPGRADES=${4:-5}

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

# The target may be killed: what it has answered is in files.
write_configuration() {
    cat >/tmp/target.toml <<TOML
[[port]]
address = "127.0.0.1:$PORT"
[[subsystem]]
nqn = "$NQN"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
file = "$DISK"
size = "320m"
block = 4096
[[subsystem.namespace]]
nsid = 2
memory = "48m"
block = 512
TOML
}

target_serves() {
    [[ -e /tmp/target.toml ]] || write_configuration
    serve_again /tmp/target.toml "$PORT"
}

# attach OPTION...: and the devices are there. The time-out is long because this processor is emulated.
attach() {
    : >/tmp/attach.log
    "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" -k 10 --reconnect-delay 1 --ublk "$@" >/tmp/attach.log 2>&1 &
    echo $! >/tmp/attach.pid
    has_devices
}

has_devices() {
    wait_ms 120000 'the devices are there' has_devices_or_has_ended || true
    cat /tmp/attach.log
    grep -q '^/dev/ublkb' /tmp/attach.log
}

has_devices_or_has_ended() { grep -q '^/dev/ublkb' /tmp/attach.log || has_ended /tmp/attach.pid; }

# recover [OPTION...]: another process has the devices.
recover() {
    : >/tmp/attach.log
    "$selvedge" attach recover "$@" >/tmp/attach.log 2>&1 &
    echo $! >/tmp/attach.pid
    has_devices
}

kill_attach() {
    kill -KILL "$(cat /tmp/attach.pid)"
    wait_ms 30000 'attach is dead' has_ended /tmp/attach.pid
}

# detach SIGNAL: the process ends well, within some seconds, and leaves nothing.
detach() {
    local pid limit
    pid=$(cat /tmp/attach.pid)
    ask_to_end "$1"
    wait_ms 60000 'attach ends' has_ended /tmp/attach.pid || { cat "/proc/$pid/task"/*/stack; return 1; }
    cat /tmp/attach.log
    grep -q '^detached after' /tmp/attach.log
    nothing_is_left
}

# ask_to_end SIGNAL: also a process that waits for programs which have a device open, as it does from Linux 7.0 on.
ask_to_end() {
    local pid
    pid=$(cat /tmp/attach.pid)
    kill "-$1" "$pid"
    wait_ms 60000 'attach ends or waits' ends_or_waits || true
    if waits_for_users; then kill "-$1" "$pid" || true; fi
}

ends_or_waits() { has_ended /tmp/attach.pid || waits_for_users; }
waits_for_users() { grep -q 'another signal removes it' /tmp/attach.log; }

nothing_is_left() {
    ls /dev/ublk* "$KEPT" "$KEPT/attach" || true
    [[ $(echo /dev/ublk*) == /dev/ublk-control ]]
    not compgen -G "$KEPT/attach/*"
    not compgen -G '/sys/block/ublkb*'
}

# refuses WORDS COMMAND...: one line says why.
refuses() {
    local words=$1 status=0
    shift
    "$@" >/tmp/refused 2>&1 || status=$?
    cat /tmp/refused
    ((status == 1))
    grep -q "$words" /tmp/refused
    (($(grep -vc '^connecting to' /tmp/refused) == 1))
}

says_that_the_driver_is_missing() {
    [[ ! -e /dev/ublk-control ]]
    refuses 'modprobe ublk_drv' "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" --ublk
}

says_that_root_is_needed() {
    modprobe ublk_drv
    wait_ms 30000 'the driver is there' test -e /dev/ublk-control
    refuses 'need root' setpriv --reuid 1000 --regid 1000 --clear-groups \
        "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" --ublk
}

# setting DISK NAME VALUE: what the block layer knows.
setting() {
    local value
    read -r value <"/sys/block/${1##*/}/queue/$2"
    echo "$1 $2 is $value"
    [[ $value == "$3" ]]
}

block_layer_has_limits() {
    local queues=("/sys/block/${LARGE##*/}/mq"/*)
    setting "$LARGE" logical_block_size 4096
    setting "$SMALL" logical_block_size 512
    setting "$LARGE" max_hw_sectors_kb 256
    setting "$LARGE" write_cache 'write back'
    setting "$LARGE" fua 1
    setting "$LARGE" discard_granularity 4096
    [[ $(blockdev --getsize64 "$LARGE") == $((320 << 20)) ]]
    [[ $(blockdev --getsize64 "$SMALL") == $((48 << 20)) ]]
    grep . "/sys/block/${LARGE##*/}/queue"/{discard,write_zeroes}_max_bytes
    (($(cat "/sys/block/${LARGE##*/}/queue/discard_max_bytes") > 0))
    (($(cat "/sys/block/${LARGE##*/}/queue/write_zeroes_max_bytes") > 0))
    echo "${#queues[@]} queues"
    ((${#queues[@]} == $(nproc)))
}

# fio's own verification, with every block's place and number in it.
fio_verifies() {
    local filename=$1 size=$2
    shift 2
    fio --name=v --filename="$filename" --size="$size" --rw=randwrite --bsrange=4k-64k --ioengine=libaio --direct=1 \
        --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7 "$@"
}

bytes_come_back() {
    local disk=$1
    [[ -e /tmp/image ]] || dd if=/dev/urandom of=/tmp/image bs=1M count=6 status=none
    # Larger than one request may be, at an odd place, durable.
    dd if=/tmp/image of="$disk" bs=3M seek=1 oflag=direct,dsync status=none
    echo 3 >/proc/sys/vm/drop_caches
    dd if="$disk" bs=3M skip=1 count=2 iflag=direct status=none | cmp - /tmp/image
}

allocated() { stat -c %b "$DISK"; }

# With leave to deallocate, and without.
zeroes_are_written() {
    local before
    before=$(allocated)
    fallocate --punch-hole --offset 3M --length 1M "$LARGE"
    echo "allocated $before, then $(allocated)"
    ((before - $(allocated) >= 2048))
    blkdiscard --zeroout --offset 4M --length 1M "$LARGE"
    dd if="$LARGE" bs=1M skip=3 count=2 iflag=direct status=none | cmp - <(head -c 2M /dev/zero)
    dd if="$LARGE" bs=1M skip=5 count=1 iflag=direct status=none |
        cmp - <(dd if=/tmp/image bs=1M skip=2 count=1 status=none)
}

discards_reach_the_target() {
    local before
    dd if=/tmp/image of="$LARGE" bs=1M oflag=direct status=none
    before=$(allocated)
    blkdiscard --offset 0 --length 6M "$LARGE"
    echo "allocated $before, then $(allocated)"
    ((before - $(allocated) >= 6 * 2048))
}

file_system_is_made() {
    "mkfs.$1" -q "${@:2}" "$LARGE"
    mkdir -p /mnt/disk
    mount -t "$1" "$LARGE" /mnt/disk
}

trims_reach_the_target() {
    local before
    sync
    before=$(allocated)
    rm -f /mnt/disk/*.*
    sync
    fstrim -v /mnt/disk
    echo "allocated $before, then $(allocated)"
    ((before - $(allocated) >= 8 * 2048))
}

file_system_is_whole() {
    umount /mnt/disk
    e2fsck -fn "$LARGE"
}

xfs_is_whole() {
    umount /mnt/disk
    xfs_repair -n "$LARGE"
}

# The kernel sees time pass and nothing else.
target_is_killed_under_writes() {
    local writer round
    fio_verifies /mnt/disk/killed.fio 8m --time_based --runtime=15 --verify_backlog=64 --fsync=32 >/tmp/fio.log 2>&1 &
    writer=$!
    for round in 1 2 3; do
        sleep 3
        kill_target
        sleep 1
        target_serves
    done
    wait "$writer" || { cat /tmp/fio.log /tmp/attach.log; return 1; }
    grep -q 'err= 0' /tmp/fio.log
}

# writes_until_enough NAME FIO-ARGUMENT...: runs of fio, each of which verifies all that it has written.
writes_until_enough() {
    local name=$1 runs=0
    shift
    until [[ -e /tmp/enough ]]; do
        fio_verifies "$@" --randseed="$runs" >"/tmp/fio-$name.log" 2>&1 || return 1
        runs=$((runs + 1))
    done
    echo "$name: $runs runs"
}

# A check that fails leaves no writers behind.
ends_writers() {
    rm -f /tmp/enough
    trap 'touch /tmp/enough; "$selvedge" attach detach --force all' EXIT
}

# enough PID...: the writers end, and none has seen an error.
enough() {
    local writer
    touch /tmp/enough
    for writer in "$@"; do
        wait "$writer" || { cat /tmp/fio-*.log /tmp/attach.log; return 1; }
    done
    rm /tmp/enough
    trap - EXIT
}

# Writers see a delay and no error.
attach_is_killed_under_writes() {
    local round large small
    attach --nsid 1,2
    mount "$LARGE" /mnt/disk
    ends_writers
    writes_until_enough large /mnt/disk/attach.fio 6m --fsync=32 &
    large=$!
    writes_until_enough small "$SMALL" 4m --bsrange=512-64k &
    small=$!
    for ((round = 1; round <= KILLS; round++)); do
        sleep "$((RANDOM % 3)).$((RANDOM % 10))"
        kill_attach
        # Requests arrive while no process serves the device.
        sleep 0.5
        recover
        echo "round $round of $KILLS"
    done
    enough "$large" "$small"
    file_system_is_whole
}

# A process that takes over is killed while it does.
recovery_is_killed() {
    local round writer
    ends_writers
    writes_until_enough small "$SMALL" 2m --bsrange=512-64k &
    writer=$!
    for round in {1..4}; do
        kill_attach
        "$selvedge" attach recover >/tmp/attach.log 2>&1 &
        echo $! >/tmp/attach.pid
        sleep "0.$((round * 2))"
        not has_ended /tmp/attach.pid || { cat /tmp/attach.log; return 1; }
    done
    kill_attach
    recover --ublk-device 1
    enough "$writer"
}

# Another process goes on in place of the one that serves. Writers see a delay and no error.
attach_is_upgraded_under_writes() {
    local round large small
    attach --nsid 1,2
    mount "$LARGE" /mnt/disk
    ends_writers
    writes_until_enough large /mnt/disk/upgraded.fio 6m --fsync=32 &
    large=$!
    writes_until_enough small "$SMALL" 4m --bsrange=512-64k &
    small=$!
    for ((round = 1; round <= UPGRADES; round++)); do
        sleep "0.$((RANDOM % 10))"
        "$selvedge" attach upgrade -o json >/tmp/upgraded
        jq -c '.processes[] | [.process, .took_ms]' /tmp/upgraded
        kill -0 "$(jq .processes[0].process /tmp/upgraded)"
        jq .processes[0].process /tmp/upgraded >/tmp/attach.pid
        echo "round $round of $UPGRADES"
    done
    enough "$large" "$small"
    file_system_is_whole
    detach TERM
}

says() {
    local words=$1
    shift
    "$@" >/tmp/said
    cat /tmp/said
    grep -q "$words" /tmp/said
}

ends_when_it_is_unmounted() {
    kill -TERM "$(cat /tmp/attach.pid)"
    wait_ms 10000 'it waits' grep -q "$LARGE is mounted on /mnt/disk: this process ends" /tmp/attach.log
    touch /mnt/disk/still
    sync /mnt/disk/still
    umount /mnt/disk
    wait_ms 60000 'attach ends' has_ended /tmp/attach.pid
    nothing_is_left
}

# A program that merely has the device open is a user, where the driver knows it.
ends_when_it_is_closed() {
    attach --nsid 2
    exec 7<"$LARGE"
    kill -TERM "$(cat /tmp/attach.pid)"
    if printf '7.0\n%s\n' "$(uname -r)" | sort -VC; then
        wait_ms 10000 'it waits' grep -q "$LARGE is open: this process ends" /tmp/attach.log
        dd if="$LARGE" of=/dev/null bs=64k count=1 iflag=direct
    fi
    exec 7<&-
    wait_ms 60000 'attach ends' has_ended /tmp/attach.pid
    wait_ms 60000 'its number is free' no_device_is_left
}

lists_and_detaches() {
    says "^$LARGE .*$NQN .* $(cat /tmp/attach.pid)\$" "$selvedge" attach list
    kill_attach
    says "^$SMALL .*selvedge attach recover\$" "$selvedge" attach list
    refuses "$LARGE has requests of process .* run .selvedge attach recover" \
        "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" --ublk
    refuses "$LARGE has requests of process" \
        "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" --nbd unix:/tmp/second.nbd
    recover
    refuses "has $SMALL too" "$selvedge" attach detach "$LARGE"
    mount "$LARGE" /mnt/disk
    refuses 'mounted on /mnt/disk' "$selvedge" attach detach all
    refuses "attached for writing as $LARGE by process" \
        "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" --ublk
    ends_when_it_is_unmounted
    attach --nsid 1,2
    says "$LARGE is detached: process" "$selvedge" attach detach "$LARGE" "$SMALL"
    nothing_is_left
    attach --nsid 1
    kill_attach
    says "$LARGE is detached: its process was gone" "$selvedge" attach detach "$LARGE"
    nothing_is_left
    says 'nothing is attached' "$selvedge" attach list
}

# Dirty pages are written before the device goes. As long as it is open, the kernel has no other reason to.
what_is_held_is_written() {
    attach --nsid 2
    exec 5<>"$LARGE"
    dd if=/tmp/image of="$LARGE" bs=1M conv=notrunc status=none
    "$selvedge" attach detach all
    exec 5>&-
    wait_ms 10000 'its number is free' nothing_is_left
    attach --nsid 2
    dd if="$LARGE" bs=1M count=6 iflag=direct status=none | cmp - /tmp/image
    detach TERM
}

has_size() { [[ $(blockdev --getsize64 "$LARGE") == "$1" ]]; }

# Linux 6.16 and later can tell the block layer.
size_is_followed() {
    local old=$((320 << 20)) new=$((336 << 20))
    attach --nsid 1
    has_size "$old"
    "$selvedge" namespace resize "$NQN" 1 336m --control unix:/tmp/control.sock
    if printf '6.16\n%s\n' "$(uname -r)" | sort -VC; then
        wait_ms 10000 'the new size' has_size "$new"
        # The added blocks can be written.
        dd if=/tmp/image of="$LARGE" bs=1M seek=330 oflag=direct status=none
    else
        wait_ms 10000 'a warning' grep -q 'attach it again' /tmp/attach.log
        has_size "$old"
        detach TERM
        attach --nsid 1
        has_size "$new"
    fi
    detach TERM
}

# As another program leaves one, or one of ours whose record was lost.
orphan_is_taken_away() {
    attach --nsid 2
    kill_attach
    rm "$KEPT/attach"/*.json
    refuses 'no block device waits' "$selvedge" attach recover
    says "^$LARGE .*attach detach $LARGE" "$selvedge" attach list
    "$selvedge" attach detach ublkb0
    nothing_is_left
}

cannot_be_written() {
    attach --nsid 1 --read-only
    [[ $(blockdev --getro "$LARGE") == 1 ]]
    not dd if=/dev/zero of="$LARGE" bs=4k count=1 oflag=direct
    dd if="$LARGE" of=/dev/null bs=64k count=4 iflag=direct
    detach INT
}

comes_and_goes() {
    local round
    for round in {1..5}; do
        attach --nsid 1,2 --threads 1 -Q 8
        fio_verifies "$SMALL" 1m
        detach TERM
    done
}

# ended_by WAY: the process of the devices ends so, and nothing is left but what a later attach has to know of a killed one.
ended_by() {
    case $1 in
        interrupt) ask_to_end INT ;;
        terminate) ask_to_end TERM ;;
        detach) has_devices && "$selvedge" attach detach --force all ;;
        kill-detach) kill_attach; detach_what_is_left ;;
        kill-recover) kill_attach; recovers_or_nothing_waits; "$selvedge" attach detach --force all ;;
    esac
    wait_ms 60000 'attach ends' has_ended /tmp/attach.pid
}

# One that was killed before it has written anything down has left a device without a record.
detach_what_is_left() {
    local device
    "$selvedge" attach detach --force all
    for device in $("$selvedge" attach list | grep -o '^/dev/ublkb[0-9]*' || true); do
        "$selvedge" attach detach --force "$device"
    done
}

recovers_or_nothing_waits() {
    recover && return
    grep 'no block device waits' /tmp/attach.log
    detach_what_is_left
}

# In any way, at any moment: while it connects, while devices appear, under writes.
ends_at_random() {
    local round writer way ways=(interrupt terminate detach kill-detach kill-recover)
    for ((round = 1; round <= ENDS; round++)); do
        way=${ways[RANDOM % 5]}
        # A shell has those in the background ignore SIGINT, until they say that they do not.
        env --default-signal=INT "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" -k 10 --nsid 1,2 --ublk >/tmp/attach.log 2>&1 &
        echo $! >/tmp/attach.pid
        if ((RANDOM % 4)); then has_devices; fi
        # A device that is gone before fio begins is not replaced by a file.
        fio --name=w --filename="$SMALL" --size=4m --rw=randwrite --ioengine=libaio --direct=1 --iodepth=8 --time_based \
            --runtime=600 --allow_file_create=0 >/tmp/fio.log 2>&1 &
        writer=$!
        sleep "$((RANDOM % 2)).$((RANDOM % 10))"
        echo "end $round of $ENDS: $way"
        ended_by "$way" || { cat /tmp/attach.log; return 1; }
        kill -KILL "$writer" || true
        wait "$writer" || true
        wait_ms 60000 'its numbers are free' no_device_is_left || { nothing_is_left; return 1; }
    done
    # The next one brings the controllers of those that were killed to rest, and keeps record of its own, in two files.
    attach --nsid 1,2
    wait_ms 60000 'all are at rest' has_files_of_controllers 2 || { ls -l "$KEPT"; return 1; }
    detach TERM
    has_files_of_controllers 0
}

has_files_of_controllers() {
    local files=("$KEPT"/*.controllers)
    [[ -e ${files[0]} ]] || files=()
    ((${#files[@]} == $1))
}

no_device_is_left() { [[ $(echo /dev/ublk*) == /dev/ublk-control ]] && ! compgen -G "$KEPT/attach/*"; }

# Paths are gone, and stay so: what the kernel still writes while the device goes fails, and it goes.
ends_without_a_target() {
    attach --nsid 2
    kill_target
    dd if=/dev/zero of=/dev/ublkb0 bs=64k count=2 conv=fsync 2>/tmp/dd.log &
    sleep 2
    detach INT
    wait $! || true
    cat /tmp/dd.log
}

# A user who may open the driver's file makes a device, for which udev would give the rest to that user.
user_has_a_device() {
    local user=(setpriv --reuid 1000 --regid 1000 --clear-groups env XDG_RUNTIME_DIR=/tmp/user) node
    install -d -o 1000 -m 700 /tmp/user
    chmod 666 /dev/ublk-control
    for node in /dev/ublkc0 "$LARGE"; do
        wait_ms 60000 "$node is there" test -e "$node" && chown 1000 "$node"
    done &
    : >/tmp/attach.log
    "${user[@]}" "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" --ublk >/tmp/attach.log 2>&1 &
    echo $! >/tmp/attach.pid
    has_devices
    "${user[@]}" fio --name=v --filename="$LARGE" --size=6m --rw=randwrite --bsrange=4k-256k --ioengine=libaio \
        --direct=1 --iodepth=32 --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_state_save=0 --randseed=7
    not setpriv --reuid 1001 --regid 1001 --clear-groups "$selvedge" attach detach "$LARGE"
    "${user[@]}" "$selvedge" attach detach all
    chmod 600 /dev/ublk-control
    nothing_is_left
}

no_nvme_tcp() { ! grep -q '^nvme_tcp ' /proc/modules; }

check 'our target serves' target_serves
check 'no driver is one line' says_that_the_driver_is_missing
check 'no right is one line' says_that_root_is_needed
check 'two namespaces become devices' attach --nsid 1,2
check 'the block layer has their limits' block_layer_has_limits
check 'bytes come back, blocks of 4096' bytes_come_back "$LARGE"
check 'bytes come back, blocks of 512' bytes_come_back "$SMALL"
check 'zeroes are written' zeroes_are_written
check 'discards reach the target' discards_reach_the_target
check 'fio verifies, blocks of 512' fio_verifies "$SMALL" 4m --bsrange=512-64k
check 'xfs is made' file_system_is_made xfs
check 'fio verifies on xfs' fio_verifies /mnt/disk/data.fio 12m --fsync=64
check 'fstrim of xfs reaches the target' trims_reach_the_target
check 'xfs is whole' xfs_is_whole
check 'ext4 is made' file_system_is_made ext4 -F
check 'fio verifies on ext4' fio_verifies /mnt/disk/data.fio 12m --fsync=64
check 'fstrim of ext4 reaches the target' trims_reach_the_target
check 'our target is killed under writes' target_is_killed_under_writes
check 'ext4 is whole' file_system_is_whole
check 'SIGINT leaves nothing' detach INT
check 'attach is upgraded under writes' attach_is_upgraded_under_writes
check 'attach is killed under writes' attach_is_killed_under_writes
check 'a recovery is killed' recovery_is_killed
check 'list and detach' lists_and_detaches
check 'a program has a device open' ends_when_it_is_closed
check 'what is held is written' what_is_held_is_written
check 'a new size is followed' size_is_followed
check 'a device without a record' orphan_is_taken_away
check 'a device for reading' cannot_be_written
check 'devices come and go' comes_and_goes
check 'a user has a device' user_has_a_device
check 'no NVMe/TCP of the kernel' no_nvme_tcp
check 'the kernel says nothing' kernel_log_is_clean
# Writes to a device that goes fail.
check 'it ends at random' ends_at_random
check 'the kernel says no more' kernel_log_is_clean 'I/O error,? (on )?dev ublkb'
check 'it ends without a target' ends_without_a_target
finish_checks
