# Disks that a vhost-user back end outside of the guest serves: what the kernel's virtio_blk finds of them, a file system on
# each, written, trimmed and checked, and another size.
#
#   job-vhost-user.sh NQN SERIAL:BLOCK:NSID...
#
# Each disk of 128 MiB is named by its serial number, with the size of its blocks and the namespace that it is.
. /guest-lib.sh
hear_outside

nqn=$1
shift

# device SERIAL: its name, such as vda.
device() {
    local path
    for path in /sys/block/vd*; do
        if [[ $(cat "$path/serial" 2>/dev/null) == "$1" ]]; then echo "${path##*/}" && return; fi
    done
    echo "no disk has the serial number $1:" /sys/block/vd*
    return 1
}

is_described() {
    local queue=/sys/block/$disk/queue
    head -n 20 "$queue"/{logical_block_size,physical_block_size,discard_max_bytes,write_zeroes_max_bytes,write_cache,max_segments}
    [[ $(cat "$queue/logical_block_size") == "$block" ]]
    [[ $(cat "$queue/physical_block_size") == 4096 ]]
    (($(cat "$queue/discard_max_bytes") > 0))
    (($(cat "$queue/write_zeroes_max_bytes") > 0))
    [[ $(cat "$queue/write_cache") == 'write back' ]]
    [[ $(find "/sys/block/$disk/mq" -mindepth 1 -maxdepth 1 | wc -l) == $(nproc) ]]
}

make_and_mount() {
    mkfs.ext4 -q -F "/dev/$disk"
    mount "/dev/$disk" /mnt
}

fio_verifies() {
    fio --name=verify --filename=/mnt/fio --size=3m --rw=randwrite --ioengine=libaio --direct=1 \
        --iodepth=32 --numjobs=2 --offset_increment=3m --bssplit=4k/60:16k/25:128k/15 --verify=crc32c \
        --do_verify=1 --verify_fatal=1
}

# One write and one read of many segments, across the end of what one command carries.
moves_large_pieces() {
    dd if=/dev/urandom of=/tmp/random bs=1M count=6 status=none
    dd if=/tmp/random of=/mnt/random bs=6M oflag=direct status=none
    sync
    echo 3 >/proc/sys/vm/drop_caches
    dd if=/mnt/random bs=6M iflag=direct status=none | cmp - /tmp/random
}

trims() {
    rm /mnt/fio
    sync
    fstrim -v /mnt | tee /tmp/trimmed
    ! grep -q ' 0 B ' /tmp/trimmed
}

# Cleared without being sent, and thrown away, by the block layer itself.
clears_and_discards() {
    fallocate -l 1M /mnt/zeroes
    dd if=/dev/urandom of=/mnt/zeroes bs=1M count=1 conv=notrunc,fsync status=none
    fallocate --zero-range -l 512K /mnt/zeroes
    sync
    echo 3 >/proc/sys/vm/drop_caches
    cmp -n 524288 /mnt/zeroes /dev/zero
    ! cmp -s -n 524288 -i 524288:0 /mnt/zeroes /dev/zero
}

stays_after_mounting_again() {
    umount /mnt
    e2fsck -f -n "/dev/$disk"
    mount "/dev/$disk" /mnt
    cmp /mnt/random /tmp/random
    umount /mnt
}

discards_all() {
    blkdiscard "/dev/$disk"
    cmp -n 1048576 "/dev/$disk" /dev/zero
    blkdiscard --zeroout --offset 1M --length 8M "/dev/$disk"
}

# The target enlarges the namespace, and then restores its size.
sees_new_sizes() {
    local size=/sys/block/$disk/size
    holds "$size" $((128 * 2048))
    target namespace resize "$nqn" "$nsid" 160m
    within_ms 30000 "$disk is larger" holds "$size" $((160 * 2048))
    dd if=/tmp/random of="/dev/$disk" bs=1M count=6 seek=154 oflag=direct status=none
    dd if="/dev/$disk" bs=1M skip=154 iflag=direct status=none | cmp - /tmp/random
    target namespace resize "$nqn" "$nsid" 128m --shrink
    within_ms 30000 "$disk is smaller" holds "$size" $((128 * 2048))
}

log_is_clean() {
    ! dmesg --level=emerg,alert,crit,err,warn | grep -iE 'vd[a-z]|virtio|I/O error|blk_'
}

modprobe virtio_blk 2>/dev/null
udevadm settle 2>/dev/null || sleep 1
for disk_of in "$@"; do
    IFS=: read -r serial block nsid <<<"$disk_of"
    check "the disk of blocks of $block bytes is there" device "$serial" || continue
    disk=$(device "$serial")
    check "$disk is described" is_described
    check "$disk mkfs and mount" make_and_mount
    check "$disk fio verifies" fio_verifies
    check "$disk moves large pieces" moves_large_pieces
    check "$disk fstrim" trims
    check "$disk clears" clears_and_discards
    check "$disk fsck, and mounted again" stays_after_mounting_again
    check "$disk discards all" discards_all
    check "$disk sees new sizes" sees_new_sizes
done
check "the log is clean" log_is_clean
finish_checks
