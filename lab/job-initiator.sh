# The Linux kernel as initiator, against a target outside (or inside) the guest: everything a host does
# with a disk, once without digests and once with header and data digests.
#
#   job-initiator.sh ADDRESS PORT NQN NAMESPACES full|offered
#
# NAMESPACES is how many there are, numbered from 1. With `full` the target must offer Compare, Write
# Zeroes and Dataset Management; with `offered` only what it offers is tried.
. /guest-lib.sh

address=$1 port=$2 nqn=$3 namespaces=$4 expect=$5
readonly RAW_OFFSET=$((8 << 20))
readonly RAW_SIZE=$((1 << 20))

discover_shows_us() {
    local log
    log=$(nvme discover -t tcp -a "$address" -s "$port")
    echo "$log"
    grep -qE "^subnqn: +$nqn\$" <<<"$log"
    grep -qE "^traddr: +$address\$" <<<"$log"
}

# The keep-alive is long because this processor is emulated, and the machine below may be busy too.
connect() {
    nvme connect -t tcp -a "$address" -s "$port" -n "$nqn" -i 2 -k 60 "$@"
}

disconnect() {
    nvme disconnect -n "$nqn"
    ! controller_device "$nqn"
}

has_two_io_queues() {
    local count
    count=$(cat "/sys/class/nvme/${controller##*/}/queue_count")
    echo "queue_count $count"
    ((count == 3))
}

all_namespaces_appear() {
    local nsid
    for ((nsid = 1; nsid <= namespaces; nsid++)); do wait_for_namespace "$nqn" "$nsid"; done
    nvme list-ns "$controller" -o json >/tmp/list-ns.json
    cat /tmp/list-ns.json
    [[ $(jq '.nsid_list | length' /tmp/list-ns.json) == "$namespaces" ]]
    nvme list -o json | jq -e ".Devices" | grep -q nvme
}

# offers BIT: whether ONCS says so, or has to.
offers() {
    local oncs
    oncs=$(nvme id-ctrl "$controller" -o json | jq .oncs)
    [[ $expect == full ]] || ((oncs >> $1 & 1))
}

read_feature() { nvme get-feature "$controller" -f "$1" -H; }

check_controller() {
    local feature
    check "$mode two I/O queues" has_two_io_queues
    check "$mode id-ctrl" nvme id-ctrl "$controller"
    check "$mode smart-log" nvme smart-log "$controller"
    check "$mode error-log" nvme error-log "$controller"
    check "$mode fw-log" nvme fw-log "$controller"
    check "$mode effects-log" nvme effects-log "$controller"
    for feature in 0x06 0x07 0x0b 0x0f; do check "$mode get-feature $feature" read_feature "$feature"; done
}

make_and_mount() {
    mkfs.ext4 -q -F "$device"
    mount "$device" /mnt
}

# Blocks of several sizes, in the capsule and by R2T, each read back and compared with its checksum.
fio_verifies() {
    fio --name=verify --filename=/mnt/fio --size=6m --rw=randwrite --ioengine=libaio --direct=1 \
        --iodepth=16 --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --do_verify=1 --verify_fatal=1
}

write_file() {
    dd if=/dev/urandom of=/mnt/random bs=1M count=4
    sha256sum </mnt/random >/tmp/sum
    sync
}

# Remounted and without caches, so that every byte comes from the target again.
file_is_intact() {
    umount /mnt
    echo 3 >/proc/sys/vm/drop_caches
    mount "$device" /mnt
    sha256sum </mnt/random >/tmp/sum-again
    cmp /tmp/sum /tmp/sum-again
}

unmounted_clean() {
    umount /mnt
    e2fsck -fn "$device"
}

fill_raw() {
    dd if=/dev/urandom of=/tmp/raw bs=1M count=1 status=none
    dd if=/tmp/raw of="$device" bs=128k seek="$RAW_OFFSET" oflag=direct,seek_bytes conv=notrunc status=none
}

read_raw() {
    dd if="$device" of=/tmp/raw-again bs=128k count=$((RAW_SIZE >> 17)) skip="$RAW_OFFSET" \
        iflag=direct,skip_bytes status=none
}

raw_is_zero() {
    read_raw
    cmp -n "$RAW_SIZE" /tmp/raw-again /dev/zero
}

discards() {
    fill_raw
    blkdiscard -o "$RAW_OFFSET" -l "$RAW_SIZE" "$device"
    # Only a namespace whose DLFEAT promises zeroes has to read as zeroes.
    if (($(nvme id-ns "$device" -o json | jq .dlfeat) % 8 == 1)); then raw_is_zero; fi
}

writes_zeroes() {
    fill_raw
    nvme write-zeroes "$device" -s $((RAW_OFFSET / block)) -c $((RAW_SIZE / 16 / block - 1))
    read_raw
    cmp -n $((RAW_SIZE / 16)) /tmp/raw-again /dev/zero
    # Bytes behind the range must be unchanged.
    cmp -i $((RAW_SIZE / 16)) /tmp/raw-again /tmp/raw
}

# The same bytes compare equal; others end with Compare Failure (285h), which is no error of ours.
compares() {
    local answer
    fill_raw
    head -c 16384 /tmp/raw >/tmp/same
    head -c 16384 /dev/zero >/tmp/other
    local -a range=(-s $((RAW_OFFSET / block)) -c $((16384 / block - 1)) -z 16384)
    nvme compare "$device" "${range[@]}" -d /tmp/same
    answer=$(nvme compare "$device" "${range[@]}" -d /tmp/other 2>&1) && return 1
    echo "$answer"
    grep -qiE 'compare failure|0x285' <<<"$answer"
}

check_namespace() {
    local nsid=$1 device block name
    device=$(namespace_device "$nqn" "$nsid") || return
    block=$(blockdev --getss "$device")
    name="$mode namespace $nsid ($block)"
    check "$name id-ns" nvme id-ns "$device"
    check "$name ns-descs" nvme ns-descs "$controller" -n "$nsid"
    check "$name mkfs and mount" make_and_mount || return
    check "$name fio verify" fio_verifies
    check "$name write a file" write_file
    check "$name fstrim" fstrim -v /mnt
    check "$name file intact after remount" file_is_intact
    check "$name umount and fsck" unmounted_clean
    check "$name flush" nvme flush "$device" -n "$nsid"
    if offers 2; then check "$name discard" discards; fi
    if offers 3; then check "$name write zeroes" writes_zeroes; fi
    if offers 0; then check "$name compare" compares; fi
}

# check_mode NAME CONNECT-OPTION...
check_mode() {
    local mode=$1 nsid controller
    shift
    check "$mode discover" discover_shows_us
    check "$mode connect" connect "$@" || return
    controller=$(controller_device "$nqn")
    if check "$mode all namespaces appear" all_namespaces_appear; then
        check_controller
        for ((nsid = 1; nsid <= namespaces; nsid++)); do check_namespace "$nsid"; done
    fi
    check "$mode disconnect" disconnect
}

modprobe nvme-tcp
check_mode plain
check_mode digests -g -G
check 'kernel log is clean' kernel_log_is_clean
finish_checks
