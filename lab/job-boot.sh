# A guest whose disk is a namespace: what was read to get here, a file that comes back, blocks that go.
#
#   job-boot.sh
. /job/guest-lib.sh

root_is_the_disk() { [[ $(findmnt -no SOURCE /) == /dev/vda ]]; }

data_comes_back() {
    dd if=/dev/urandom of=/data bs=1M count=24 status=none
    sha256sum /data >/data.sum
    sync
    echo 3 >/proc/sys/vm/drop_caches
    sha256sum --status -c /data.sum
}

trims() { fstrim -v / | grep -q trimmed; }

kernel_log_is_clean() {
    ! dmesg | grep -iE 'vda|ext4|I/O' | grep -iE 'error|fail|timed out|corrupt'
}

check 'the disk has its root' root_is_the_disk
check 'data comes back' data_comes_back
check 'fstrim' trims
check 'the kernel says nothing' kernel_log_is_clean
finish_checks
