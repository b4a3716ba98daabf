# Commands of a kernel host for a recording: discovery, both digests, each kind of I/O command, a reservation,
# a reset. The target is crates/engine/examples/record.rs.
#
#   job-record.sh ADDRESS PORT NQN
. /guest-lib.sh

address=$1 port=$2 nqn=$3
readonly HOST_ID=5e17ed9e-0000-4000-8000-000000000001
host=(-q "nqn.2014-08.org.nvmexpress:uuid:$HOST_ID" -I "$HOST_ID")

discover() { nvme discover -t tcp -a "$address" -s "$port" "${host[@]}"; }

connect() { nvme connect -t tcp -a "$address" -s "$port" -n "$nqn" -i 2 "$@" "${host[@]}"; }

moves_data() {
    local disk=$1 block=$2
    # Repeated bytes make a short recording.
    head -c 16384 < <(yes "block of $disk") >/tmp/some
    dd if=/tmp/some of="$disk" bs="$block" oflag=direct
    dd if="$disk" of=/tmp/read bs=16384 count=1 iflag=direct
    cmp /tmp/some /tmp/read
    nvme flush "$disk"
    nvme write-zeroes "$disk" -s 1 -c 0
    nvme dsm "$disk" -d -s 2 -b 1
    nvme compare "$disk" -s 0 -c 0 -z "$block" -d /tmp/some
    nvme verify "$disk" -s 0 -c 3
}

reserves() {
    local disk=$1
    nvme resv-register "$disk" -n 1 -k 0xa -r 0
    nvme resv-acquire "$disk" -n 1 -c 0xa -t 1 -a 0
    nvme resv-report "$disk" -n 1 -e 1
    nvme resv-release "$disk" -n 1 -c 0xa -t 1 -a 0
    nvme resv-register "$disk" -n 1 -c 0xa -k 0 -r 1
}

modprobe nvme-tcp
check 'discover' discover
for digests in '' '-g -G'; do
    # shellcheck disable=SC2086
    check "connect $digests" connect $digests
    disk=$(wait_for_namespace "$nqn" 1)
    check "data, 512 $digests" moves_data "$disk" 512
    check "data, 4096 $digests" moves_data "$(wait_for_namespace "$nqn" 2)" 4096
    if [[ -z $digests ]]; then
        check 'reservation' reserves "$disk"
        check 'reset' nvme reset "$(controller_device "$nqn")"
        check "data after a reset" moves_data "$(wait_for_namespace "$nqn" 1)" 512
    fi
    check "disconnect $digests" nvme disconnect -n "$nqn"
done
finish_checks
