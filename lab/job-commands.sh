# nvme-cli's commands against a target outside the guest, each with its expected result: what the kernel's block layer
# never sends by itself, reservations with a second host, and changes of the target while the host is connected.
#
#   job-commands.sh ADDRESS PORT NQN
#
# Namespace 1 has blocks of 512 bytes, namespace 2 of 4096, whose write protection hosts may set, and namespace 3 is hidden
# from the second host; the target lets hosts create namespaces. Requests go to the target (`target`) and to the second host
# (`second`), both outside.
. /guest-lib.sh

address=$1 port=$2 nqn=$3

second() { ask_outside second "$@"; }

# fails_with PATTERN COMMAND...: the command ends with an NVMe status of that name or number.
fails_with() {
    local pattern=$1 answer
    shift
    if answer=$("$@" 2>&1); then
        echo "it went well: $*"
        return 1
    fi
    echo "$answer"
    grep -qiE "$pattern" <<<"$answer"
}

# shows PATTERN COMMAND...: it goes well, and its output has the pattern.
shows() {
    local pattern=$1 answer
    shift
    answer=$("$@" 2>&1)
    echo "$answer"
    grep -qiE "$pattern" <<<"$answer"
}

connect() { nvme connect -t tcp -a "$address" -s "$port" -n "$nqn" -i 2 -k 60; }

id_ctrl_is_true() {
    nvme id-ctrl "$controller" -o json >/tmp/id-ctrl.json
    # Compare, Write Uncorrectable, Dataset Management, Write Zeroes, Reservations, Verify, Copy.
    jq -e '.oncs as $o | [1, 2, 4, 8, 32, 128, 256] | all(. as $bit | ($o / $bit | floor) % 2 == 1)' \
        /tmp/id-ctrl.json
    # Compare and Write as a pair; ANA reporting; namespace management.
    jq -e '.fuses % 2 == 1 and (.cmic / 8 | floor) % 2 == 1 and (.oacs / 8 | floor) % 2 == 1' /tmp/id-ctrl.json
    jq -e '.anagrpmax > 0 and .nanagrpid > 0' /tmp/id-ctrl.json
}

id_ns_is_true() {
    nvme id-ns "$controller" -n 1 -o json >/tmp/id-ns.json
    jq -e '.mssrl > 0 and .mcl > 0 and .rescap > 0 and .anagrpid == 1' /tmp/id-ns.json
}

lists_namespaces() {
    local wanted=$1
    shift
    [[ $(nvme list-ns "$controller" "$@" -o json | jq -c '[.nsid_list[].nsid]') == "$wanted" ]]
}

logs_are_read() {
    nvme smart-log "$controller"
    nvme error-log "$controller" -e 4
    nvme fw-log "$controller"
    shows 'verify|0x?0?c' nvme effects-log "$controller"
    shows 'optimized' nvme ana-log "$controller"
    nvme changed-ns-list-log "$controller"
}

errors_are_logged() {
    fails_with 'lba out of range|0x4?080' nvme read "$disk1" -s $((1 << 40)) -c 0 -z 512 -d /dev/null
    nvme error-log "$controller" -e 1 -o json >/tmp/errors.json
    jq -e '[.. | objects | select(has("error_count")) | .error_count] | max > 0' /tmp/errors.json
}

fill() { dd if=/dev/urandom of=/tmp/fill bs=64k count=1 status=none; }

write_blocks() { dd if=/tmp/fill of="$1" bs=64k seek="$2" count=1 oflag=direct conv=notrunc status=none; }

read_blocks() { dd if="$1" of=/tmp/read bs=64k skip="$2" count=1 iflag=direct status=none; }

verifies() { nvme verify "$1" -s 0 -c $((65536 / $2 - 1)); }

# copies DISK BLOCK FORMAT: two ranges of 16 KiB, taken from different places, arrive one behind the other.
copies() {
    local disk=$1 per_16k=$((16384 / $2)) per_64k=$((65536 / $2))
    fill
    write_blocks "$disk" 0
    nvme copy "$disk" -d $((4 * per_64k)) -s "$per_16k,$((3 * per_16k))" \
        -b "$((per_16k - 1)),$((per_16k - 1))" -F "$3"
    read_blocks "$disk" 4
    cmp -n 16384 -i 16384:0 /tmp/fill /tmp/read
    cmp -n 16384 -i 49152:16384 /tmp/fill /tmp/read
}

spoils_and_heals() {
    local disk=$1 per_64k=$((65536 / $2))
    nvme write-uncor "$disk" -s $((6 * per_64k)) -c 0
    fails_with 'unrecovered|0x4?281' nvme read "$disk" -s $((6 * per_64k)) -c 0 -z "$2" -d /dev/null
    fails_with 'unrecovered|0x4?281' nvme verify "$disk" -s $((6 * per_64k)) -c 0
    fill
    write_blocks "$disk" 6
    nvme verify "$disk" -s $((6 * per_64k)) -c 0
}

zeroes_and_hints() {
    local disk=$1 per_64k=$((65536 / $2))
    fill
    write_blocks "$disk" 8
    nvme write-zeroes "$disk" -s $((8 * per_64k)) -c $((per_64k / 2 - 1))
    read_blocks "$disk" 8
    cmp -n 32768 /tmp/read /dev/zero
    cmp -n 32768 -i 32768:32768 /tmp/read /tmp/fill
    nvme dsm "$disk" -s "$((8 * per_64k)),$((9 * per_64k))" -b "$per_64k,$per_64k" -d
}

compares() {
    local disk=$1
    fill
    write_blocks "$disk" 10
    nvme compare "$disk" -s $((655360 / $2)) -c $((65536 / $2 - 1)) -z 65536 -d /tmp/fill
    head -c 65536 /dev/zero >/tmp/zeroes
    fails_with 'compare failure|0x285' nvme compare "$disk" -s $((655360 / $2)) -c $((65536 / $2 - 1)) \
        -z 65536 -d /tmp/zeroes
}

check_commands() {
    local name=$1 disk=$2 block=$3
    check "$name verify" verifies "$disk" "$block"
    check "$name copy, format 0" copies "$disk" "$block" 0
    check "$name copy, format 1" copies "$disk" "$block" 1
    check "$name write-uncor" spoils_and_heals "$disk" "$block"
    check "$name write-zeroes and dsm" zeroes_and_hints "$disk" "$block"
    check "$name compare" compares "$disk" "$block"
}

features_are_set() {
    local feature
    for feature in 0x04 0x06 0x07 0x0a 0x0b 0x0f; do nvme get-feature "$controller" -f "$feature" -H; done
    nvme set-feature "$controller" -f 0x0a -V 1
    shows '0x0*1$' nvme get-feature "$controller" -f 0x0a
    nvme set-feature "$controller" -f 0x0a -V 0
}

write_protects() {
    # States that hosts may set anywhere (NWPC): Write Protect, and until a power cycle, as owners may.
    jq -e '.nwpc == 3' /tmp/id-ctrl.json
    fails_with 'changeable|0x4?10e' nvme set-feature "$controller" -n 1 -f 0x84 -V 1
    fails_with 'changeable|0x4?10e' nvme set-feature "$controller" -n 2 -f 0x84 -V 3
    second refused 10e protect 1 1
    nvme set-feature "$controller" -n 2 -f 0x84 -V 1
    shows '0x0*1$' nvme get-feature "$controller" -n 2 -f 0x84
    head -c 4096 /dev/zero >/tmp/zeroes
    fails_with 'write protected|0x4?020' nvme write "$disk2" -s 0 -c 0 -z 4096 -d /tmp/zeroes
    nvme set-feature "$controller" -n 2 -f 0x84 -V 0
    within_ms 10000 'a namespace that may be written again' \
        nvme write "$disk2" -s 0 -c 0 -z 4096 -d /tmp/zeroes
    # A host cannot lift the operator's write protection.
    target namespace set "$nqn" 2 --write-protection on
    fails_with 'changeable|0x4?10e' nvme set-feature "$controller" -n 2 -f 0x84 -V 0
    second refused 10e protect 2 0
    target namespace set "$nqn" 2 --write-protection none
    within_ms 10000 'a namespace that the operator lets be written again' \
        nvme write "$disk2" -s 0 -c 0 -z 4096 -d /tmp/zeroes
}

is_there() { namespace_device "$nqn" "$1"; }

is_gone() { ! namespace_device "$nqn" "$1"; }

has_size() { [[ $(blockdev --getsize64 "$1") == "$2" ]]; }

# The second host has what it was given, and changes nothing of this host's or the operator's.
has_its_rights_alone() {
    local made cntlid disk
    cntlid=$(jq .cntlid /tmp/id-ctrl.json)
    second lists '[1,2]'
    second refused 00b attach 3
    second refused 00b delete 3
    second refused 015 detach 1 "$cntlid"
    second refused 015 delete 1
    made=$(nvme create-ns "$controller" -s 4096 -c 4096 -f 1 -m 1 | grep -oE 'nsid: ?[0-9]+' | grep -oE '[0-9]+')
    nvme attach-ns "$controller" -n "$made" -c "$cntlid"
    disk=$(wait_for_namespace "$nqn" "$made")
    second refused 00b attach "$made"
    second refused 00b delete "$made"
    second refused 115 create 999999999
    second create 4096
    # All means its own.
    second delete 0xffffffff
    second lists '[1,2]'
    nvme resv-register "$disk" -n "$made" -k 0xa -r 0
    nvme resv-acquire "$disk" -n "$made" -c 0xa -t 2 -a 0
    second refused 00b attach "$made"
    nvme resv-release "$disk" -n "$made" -c 0xa -t 2 -a 1
    nvme delete-ns "$controller" -n "$made"
    within_ms 10000 'a namespace that was deleted' is_gone "$made"
}

# Created, attached, used, detached and deleted by this host alone.
manages_namespaces() {
    local made cntlid disk
    cntlid=$(jq .cntlid /tmp/id-ctrl.json)
    made=$(nvme create-ns "$controller" -s 16384 -c 16384 -f 1 -m 1 | grep -oE 'nsid: ?[0-9]+' | grep -oE '[0-9]+')
    echo "made $made"
    lists_namespaces '[1,2,3]'
    nvme list-ns "$controller" --all
    nvme attach-ns "$controller" -n "$made" -c "$cntlid"
    within_ms 10000 'a namespace that was attached' is_there "$made"
    disk=$(wait_for_namespace "$nqn" "$made")
    has_size "$disk" $((16384 * 4096))
    fill
    write_blocks "$disk" 0
    read_blocks "$disk" 0
    cmp /tmp/fill /tmp/read
    fails_with 'already attached|0x4?118' nvme attach-ns "$controller" -n "$made" -c "$cntlid"
    nvme detach-ns "$controller" -n "$made" -c "$cntlid"
    within_ms 10000 'a namespace that was detached' is_gone "$made"
    fails_with 'not attached|0x4?11a' nvme detach-ns "$controller" -n "$made" -c "$cntlid"
    nvme delete-ns "$controller" -n "$made"
    fails_with 'capacity|0x4?115' nvme create-ns "$controller" -s 999999999 -c 999999999 -f 1 -m 1
}

cntlid_now() { nvme id-ctrl "$controller" -o json | jq .cntlid; }

# Without a reconnect: the controller is the same one afterwards.
hot_changes() {
    local before disk
    before=$(cntlid_now)
    target namespace resize "$nqn" 1 96m
    within_ms 10000 'a new size' has_size "$disk1" $((96 << 20))
    target namespace add "$nqn" memory:32m,nsid=7
    within_ms 10000 'a hot added namespace' is_there 7
    disk=$(wait_for_namespace "$nqn" 7)
    has_size "$disk" $((32 << 20))
    target namespace remove "$nqn" 7
    within_ms 10000 'a namespace that was removed' is_gone 7
    [[ $(cntlid_now) == "$before" ]]
}

ana_log_shows() { shows "$1" nvme ana-log "$controller"; }

ana_changes() {
    local state
    for state in non-optimized optimized; do
        target ana set "$nqn" 1 "$state"
        within_ms 10000 "ANA state $state" ana_log_shows "$state"
    done
    read_blocks "$disk1" 0
}

# A disk of this subsystem in the second guest, which calls it the same.
reserves() {
    nvme resv-register "$disk1" -n 1 -k 0xa -r 0
    nvme resv-acquire "$disk1" -n 1 -c 0xa -t 1 -a 0
    nvme resv-report "$disk1" -n 1 -e -d 64 -o json >/tmp/report.json
    cat /tmp/report.json
    jq -e '.regctl == 1 and .rtype == 1' /tmp/report.json
    fails_with '' second write
    second read
    fails_with '' second release
    second register
    shows '"regctl" ?: ?2' nvme resv-report "$disk1" -n 1 -e -d 64 -o json
    # Registered, but the reservation is another's: still no write.
    fails_with '' second write
    second preempt
    second write
    head -c 512 /dev/zero >/tmp/zeroes
    fails_with 'reservation conflict|0x4?083' nvme write "$disk1" -s 0 -c 0 -z 512 -d /tmp/zeroes
    nvme read "$disk1" -s 0 -c 0 -z 512 -d /dev/null
    second release
    nvme write "$disk1" -s 0 -c 0 -z 512 -d /tmp/zeroes
    second clear
    shows '"regctl" ?: ?0' nvme resv-report "$disk1" -n 1 -e -d 64 -o json
}

resets() {
    nvme reset "$controller"
    within_ms 30000 'a controller after its reset' shows live cat "/sys/class/nvme/${controller##*/}/state"
    within_ms 30000 'a read after the reset' nvme read "$disk1" -s 0 -c 0 -z 512 -d /dev/null
    nvme ns-rescan "$controller"
}

disconnect() {
    nvme disconnect -n "$nqn"
    ! controller_device "$nqn"
}

hear_outside
modprobe nvme-tcp
if check 'connect' connect; then
    controller=$(controller_device "$nqn")
    disk1=$(wait_for_namespace "$nqn" 1)
    disk2=$(wait_for_namespace "$nqn" 2)
    check 'id-ctrl' id_ctrl_is_true
    check 'id-ns' id_ns_is_true
    check 'ns-descs' nvme ns-descs "$controller" -n 1
    check 'list-ns' lists_namespaces '[1,2,3]'
    check 'show-regs' nvme show-regs "$controller"
    check 'smart-log error-log fw-log effects-log ana-log changed-ns-list-log' logs_are_read
    check 'error-log has what failed' errors_are_logged
    check 'get-feature set-feature' features_are_set
    check_commands 'memory, 512:' "$disk1" 512
    check_commands 'file, 4096:' "$disk2" 4096
    check 'write protection' write_protects
    check 'create-ns attach-ns detach-ns delete-ns' manages_namespaces
    check 'a second host with fewer rights' has_its_rights_alone
    check 'resize, hot add and remove' hot_changes
    check 'ANA states' ana_changes
    check 'reservations with a second host' reserves
    check 'reset ns-rescan' resets
    check 'disconnect' disconnect
fi
finish_checks
