# udev in a fresh Debian, with the rules of the package: block devices of `attach --ublk` are called as the kernel's NVMe/TCP
# calls the same namespaces, and a user's device is that user's alone.
#
#   job-udev.sh BOOT
#
# Beside it are the program, `selvedge.gz`, and 59-selvedge-attach.rules. Both ends are in the guest, on its loopback.
. /job/guest-lib.sh
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

readonly NQN=nqn.2026-01.io.selvedge:udev PORT=4420 RULES=59-selvedge-attach.rules
selvedge=/usr/bin/selvedge

package_is_there() {
    gzip -dc /job/selvedge.gz >"$selvedge"
    chmod 755 "$selvedge"
    cp "/job/$RULES" /usr/lib/udev/rules.d/
    groupadd --system ublk
    udevadm verify "/usr/lib/udev/rules.d/$RULES"
    udevadm control --reload
    modprobe -a ublk_drv nvme-tcp
    udevadm settle
    [[ $(stat -c '%G %a' /dev/ublk-control) == 'ublk 660' ]]
}

target_serves() {
    cat >/tmp/target.toml <<TOML
[[port]]
address = "127.0.0.1:$PORT"
[[subsystem]]
nqn = "$NQN"
model = "A disk, with/odd signs"
serial = "S 1"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
memory = "16m"
block = 512
[[subsystem.namespace]]
nsid = 3
memory = "16m"
block = 512
TOML
    serve_again /tmp/target.toml "$PORT"
}

# links DEVICE: the names that udev has made for it, but those that are about the device and not the namespace.
links() { udevadm info --query=symlink "$1" | tr ' ' '\n' | grep '^disk/by-id/' | sort; }

# A partition of 8 MiB, in the oldest of tables.
partition_is_made() {
    {
        head -c 446 /dev/zero
        printf '\x80\0\0\0\x83\0\0\0\0\x08\0\0\0\x40\0\0'
        head -c 48 /dev/zero
        printf '\x55\xaa'
    } | dd of="$1" bs=512 count=1 iflag=fullblock oflag=direct conv=notrunc status=none
}

kernel_names_them() {
    local nsid device
    nvme connect -t tcp -a 127.0.0.1 -s "$PORT" -n "$NQN"
    for nsid in 1 3; do
        device=$(wait_for_namespace "$NQN" "$nsid")
        partition_is_made "$device"
        blockdev --rereadpt "$device"
        udevadm settle
        links "$device" >"/tmp/kernel-$nsid"
        links "${device}p1" >"/tmp/kernel-$nsid-partition"
    done
    nvme disconnect -n "$NQN"
    udevadm settle
    cat /tmp/kernel-*
    grep -q '^disk/by-id/nvme-uuid\.' /tmp/kernel-1
    grep -q '_3-part1$' /tmp/kernel-3-partition
}

# attach_as USER OPTION...: and what it says is in /tmp/attach.log.
attach_as() {
    be "$1"
    shift
    : >/tmp/attach.log
    "${as[@]}" "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" --ublk "$@" >/tmp/attach.log 2>&1 &
    echo $! >/tmp/attach.pid
    wait_ms 120000 'the devices are there' has_devices_or_has_ended || true
    cat /tmp/attach.log
    grep -q '^/dev/ublkb' /tmp/attach.log
}

has_devices_or_has_ended() { grep -q '^/dev/ublkb' /tmp/attach.log || has_ended /tmp/attach.pid; }

# be USER: what precedes a command that runs as this user.
be() {
    local id
    as=(env)
    [[ $1 != root ]] || return 0
    id=$(id -u "$1")
    install -d -o "$1" -m 700 "/run/user/$id"
    as=(setpriv --reuid "$1" --regid "$1" --init-groups env "HOME=/tmp" "XDG_RUNTIME_DIR=/run/user/$id")
}

ends() {
    "$selvedge" attach detach all
    udevadm settle
    nothing_is_left
}

nothing_is_left() {
    ls /dev/ublk*
    [[ $(echo /dev/ublk*) == /dev/ublk-control ]]
    not compgen -G '/sys/block/ublkb*'
}

ours_have_the_same_names() {
    local number=0 nsid
    attach_as root --nsid 1,3
    udevadm settle
    for nsid in 1 3; do
        links "/dev/ublkb$number" | diff "/tmp/kernel-$nsid" -
        links "/dev/ublkb${number}p1" | diff "/tmp/kernel-$nsid-partition" -
        number=$((number + 1))
    done
    [[ $(readlink -f "/dev/$(head -n 1 /tmp/kernel-3)") == /dev/ublkb1 ]]
}

# A write makes udev probe the disk again.
names_stay() {
    dd if=/dev/zero of=/dev/ublkb1p1 bs=4k count=1 conv=fsync status=none
    udevadm trigger --settle /dev/ublkb0 /dev/ublkb1
    links /dev/ublkb1 | diff /tmp/kernel-3 -
    kill -KILL "$(cat /tmp/attach.pid)"
    # Reads by udev wait until a process serves the disks again.
    udevadm trigger /dev/ublkb1
    "$selvedge" attach recover >/tmp/attach.log 2>&1 &
    wait_ms 60000 'they are served again' grep -q '^/dev/ublkb1' /tmp/attach.log
    udevadm trigger --settle /dev/ublkb1
    links /dev/ublkb1 | diff /tmp/kernel-3 -
    ends
    not compgen -G '/dev/disk/by-id/nvme-*'
}

users_are_there() {
    local name
    for name in alice bob carol; do useradd "$name"; done
    usermod -aG ublk alice
    usermod -aG ublk bob
}

# refuses USER WORDS COMMAND...: one line says why.
refuses() {
    local words=$2 status=0
    be "$1"
    shift 2
    "${as[@]}" "$@" >/tmp/refused 2>&1 || status=$?
    cat /tmp/refused
    ((status == 1))
    grep -q "$words" /tmp/refused
    (($(grep -vc '^connecting to' /tmp/refused) == 1))
}

user_outside_the_group_is_refused() {
    refuses carol 'usermod -aG ublk' "$selvedge" attach -a 127.0.0.1 -s "$PORT" -n "$NQN" --ublk
    [[ $(echo /dev/ublk*) == /dev/ublk-control ]]
}

user_has_a_device() {
    attach_as alice --nsid 1
    udevadm settle
    stat -c '%n %U %G %a' /dev/ublk[bc]0
    [[ $(stat -c '%U %G %a' /dev/ublkb0) == 'alice alice 600' ]]
    [[ $(stat -c '%U %G %a' /dev/ublkc0) == 'alice alice 600' ]]
    # No names for others, and udev does not probe the content.
    [[ -z $(links /dev/ublkb0 || true) ]]
    not grep '^ID_' <(udevadm info --query=property /dev/ublkb0)
}

# Through the page cache and without, in requests of all sizes.
user_reads_and_writes() {
    be alice
    head -c 9000000 /dev/urandom >/tmp/image
    chmod 644 /tmp/image
    "${as[@]}" dd if=/tmp/image of=/dev/ublkb0 bs=1M conv=fsync status=none
    "${as[@]}" dd if=/dev/ublkb0 bs=512 count=2048 iflag=direct status=none | cmp - <(head -c 1M /tmp/image)
    "${as[@]}" dd if=/dev/ublkb0 bs=3M count=2 iflag=direct,fullblock status=none | cmp - <(head -c 6M /tmp/image)
    "${as[@]}" dd if=/tmp/image of=/dev/ublkb0 bs=4k seek=1024 count=512 oflag=direct status=none
    "${as[@]}" dd if=/dev/ublkb0 bs=64k skip=64 count=32 iflag=direct status=none | cmp - <(head -c 2M /tmp/image)
    "${as[@]}" blkdiscard -z -o 1M -l 1M /dev/ublkb0
    "${as[@]}" dd if=/dev/ublkb0 bs=1M skip=1 count=1 iflag=direct status=none | cmp - <(head -c 1M /dev/zero)
    "${as[@]}" "$selvedge" attach list
    "${as[@]}" "$selvedge" attach list | grep "^/dev/ublkb0 .*$NQN .* $(cat /tmp/attach.pid)\$"
}

another_user_may_not() {
    local name
    for name in bob carol; do
        be "$name"
        not "${as[@]}" dd if=/dev/ublkb0 of=/dev/null bs=4k count=1
        not "${as[@]}" dd if=/dev/zero of=/dev/ublkb0 bs=4k count=1
        not "${as[@]}" head -c 1 /dev/ublkc0
        refuses "$name" 'ublkb0 .*another user' "$selvedge" attach detach /dev/ublkb0
        "${as[@]}" "$selvedge" attach list | grep -x 'nothing is attached'
    done
    refuses bob 'no block device waits' "$selvedge" attach recover
    refuses bob 'there is no\|another user' "$selvedge" attach recover --ublk-device 0
    not has_ended /tmp/attach.pid
}

# The kernel keeps no device of a user whose process is gone.
user_is_killed_and_detaches() {
    kill -KILL "$(cat /tmp/attach.pid)"
    wait_ms 30000 'the block device is gone' test ! -e /dev/ublkb0
    be alice
    "${as[@]}" "$selvedge" attach list | grep 'attach detach /dev/ublkb0'
    refuses bob 'another user' "$selvedge" attach detach /dev/ublkb0
    be alice
    "${as[@]}" "$selvedge" attach detach all
    nothing_is_left
    "${as[@]}" "$selvedge" attach list | grep -x 'nothing is attached'
}

user_and_root_detach() {
    attach_as alice --nsid 1,3
    "${as[@]}" "$selvedge" attach detach all
    udevadm settle
    nothing_is_left
    attach_as bob --nsid 3
    kill -KILL "$(cat /tmp/attach.pid)"
    wait_ms 30000 'the block device is gone' test ! -e /dev/ublkb0
    "$selvedge" attach detach /dev/ublkb0
    udevadm settle
    nothing_is_left
}

kernel_says_nothing() { ! dmesg | grep -E 'Call Trace|BUG:|WARNING:|I/O error'; }

check 'the rules are right' package_is_there
check 'our target serves' target_serves
check 'the kernel names them' kernel_names_them
check 'ours have the same names' ours_have_the_same_names
check 'names stay' names_stay
check 'users are there' users_are_there
check 'a user outside the group is refused with the reason' user_outside_the_group_is_refused
check 'a user has a device' user_has_a_device
check 'a user reads and writes' user_reads_and_writes
check 'another user may not' another_user_may_not
check 'a user is killed, and detaches' user_is_killed_and_detaches
check 'a user and root detach' user_and_root_detach
check 'the kernel says nothing' kernel_says_nothing
finish_checks
