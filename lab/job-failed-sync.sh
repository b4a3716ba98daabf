# A disk that loses what it has acknowledged: our target serves it in this guest, and the kernel is the host, with a file system
# mounted on one namespace and nothing on the other. From the failed sync on nothing may be written until the operator has
# reopened the namespaces, also when the disk is in order again; and the host knows.
#
#   job-failed-sync.sh PROGRAM
#
# PROGRAM is the program's name beside this job. Under each namespace are a null_blk device with memory, of which all blocks can
# be made bad, and a loop device that goes through the page cache: writes to it succeed, and its sync finds that they cannot
# be kept.
. /guest-lib.sh

readonly ADDRESS=127.0.0.1 NQN=nqn.2026-01.io.selvedge:failing CONTROL=unix:/run/control.sock
readonly NULLB=/sys/kernel/config/nullb SIZE_MIB=48
readonly SECTORS=$((SIZE_MIB * 2048))
# Namespace 1 is used as it is, 2 has a file system.
readonly NSIDS=(1 2)
readonly WRITE_FAULT='[wW]rite [fF]ault|0x4?280'

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

make_disk() {
    local null=$NULLB/nullb$1
    mkdir "$null"
    echo "$SIZE_MIB" >"$null/size"
    echo 4096 >"$null/blocksize"
    echo 1 >"$null/memory_backed"
    echo "$1" >"$null/index" 2>/dev/null || true
    echo 1 >"$null/power"
    wait_ms 10000 "nullb$1" test -b "/dev/nullb$1"
    losetup --sector-size 4096 "/dev/loop$1" "/dev/nullb$1"
}

make_disks() {
    local nsid
    modprobe null_blk nr_devices=0
    modprobe loop
    for nsid in "${NSIDS[@]}"; do make_disk "$nsid"; done
}

spoil() { echo "+0-$((SECTORS - 1))" >"$NULLB/nullb$1/badblocks"; }

mend() { echo "-0-$((SECTORS - 1))" >"$NULLB/nullb$1/badblocks"; }

listens() { grep -q 'listening on' /tmp/target.log && [[ -S ${CONTROL#unix:} ]]; }

serve() {
    "$selvedge" serve -a "$ADDRESS" -n "$NQN" --control "$CONTROL" --namespace block:/dev/loop1 \
        --namespace block:/dev/loop2 </dev/null >/tmp/target.log 2>&1 &
    echo $! >/tmp/target.pid
    wait_ms 60000 'the target' listens || { cat /tmp/target.log; return 1; }
}

connect() {
    nvme connect -t tcp -a "$ADDRESS" -s 4420 -n "$NQN" -i 2 -k 60
    wait_for_namespace "$NQN" 1
    wait_for_namespace "$NQN" 2
}

mount_disk() {
    mkfs.ext4 -q "$disk2"
    mkdir -p /mnt/disk
    mount "$disk2" /mnt/disk
    echo first >/mnt/disk/first
    sync -f /mnt/disk
}

# A pipe may give less at a time, which dd would write through the host's page cache.
write_disk() {
    dd if="$1" of="$disk1" bs=64k count=1 seek="$2" iflag=fullblock oflag=direct conv=notrunc status=none
}

read_disk() { dd if="$disk1" bs=64k skip="$1" count=1 iflag=direct status=none; }

flush_disk() { sync "$disk1"; }

# fails PATTERN COMMAND...: it does, and says so.
fails() {
    local answer pattern=$1
    shift
    if answer=$("$@" 2>&1); then
        echo "it went well: $*"
        return 1
    fi
    echo "$answer"
    echo "measured: $1: ${answer##*$'\n'}" >&3
    grep -qE "$pattern" <<<"$answer"
}

is_read_only() { holds "/sys/block/${1##*/}/ro" 1; }

is_writable() { holds "/sys/block/${1##*/}/ro" 0; }

says_state() {
    "$selvedge" namespace list --control "$CONTROL" | tee /tmp/list
    [[ $(awk -v nsid="$1" '$1 == nsid { print $6 }' /tmp/list) == "$2" ]]
}

flush_fails() {
    dmesg -C
    spoil 1
    # The write is acknowledged, and in the page cache below the target.
    write_disk /dev/urandom 1
    fails 'No data available' flush_disk
}

host_knows() {
    within_ms 10000 'a read-only disk' is_read_only "$disk1"
    [[ $(nvme id-ns "$controller" -n 1 -o json | jq .nsattr) == 1 ]]
    [[ $(nvme id-ns "$controller" -n 2 -o json | jq .nsattr) == 0 ]]
    (($(nvme smart-log "$controller" -o json | jq .critical_warning) != 0))
    nvme smart-log "$controller" | grep -i critical
    says_state 1 failed
}

# The disk is in order again, and a sync of it would go well: what was lost is lost.
stays_failed() {
    mend 1
    blockdev --flushbufs /dev/nullb1
    head -c 4096 /dev/zero >/tmp/zeroes
    fails 'Operation not permitted' write_disk /dev/zero 2
    # Also what the kernel hands over as it is.
    fails "$WRITE_FAULT" nvme write "$disk1" -s 0 -c 0 -z 4096 -d /tmp/zeroes
    fails "$WRITE_FAULT" nvme flush "$disk1" -n 1
    read_disk 0 >/tmp/read
    [[ $(stat -c %s /tmp/read) == 65536 ]]
    is_read_only "$disk1"
}

reopens() {
    "$selvedge" namespace reopen "$NQN" 1 --control "$CONTROL"
    within_ms 10000 'a disk that may be written again' is_writable "$disk1"
    head -c 65536 /dev/urandom >/tmp/written
    write_disk /tmp/written 3
    flush_disk
    read_disk 3 | cmp - /tmp/written
    says_state 1 ready
    # Same disk as before.
    [[ $(namespace_device "$NQN" 1) == "$disk1" && $(cat "/sys/block/${disk1##*/}/uuid") == "$uuid1" ]]
    [[ $(nvme smart-log "$controller" -o json | jq .critical_warning) == 0 ]]
}

# ext4 cannot write its journal either, and ends.
file_sync_fails() {
    dmesg -C
    spoil 2
    # A write that comes after the failed sync is EIO, and the sync itself ENODATA: which of them ext4 meets first is
    # a matter of time.
    fails 'Input/output error|No data available' dd if=/dev/urandom of=/mnt/disk/second bs=64k count=4 conv=fsync status=none
    within_ms 10000 'a read-only disk with a file system' is_read_only "$disk2"
    fails 'Read-only file system|Input/output error' touch /mnt/disk/third
    mend 2
    # Until it is mounted again, also where its disk may be written again.
    "$selvedge" namespace reopen "$NQN" 2 --control "$CONTROL"
    within_ms 10000 'a disk with a file system that may be written again' is_writable "$disk2"
    fails 'Read-only file system|Input/output error' touch /mnt/disk/third
}

file_system_is_mounted_again() {
    umount /mnt/disk
    blockdev --flushbufs "$disk2"
    fsck.ext4 -p "$disk2" || (($? == 1))
    mount "$disk2" /mnt/disk
    [[ $(cat /mnt/disk/first) == first && $(cat /mnt/disk/more) == more ]]
    echo third >/mnt/disk/third
    sync -f /mnt/disk
    umount /mnt/disk
}

# Messages of the host's kernel, without those about the disk below the target.
kernel_tells() {
    dmesg | grep -vE 'nullb|loop[0-9]' | sed -E 's/^\[ *[0-9.]+\] /measured: the kernel says: /' >&3
}

target_tells() {
    local nsid
    for nsid in "${NSIDS[@]}"; do
        grep -oE "namespace $nsid of $NQN: fdatasync failed: .*" /tmp/target.log
        grep -E "subsystem $NQN: namespace $nsid is reopened" /tmp/target.log || true
    done
}

disconnect() {
    nvme disconnect -n "$NQN"
    ! controller_device "$NQN"
}

hear_outside
modprobe nvme-tcp
if check 'disks' make_disks && check 'our target serves' serve && check 'connect' connect; then
    controller=$(controller_device "$NQN")
    disk1=$(namespace_device "$NQN" 1) uuid1=$(cat "/sys/block/${disk1##*/}/uuid")
    disk2=$(namespace_device "$NQN" 2)
    check 'a file system' mount_disk
    check 'a sync that goes well' eval 'write_disk /dev/urandom 0; flush_disk'
    check 'a sync that fails' flush_fails
    check 'the host knows' host_knows
    kernel_tells
    check 'it stays so though the disk is in order' stays_failed
    check 'the other namespace goes on' eval 'echo more >/mnt/disk/more; sync -f /mnt/disk'
    check 'reopened' reopens
    check 'a sync below a file system fails' file_sync_fails
    kernel_tells
    check 'the file system is mounted again' file_system_is_mounted_again
    check 'the target tells' target_tells
    check 'disconnect' disconnect
fi
finish_checks
