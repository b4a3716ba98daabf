# Two targets with default options on two machines, and the kernel and our own initiator as a host of both: each disk is a
# disk of its own, and what is written to one never shows in another. The machines are network and mount namespaces of
# this guest, which have nothing in common but the program: clones of one installation, down to the file systems, that
# differ by their machine IDs alone. First each has the name that it gives itself, then both are given the same.
#
#   job-two-targets.sh PROGRAM
#
# PROGRAM is the program's name beside this job. It takes three more network cards.
. /guest-lib.sh

readonly SAME=nqn.2026-01.io.selvedge:same
# Namespace 1 is memory, 2 a file that each target makes itself, 3 one that was there when the machine was cloned.
readonly NAMESPACES=(--namespace memory:8m --namespace file:/srv/made.img,size=8m --namespace file:/srv/cloned.img)
readonly NSIDS=(1 2 3) BYTES=$((8 << 20)) BLOCK=4096
# Kernel message about a namespace that it does not accept as another path.
readonly UNLIKE="IDs don't match for shared namespace"
readonly MACHINES=(a b)
declare -A machine_id=([a]=3d1219c7c4c5404aaa1f6d2a48adfda4 [b]=9b0e5f52d1c84b7c8f6f4d7a06c1b3e2)
declare -A address=([a]=10.77.0.2 [b]=10.77.0.3) card=([a]=eth2 [b]=eth3)

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

# on MACHINE COMMAND...: it takes the place of this process, so that its number is the command's.
on() {
    exec ip netns exec "$1" unshare --mount --uts bash -c '
        mount --make-rprivate /
        for place in etc/machine-id srv run var root; do mount --bind "/machines/$1/$place" "/$place" || exit; done
        hostname "machine-$1"
        shift
        exec "$@"' on "$@"
}

# One file system with a file, twice: the copy has the same UUID, and the file there the same number and age.
clone_disk() {
    truncate -s 64M /machines/a.img
    mkfs.ext4 -q /machines/a.img
    mkdir /mnt/first
    mount -o loop /machines/a.img /mnt/first
    head -c "$BYTES" /dev/zero >/mnt/first/cloned.img
    umount /mnt/first
    cp /machines/a.img /machines/b.img
}

install() {
    local place=/machines/$1
    mkdir -p "$place"/{etc,srv,run,var,root}
    echo "${machine_id[$1]}" >"$place/etc/machine-id"
    mount -o loop "$place.img" "$place/srv"
    ip netns add "$1"
    ip link set "${card[$1]}" netns "$1"
    ip -n "$1" link set lo up
    ip -n "$1" link set "${card[$1]}" up
    ip -n "$1" addr add "${address[$1]}/24" dev "${card[$1]}"
}

make_machines() {
    local machine
    mkdir -p /machines /srv /var /root
    touch /etc/machine-id
    ip link set eth1 up
    ip addr add 10.77.0.1/24 dev eth1
    clone_disk
    for machine in "${MACHINES[@]}"; do install "$machine"; done
    [[ $(on a cat /etc/machine-id) != "$(on b cat /etc/machine-id)" ]]
    [[ $(stat -c '%i %W' /machines/a/srv/cloned.img) == "$(stat -c '%i %W' /machines/b/srv/cloned.img)" ]]
    [[ $(stat -f -c %i /machines/a/srv) == "$(stat -f -c %i /machines/b/srv)" ]]
}

listens() { grep -q 'listening on' "/tmp/$1.log"; }

# serve [OPTION]...: on both machines.
serve() {
    local machine
    for machine in "${MACHINES[@]}"; do
        on "$machine" "$selvedge" serve -a "${address[$machine]}" --allow-any-host "$@" "${NAMESPACES[@]}" \
            </dev/null >"/tmp/$machine.log" 2>&1 &
        echo $! >"/tmp/$machine.pid"
    done
    for machine in "${MACHINES[@]}"; do
        wait_ms 60000 "target $machine" listens "$machine" || { cat "/tmp/$machine.log"; return 1; }
    done
}

has_ended() { ! kill -0 "$(cat "/tmp/$1.pid")"; }

end_targets() {
    local machine
    for machine in "${MACHINES[@]}"; do
        kill -TERM "$(cat "/tmp/$machine.pid")"
        wait_ms 30000 "the end of target $machine" has_ended "$machine"
    done
}

find_name() {
    nvme discover -t tcp -a "${address[$1]}" -s 4420 -o json |
        jq -r '[.records[] | select(.subnqn | contains("discovery") | not)][0].subnqn'
}

# The controller that goes to a machine, in sysfs.
find_controller_of() {
    local entry
    for entry in /sys/class/nvme/nvme*; do
        [[ $(cat "$entry/address" 2>/dev/null) == *"traddr=${address[$1]},"* ]] && echo "$entry" && return
    done
    echo "no controller goes to machine $1" >&2
    return 1
}

# disk_of MACHINE NSID: what a user of this machine's namespace reads and writes, which is the disk of all its paths.
disk_of() {
    local entry
    for entry in "$(find_controller_of "$1")"/nvme*n*; do
        [[ $(cat "$entry/nsid" 2>/dev/null) == "$2" ]] || continue
        entry=${entry##*/}
        [[ ! $entry =~ ^(nvme[0-9]+)c[0-9]+(n[0-9]+)$ ]] || entry=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
        [[ -b /dev/$entry ]] && echo "/dev/$entry" && return
    done
    return 1
}

has_disks() {
    local nsid
    for nsid in "${NSIDS[@]}"; do disk_of "$1" "$nsid"; done
}

# connects MACHINE: the keep-alive is long because this processor is emulated, and the machine below may be busy too.
connects() {
    nvme connect -t tcp -a "${address[$1]}" -s 4420 -n "$(cat "/tmp/$1.nqn")" -i 2 -k 60
    find_controller_of "$1"
}

connects_with_disks() {
    connects "$1"
    wait_ms 15000 "the disks of machine $1" has_disks "$1"
}

# Round-robin over all paths: a path to another disk shows at once.
spread() {
    local file
    for file in /sys/class/nvme-subsystem/*/iopolicy; do echo round-robin >"$file"; done
}

disconnects_all() {
    nvme disconnect-all
    ! ls -d /sys/class/nvme/nvme*
}

# Identifiers of both, one line a machine and namespace, for the log.
show() {
    local machine nsid entry block
    for machine in "${MACHINES[@]}"; do
        entry=$(find_controller_of "$machine") || continue
        echo "measured: machine $machine: $(cat "$entry/subsysnqn") $(cat "$entry/serial") CNTLID $(cat "$entry/cntlid")"
        for nsid in "${NSIDS[@]}"; do
            block=$(disk_of "$machine" "$nsid") || continue
            echo "measured: machine $machine: namespace $nsid is $block $(cat "/sys/block/${block##*/}/uuid")"
        done
    done
}

# differ NAME FILE: what both controllers have under this name in sysfs.
differ() {
    local one other
    one=$(cat "$(find_controller_of a)/$1") other=$(cat "$(find_controller_of b)/$1")
    echo "$1: $one and $other"
    [[ $one != "$other" ]]
}

are_two_subsystems() {
    differ subsysnqn
    differ serial
    [[ $(ls -d /sys/class/nvme-subsystem/nvme-subsys* | wc -l) == 2 ]]
}

all_disks_differ() {
    local machine nsid disk fact
    for machine in "${MACHINES[@]}"; do
        for nsid in "${NSIDS[@]}"; do
            disk=$(disk_of "$machine" "$nsid")
            for fact in uuid nguid wwid; do
                [[ ! -e /sys/block/${disk##*/}/$fact ]] || echo "$fact $(cat "/sys/block/${disk##*/}/$fact")"
            done
            echo "disk $disk"
        done
    done | sort >/tmp/facts
    cat /tmp/facts
    (($(grep -c '^disk ' /tmp/facts) == 6 && $(grep -c '^uuid ' /tmp/facts) == 6))
    [[ -z $(uniq -d /tmp/facts) ]]
}

# Every sector names its place, which reveals sectors of another disk.
make_patterns() {
    local machine nsid
    for machine in "${MACHINES[@]}"; do
        for nsid in "${NSIDS[@]}"; do
            awk -v name="$machine $nsid" -v sectors=$((BYTES / 512)) \
                'BEGIN { for (i = 0; i < sectors; i++) printf "%-511s\n", name " " i }' >"/tmp/pattern-$machine-$nsid"
        done
    done
}

fill_disks() {
    local nsid
    for nsid in "${NSIDS[@]}"; do
        dd if="/tmp/pattern-$1-$nsid" of="$(disk_of "$1" "$nsid")" bs=64k oflag=direct conv=notrunc,fsync status=none
    done
}

# count_wrong MACHINE NSID FILE: adds the blocks that are not as they were written there.
count_wrong() {
    local found
    [[ $(stat -c %s "$3") == "$BYTES" ]]
    found=$({ cmp -l "/tmp/pattern-$1-$2" "$3" || true; } |
        awk -v block="$BLOCK" '{ wrong[int(($1 - 1) / block)] } END { print length(wrong) }')
    echo "machine $1, namespace $2: $found wrong"
    wrong=$((wrong + found)) blocks=$((blocks + BYTES / BLOCK))
}

count_wrong_on_disks() {
    local nsid
    for nsid in "${NSIDS[@]}"; do
        dd if="$(disk_of "$1" "$nsid")" of=/tmp/found bs=64k iflag=direct status=none
        count_wrong "$1" "$nsid" /tmp/found
    done
}

none_is_wrong() {
    echo "measured: $1: $wrong of $blocks blocks are wrong" >&3
    ((wrong == 0))
}

# The host has all six at once.
writes_stay_apart() {
    local machine wrong=0 blocks=0
    spread
    for machine in "${MACHINES[@]}"; do fill_disks "$machine"; done
    for machine in "${MACHINES[@]}"; do count_wrong_on_disks "$machine"; done
    none_is_wrong 'names of their own'
}

# The host has the disks of one, and of the other as much as it takes: that one's blocks were written while it was alone, and
# are read when it is alone again.
writes_stay_with_the_first() {
    local wrong=0 blocks=0
    spread
    fill_disks a
    count_wrong_on_disks a
    disconnects_all
    connects_with_disks b
    count_wrong_on_disks b
    disconnects_all
    none_is_wrong 'the same name'
}

# Content of the machines' own files after the targets have ended.
files_are_right() {
    local machine wrong=0 blocks=0
    for machine in "${MACHINES[@]}"; do
        count_wrong "$machine" 2 "/machines/$machine/srv/made.img"
        count_wrong "$machine" 3 "/machines/$machine/srv/cloned.img"
    done
    none_is_wrong "files, $1"
}

# Our own host, with both machines as paths to the subsystem of this name.
run_ours() {
    "$selvedge" bench -a "${address[a]},${address[b]}" -n "$1" --rw randread --size 4m --runtime 1 2>&1
}

# Without a subsystem of this name on the second machine, the first one is used alone.
ours_leaves_out() {
    local answer
    answer=$(run_ours "$(cat /tmp/a.nqn)")
    echo "$answer"
    grep -E 'is given up' <<<"$answer" | sed 's/^/measured: ours says: /' >&3
    grep -qE "path ${address[b]}:4420 is given up: .*NQN not known there" <<<"$answer"
    grep -qE "^${address[b]}:4420 +dead .* 0\.0 %" <<<"$answer"
}

# With another namespace of the same number there, the second path is refused, and with it the whole connection.
ours_refuses() {
    local answer
    if answer=$(run_ours "$SAME"); then
        echo "$answer"
        echo 'it took both'
        return 1
    fi
    echo "$answer"
    echo "measured: ours says: $answer" >&3
    grep -qE "the path (${address[a]}|${address[b]}):4420 is refused: the namespace's UUID is" <<<"$answer"
}

# The kernel takes both controllers for the same subsystem's, which may not have the same identifier twice, and takes the second
# one's namespaces for none that it has.
no_disk_has_two_paths() {
    local head paths
    differ cntlid
    for head in /sys/class/nvme-subsystem/*/nvme*n*; do
        [[ ${head##*/} =~ ^(nvme[0-9]+)(n[0-9]+)$ ]] || continue
        paths=$(ls -d /sys/class/nvme/nvme*/"${BASH_REMATCH[1]}"c*"${BASH_REMATCH[2]}" | wc -l)
        echo "$head has $paths"
        ((paths == 1))
    done
}

refusals() { dmesg | grep -oE "$UNLIKE [0-9]+\$" | sort -u; }

are_all_refused() { (($(refusals | wc -l) == ${#NSIDS[@]})); }

kernel_says_why() {
    wait_ms 10000 "the kernel's reasons" are_all_refused || { dmesg | grep nvme; return 1; }
    refusals | sed 's/^/measured: the kernel says: /' >&3
}

# Other hosts have come and gone at one of them, so that two that count controllers alike are not at the same number: the
# kernel refuses a second controller with the number of the first before it looks at namespaces.
has_served_before() {
    local time
    for time in 1 2 3; do
        "$selvedge" identify -a "${address[$1]}" -n "$(cat "/tmp/$1.nqn")" >/dev/null
    done
}

find_names() {
    local machine
    for machine in "${MACHINES[@]}"; do find_name "$machine" >"/tmp/$machine.nqn"; done
    cat /tmp/{a,b}.nqn
}

begin() {
    local name=$1
    shift
    check "$name: two targets" serve "$@" && check "$name: discovery" find_names &&
        check "$name: earlier hosts" has_served_before b
}

with_own_names() {
    begin 'own names' || return
    check 'own names: ours leaves one out' ours_leaves_out
    check 'own names: connect a' connects_with_disks a || return
    check 'own names: connect b' connects_with_disks b || return
    show
    check 'own names: two subsystems' are_two_subsystems
    check 'own names: six disks' all_disks_differ
    check 'own names: writes stay apart' writes_stay_apart
    check 'own names: disconnect' disconnects_all
}

with_one_name() {
    begin 'one name' -n "$SAME" || return
    check 'one name: ours refuses' ours_refuses
    check 'one name: b alone' eval 'connects_with_disks b; fill_disks b; disconnects_all'
    dmesg -C
    check 'one name: connect a' connects_with_disks a || return
    check 'one name: connect b' connects b || return
    check 'one name: the kernel says why' kernel_says_why
    show
    check 'one name: no disk has two paths' no_disk_has_two_paths
    check 'one name: writes stay with the first' writes_stay_with_the_first
}

hear_outside
modprobe nvme-tcp
modprobe loop
if check 'two machines' make_machines; then
    make_patterns
    with_own_names
    check 'own names: targets end' end_targets
    check 'own names: files' files_are_right 'names of their own'
    with_one_name
    check 'one name: targets end' end_targets
    check 'one name: files' files_are_right 'the same name'
fi
finish_checks
