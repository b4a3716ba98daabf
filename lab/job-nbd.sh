# The kernel's NBD client at `selvedge attach --nbd`, without the kernel's NVMe/TCP: limits in the block layer, xfs and ext4,
# trim, a target that is killed under writes, and what is left at the end.
#
#   job-nbd.sh PROGRAM
#
# PROGRAM is the program's name beside this job. Both ends are in the guest.
. /guest-lib.sh

readonly NQN=nqn.2026-01.io.selvedge:nbd PORT=4420
readonly DISK=/dev/nbd0 FILE=/tmp/disk

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

target_serves() {
    [[ -e /tmp/target.toml ]] || cat >/tmp/target.toml <<TOML
[[port]]
address = "127.0.0.1:$PORT"
[[subsystem]]
nqn = "$NQN"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
file = "$FILE"
size = "320m"
block = 4096
TOML
    serve_again /tmp/target.toml "$PORT"
}

# Writes wait for two keep-alive time-outs and more when a target was killed; NBD clients must wait for longer than that.
attach() {
    : >/tmp/attach.log
    "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" -k 10 --reconnect-delay 1 --nbd unix:/tmp/disk.nbd \
        --threads 2 >/tmp/attach.log 2>&1 &
    echo $! >/tmp/attach.pid
    wait_ms 120000 'clients can connect' grep -q '^nbd+unix' /tmp/attach.log || { cat /tmp/attach.log; return 1; }
}

# Over two connections, as the server says it may. With several the kernel gives a request up after 30 s by default.
connects() {
    modprobe nbd
    wait_ms 30000 'the kernel has a device' test -b "$DISK"
    nbd-client -unix /tmp/disk.nbd -N 1 -b 4096 -C 2 -t 300 "$DISK"
    [[ $(blockdev --getsize64 "$DISK") == $((320 << 20)) ]]
    [[ $(blockdev --getss "$DISK") == 4096 ]]
    (($(cat /sys/block/nbd0/queue/discard_max_bytes) > 0))
    grep -q 'write back' /sys/block/nbd0/queue/write_cache
}

# fio's own verification, with every block's place and number in it.
fio_verifies() {
    fio --name=v --filename="$1" --size="$2" --rw=randwrite --bsrange=4k-64k --ioengine=libaio --direct=1 \
        --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7 "${@:3}"
}

makes() {
    "mkfs.$1" -q "${@:2}" "$DISK"
    mkdir -p /mnt/disk
    mount -t "$1" "$DISK" /mnt/disk
}

allocated() { stat -c %b "$FILE"; }

trims() {
    local before
    sync
    before=$(allocated)
    rm -f /mnt/disk/*.*
    sync
    fstrim -v /mnt/disk
    echo "allocated $before, then $(allocated)"
    ((before - $(allocated) >= 8 * 2048))
}

# The kernel sees time pass and nothing else.
target_is_killed_under_writes() {
    local writer round
    fio_verifies /mnt/disk/killed.fio 8m --time_based --runtime=12 --verify_backlog=64 --fsync=32 >/tmp/fio.log 2>&1 &
    writer=$!
    for round in 1 2; do
        sleep 3
        kill_target
        sleep 1
        target_serves
    done
    wait "$writer" || { cat /tmp/fio.log /tmp/attach.log; return 1; }
    grep -q 'err= 0' /tmp/fio.log
}

xfs_is_whole() {
    umount /mnt/disk
    xfs_repair -n "$DISK"
}

ext4_is_whole() {
    umount /mnt/disk
    e2fsck -fn "$DISK"
}

disconnects() {
    nbd-client -d "$DISK"
    kill -TERM "$(cat /tmp/attach.pid)"
    wait_ms 60000 'attach ends' has_ended /tmp/attach.pid
    cat /tmp/attach.log
    grep -q '^detached after' /tmp/attach.log
    [[ ! -e /tmp/disk.nbd ]]
}

no_nvme_tcp() { ! grep -q '^nvme_tcp ' /proc/modules; }

kernel_log_is_clean() {
    ! dmesg | grep -iE 'nbd|xfs|ext4|I/O|blocked for more' | grep -iE 'error|fail|timed out|corrupt|blocked'
}

check 'our target serves' target_serves
check 'a disk for NBD clients' attach
check 'the kernel connects' connects
check 'xfs is made' makes xfs
check 'fio verifies on xfs' fio_verifies /mnt/disk/data.fio 12m --fsync=64
check 'fstrim of xfs reaches the target' trims
check 'our target is killed under writes' target_is_killed_under_writes
check 'xfs is whole' xfs_is_whole
check 'ext4 is made' makes ext4 -F
check 'fio verifies on ext4' fio_verifies /mnt/disk/data.fio 8m --fsync=64
check 'ext4 is whole' ext4_is_whole
check 'it is disconnected, and nothing is left' disconnects
check 'no NVMe/TCP of the kernel' no_nvme_tcp
check 'the kernel says nothing' kernel_log_is_clean
finish_checks
