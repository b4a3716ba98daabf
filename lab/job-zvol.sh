# The fio profile of a home server with ZFS: 4 KiB at random, by 16 jobs in one file of ext4. The
# namespace is a zvol, then a file, both on raidz1 of four disks: of our target, of nvmet, and of
# nvmet with commands of at most 1 MiB, which its users set at hosts because it states no limit.
#
#   job-zvol.sh PROGRAM [DURATION [SIZE]]
#
# PROGRAM is the program's name beside this job, DURATION the seconds of reads and of writes, SIZE
# the MiB of fio's file: 60 and 1024 in the profile. It takes a guest with OpenZFS and 2.5 GiB of
# memory besides four times SIZE. Ours must be without errors; those of nvmet are counted only.
. /guest-lib.sh

readonly NQN=nqn.2026-01.io.selvedge:zvol PORT=4420
readonly DURATION_S=${2:-60} SIZE_MIB=${3:-1024}
readonly NAMESPACE_MIB=$((SIZE_MIB * 5 / 4))

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

make_pool() {
    local modules number
    modules=/lib/modules/$(uname -r)/extra
    insmod "$modules/spl.ko"
    # The guest has little memory, of which its disks take most.
    insmod "$modules/zfs.ko" zfs_arc_max=$((256 << 20)) zfs_dirty_data_max=$((64 << 20))
    mount -o remount,size=90% /tmp
    # A pool that is nearly full is slow.
    for number in {1..4}; do truncate -s "$((SIZE_MIB + 256))M" "/tmp/disk-$number"; done
    zpool create -o cachefile=none -o autotrim=on pool raidz1 /tmp/disk-{1..4}
    zpool status
    modprobe nvme-tcp
    modprobe nvmet-tcp
}

write_profile() {
    cat >/tmp/profile.fio <<FIO
[global]
bs=4k
ioengine=libaio
iodepth=32
size=${SIZE_MIB}m
numjobs=16
direct=1
refill_buffers=1
runtime=$DURATION_S
directory=/mnt
group_reporting=1
filename=ssd.test.file

[rand-read]
rw=randread
stonewall

[rand-write]
rw=randwrite
stonewall
FIO
}

# make_storage zvol|file
make_storage() {
    if [[ $1 == file ]]; then
        truncate -s "${NAMESPACE_MIB}M" /pool/disk
    else
        zfs create -V "${NAMESPACE_MIB}M" pool/disk
        wait_ms 30000 'the zvol' find_zvol
    fi
}

find_zvol() {
    local device
    for device in /dev/zd*; do [[ -b $device ]] && echo "$device" && return; done
    return 1
}

# serves TARGET KIND
serves() {
    local path=/pool/disk kind=file
    if [[ $2 == zvol ]]; then path=$(find_zvol) kind=block; fi
    if [[ $1 == ours ]]; then
        serve_namespace "$NQN" "$PORT" "$kind:$path"
    else
        nvmet_subsystem "$NQN"
        # Direct I/O of less than a page fails on ZFS.
        mkdir "$nvmet/subsystems/$NQN/namespaces/1"
        if [[ $2 == file ]]; then echo 1 >"$nvmet/subsystems/$NQN/namespaces/1/buffered_io"; fi
        nvmet_namespace "$NQN" 1 "$path"
        nvmet_port 127.0.0.1 "$PORT" "$NQN"
    fi
}

# mounts TARGET
mounts() {
    local disk queue
    be_patient
    nvme connect -t tcp -a 127.0.0.1 -s "$PORT" -n "$NQN" -i 2 -k 60
    disk=$(wait_for_namespace "$NQN" 1)
    if [[ $1 == nvmet-limited ]]; then
        for queue in /sys/block/nvme*n*/queue; do echo 1024 >"$queue/max_sectors_kb"; done
    fi
    mkfs.ext4 -q -F "$disk"
    mount "$disk" /mnt
}

# fio's own status is in its report.
runs_profile() {
    timeout $((DURATION_S * 10 + 1800)) fio --output-format=json --output=/tmp/profile.json \
        /tmp/profile.fio >/tmp/profile.log 2>&1 || tail -n 5 /tmp/profile.log
    # Lines before the report are for people.
    sed -n '/^{/,$p' /tmp/profile.json >/tmp/profile.report
    jq -e '.jobs | length == 2' /tmp/profile.report
}

# Where fio could not lay out its file, reads of holes would count.
tells() {
    jq -r --arg name "$1" '.jobs | "measured: \($name): " + if any(.error != 0)
        then "errors \(map(.error))"
        else "\(.[0].read.iops | round) random reads/s, \(.[1].write.iops | round) random writes/s"
        end' /tmp/profile.report
}

has_no_error() {
    jq -e '.jobs | map(.error) == [0, 0] and .[0].read.total_ios > 0 and
        .[1].write.total_ios > 0' /tmp/profile.report || { tail -n 20 /tmp/profile.log; return 1; }
}

leaves() {
    if mountpoint -q /mnt; then umount /mnt; fi
    nvme disconnect -n "$NQN"
    if [[ $1 == ours ]]; then end_target; else nvmet_remove "$NQN"; fi
    if [[ $2 == file ]]; then rm /pool/disk; else zfs destroy pool/disk; fi
}

# step TARGET NAME COMMAND...: a check, which counts only where the target is ours.
step() {
    local target=$1
    shift
    if [[ $target == ours ]]; then check "$@"; return; fi
    (check "$@") | sed 's/^FAIL /measured: failed: /'
    return "${PIPESTATUS[0]}"
}

# try_storage TARGET KIND
try_storage() {
    local name="$1, $2"
    dmesg -C
    check "$name is made" make_storage "$2" || return
    check "$name is served" serves "$1" "$2" || return
    if step "$1" "$name is mounted" mounts "$1" && step "$1" "$name: the profile" runs_profile; then
        tells "$name"
        step "$1" "$name: no error" has_no_error
    fi
    tell_io_errors "$name"
    step "$1" "$name: kernel log is clean" kernel_log_is_clean
    check "$name is removed" leaves "$1" "$2"
}

write_profile
if check 'a pool' make_pool; then
    for target in ours nvmet nvmet-limited; do
        for kind in zvol file; do try_storage "$target" "$kind"; done
    done
fi
finish_checks
