# The kernel as a host with two paths to one namespace, over two ports of a target outside: each of its policies, ANA
# states that change, and paths that are cut and come back, while a load writes and verifies without an error.
#
#   job-paths.sh ADDRESS PORT-1 PORT-2 NQN
#
# The target numbers these ports 1 and 2, they listen on the loopback of the machine outside, and there is an unused
# third one, since a target without any is refused. Namespace 1 has at least 48 MiB, in ANA group 1.
. /guest-lib.sh

address=$1 ports=([1]=$2 [2]=$3) nqn=$4
readonly LISTENS=127.0.0.1
readonly IMAGES=3
readonly IMAGE_OFFSET=$((40 << 20))
# Kernel messages of a host about a path that was cut, until it returns: the other end is gone (-32, -104) or refuses
# (-111).
readonly CUT='error recovery|(send request|receive failed:) +-(32|104)|connect socket: -111|Failed reconnect attempt'

# Both names stay the same while a path is away.
paths_are_optimized() {
    local number
    for number in 1 2; do
        has_state "$number" live
        wait_ms 15000 "path $number optimized" has_ana_state "$number" optimized
    done
    # Each association is a controller of its own.
    [[ $(cat "${controllers[1]}/cntlid") != "$(cat "${controllers[2]}/cntlid")" ]]
}

is_listed_as_one() {
    is_one_disk
    nvme list-subsys -o json >/tmp/list-subsys.json
    cat /tmp/list-subsys.json
    jq -e '[.. | objects | select(.State? == "live")] | length == 2' /tmp/list-subsys.json
}

set_policy() {
    local file
    for file in /sys/class/nvme-subsystem/*/iopolicy; do
        [[ $(cat "${file%/*}/subsysnqn") == "$nqn" ]] || continue
        echo "$policy" >"$file"
        [[ $(cat "$file") == "$policy" ]]
        return
    done
    return 1
}

# Number of reads and writes that each path has completed, and [0] their sum.
declare -a carried=(0 0 0)
count() {
    local number
    local -a fields
    for number in 1 2; do
        read -ra fields <"${paths[$number]}/stat"
        carried[number]=$((fields[0] + fields[4]))
    done
    carried[0]=$((carried[1] + carried[2]))
}

has_carried() {
    count
    ((carried[$1] >= $2))
}

# goes_on NUMBER COUNT: the path completes that many more, or 0 for both together.
goes_on() {
    count
    wait_ms 60000 "$2 more commands on path $1" has_carried "$1" $((carried[$1] + $2))
}

both_go_on() {
    goes_on 1 20
    goes_on 2 20
}

# The path that carries more of the load now is `busier`, and the other one `other`.
find_busier() {
    local first second
    count
    first=${carried[1]} second=${carried[2]}
    goes_on 0 40
    busier=$((carried[1] - first >= carried[2] - second ? 1 : 2)) other=$((3 - busier))
}

carry_by_policy() { if [[ $policy == numa ]]; then goes_on 0 40; else both_go_on; fi; }

is_idle() {
    local reads writes
    read -r reads writes <"${paths[$1]}/inflight"
    ((reads + writes == 0))
}

# All goes to the other path, once what was under way on this one has ended.
is_avoided() {
    local before
    wait_ms 60000 "path $1 without commands" is_idle "$1"
    count
    before=${carried[$1]}
    goes_on $((3 - $1)) 40
    echo "path $1 has carried $before commands, then ${carried[$1]}"
    ((carried[$1] == before))
}

# verifies_over DEPTH SHARE-MIN SHARE-MAX: everything is read back as it was written, and the path with less to do has
# a share (in percent) within these bounds.
verifies_over() {
    local first second less
    count
    first=${carried[1]} second=${carried[2]}
    fio --name=verify --filename="$disk" --size=4m --rw=randwrite --ioengine=libaio --direct=1 --iodepth="$1" \
        --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --do_verify=1 --verify_fatal=1
    count
    first=$((carried[1] - first)) second=$((carried[2] - second))
    echo "measured: $policy with $1 under way: $first commands on path 1, $second on path 2" >&3
    less=$((first < second ? first : second))
    ((100 * less >= $2 * (first + second) && 100 * less <= $3 * (first + second)))
}

# Different images go to the same place one after the other, so that a write that is lost, or done again too late,
# leaves a part of another image.
write_images() {
    local number=0
    while [[ ! -e /tmp/enough ]]; do
        number=$((number % IMAGES + 1))
        dd if="/tmp/image-$number" of="$disk" bs=64k seek="$IMAGE_OFFSET" oflag=direct,seek_bytes conv=notrunc \
            status=none || return
        echo "$number" >/tmp/image-written
    done
}

image_is_the_last() {
    dd if="$disk" of=/tmp/image-read bs=64k count=32 skip="$IMAGE_OFFSET" iflag=direct,skip_bytes status=none
    cmp /tmp/image-read "/tmp/image-$(cat /tmp/image-written)"
}

end_load() {
    touch /tmp/enough
    kill -TERM "$fio" 2>/dev/null
}

# with_load COMMAND...: fio writes and verifies, beside the images, while the command runs. Not as fast as it can: the
# emulated processors have to do the rest, too.
with_load() {
    local fio images busier other
    rm -f /tmp/enough /tmp/image-written
    fio --name=load --filename="$disk" --size=24m --rw=randwrite --ioengine=libaio --direct=1 --iodepth=16 \
        --bssplit=4k/60:16k/25:128k/15 --verify=crc32c --verify_backlog=16 --verify_fatal=1 --rate_iops=200 \
        --time_based --runtime=1200 --output-format=json --output=/tmp/load.json >/tmp/load.log 2>&1 &
    fio=$!
    write_images >>/tmp/load.log 2>&1 &
    images=$!
    trap end_load EXIT
    goes_on 0 100
    "$@"
    trap - EXIT
    kill -0 "$fio"
    end_load
    wait "$images"
    # fio exits with an error when it is ended; its report has the result.
    wait "$fio" || true
    sed -i '/^{/,$!d' /tmp/load.json
    jq -c '.jobs[0] | {error, written: .write.total_ios, read: .read.total_ios}' /tmp/load.json
    jq -e '.jobs[0] | .error == 0 and .write.total_ios > 16 and .read.total_ios > 0' /tmp/load.json
    image_is_the_last
}

ana_states_are_followed() {
    local state
    for state in inaccessible non-optimized; do
        find_busier
        target ana set "$nqn" 1 optimized --port "$busier=$state"
        within_ms 30000 "$policy: path $busier $state" has_ana_state "$busier" "$state"
        has_ana_state "$other" optimized
        is_avoided "$busier"
        target ana set "$nqn" 1 optimized
        within_ms 30000 "$policy: path $busier optimized" has_ana_state "$busier" optimized
        carry_by_policy
    done
}

close_port() { target listener remove "$1"; }

open_port() { target listener add "$LISTENS" -s "${ports[$1]}" --id "$1" --advertise "$address"; }

is_back() {
    within_ms 60000 "$policy: path $1 live again" has_state "$1" live
    wait_ms 15000 "path $1 optimized" has_ana_state "$1" optimized
}

# The path that carries the load (or most of it) goes without a word to the host.
cut_is_survived() {
    find_busier
    close_port "$busier"
    within_ms 30000 "$policy: path $busier connecting" has_state "$busier" connecting
    goes_on "$other" 60
    has_state "$busier" connecting
    open_port "$busier"
    is_back "$busier"
    carry_by_policy
}

neither_carries() { is_idle 1 && is_idle 2; }

# Without a path that may be used, but with some that may come back, commands wait.
loss_of_all_is_survived() {
    local before
    target ana set "$nqn" 1 inaccessible
    wait_ms 30000 'path 1 inaccessible' has_ana_state 1 inaccessible
    wait_ms 30000 'path 2 inaccessible' has_ana_state 2 inaccessible
    wait_ms 60000 'paths without commands' neither_carries
    count
    before=${carried[0]}
    sleep 1
    count
    ((carried[0] == before))
    target ana set "$nqn" 1 optimized
    carry_by_policy
    close_port 1
    close_port 2
    wait_ms 30000 'path 1 connecting' has_state 1 connecting
    wait_ms 30000 'path 2 connecting' has_state 2 connecting
    open_port 2
    open_port 1
    is_back 1
    is_back 2
    carry_by_policy
}

check_policy() {
    policy=$1
    check "$policy is set" set_policy
    case $policy in
        numa) check 'numa: fio verify over one path' verifies_over 16 0 0 ;;
        round-robin) check 'round-robin: fio verify over both alike' verifies_over 16 40 50 ;;
        queue-depth)
            check 'queue-depth: fio verify over both' verifies_over 16 20 50
            check 'queue-depth: one at a time over one' verifies_over 1 0 5
            ;;
    esac
    check "$policy: ANA states of a path" with_load ana_states_are_followed
    check "$policy: a path is cut and comes back" with_load cut_is_survived
}

hear_outside
modprobe nvme-tcp
for ((number = 1; number <= IMAGES; number++)); do
    dd if=/dev/urandom of="/tmp/image-$number" bs=64k count=32 status=none
done
if check 'connect over two ports' connects_twice 120; then
    disk=$(wait_for_namespace "$nqn" 1)
    controllers=([1]=$(find_controller 1) [2]=$(find_controller 2))
    paths=([1]=$(find_path 1) [2]=$(find_path 2))
    check 'two paths' paths_are_optimized
    check 'one disk' is_listed_as_one
    for policy in numa round-robin queue-depth; do check_policy "$policy"; done
    check 'all paths are lost and come back' with_load loss_of_all_is_survived
    check 'still two paths' paths_are_optimized
    check 'still one disk' is_listed_as_one
    check 'disconnect' disconnects
fi
check 'kernel log has nothing but the cuts' kernel_log_is_clean "$CUT"
finish_checks
