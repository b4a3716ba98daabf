# A disk that one process after the other serves, over vhost-user: fio verifies all that it writes, until a line on the input ends it.
#
#   job-attach-ends.sh
. /guest-lib.sh

uses_its_disk() {
    local runs=0 status=0
    modprobe virtio_blk
    wait_ms 60000 'the disk' test -b /dev/vda
    echo 'disk in use' >&3
    (read -r -u 4 _ && touch /tmp/enough) &
    until [[ -e /tmp/enough ]]; do
        fio --name=v --filename=/dev/vda --size=6m --rw=randwrite --bsrange=4k-64k --ioengine=libaio --direct=1 --iodepth=16 \
            --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed="$runs" >/tmp/fio.log 2>&1 || status=$?
        ((status == 0)) || { cat /tmp/fio.log; return 1; }
        runs=$((runs + 1))
    done
    echo "figure: $runs runs of fio" >&3
}

hear_outside
check 'a disk with many processes' uses_its_disk
check 'the kernel says nothing' kernel_log_is_clean
finish_checks
