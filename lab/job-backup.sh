# Requests of 32 MiB as backup programs make them, by the kernel's host beside a load of 4 KiB, all
# verified: to our target, and for comparison to nvmet. The block layer may make commands as large
# as the target permits (MDTS), and nvmet states no limit.
#
#   job-backup.sh PROGRAM [DURATION [TARGET]...]
#
# PROGRAM is the program's name beside this job, DURATION the seconds of load for each target.
# Targets: `memory` and `file` are ours; `nvmet`; `nvmet-mdts` states 1 MiB where its kernel can
# (since Linux 7.1), and elsewhere the host is limited to as much, as users of nvmet do. Ours must
# be without errors; those of nvmet are counted only. Both ends are in the guest, on its loopback.
. /guest-lib.sh

readonly NQN=nqn.2026-01.io.selvedge:backup PORT=4420
readonly DURATION_S=${2:-15}
readonly SIZE_MIB=384
# Exponent of 4 KiB pages, 1 MiB: nvmet-mdts gets what our target states.
readonly MDTS=8
readonly PARAM_MDTS=$nvmet/ports/1/param_mdts
targets=("${@:3}")
((${#targets[@]})) || targets=(memory file nvmet nvmet-mdts)

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

is_ours() { [[ $1 != nvmet* ]]; }

ours_serves() {
    local namespace=memory:${SIZE_MIB}m
    [[ $1 == memory ]] || namespace=file:/tmp/disk,size=${SIZE_MIB}m
    serve_namespace "$NQN" "$PORT" "$namespace"
}

nvmet_serves() {
    modprobe nvmet-tcp
    modprobe brd rd_nr=1 rd_size=$((SIZE_MIB << 10))
    # Only a port without subsystems takes it.
    mkdir -p "$nvmet/ports/1"
    if [[ $1 == nvmet-mdts && -e $PARAM_MDTS ]]; then echo "$MDTS" >"$PARAM_MDTS"; fi
    nvmet_subsystem "$NQN"
    nvmet_namespace "$NQN" 1 /dev/ram0
    nvmet_port 127.0.0.1 "$PORT" "$NQN"
}

serves() { if is_ours "$1"; then ours_serves "$1"; else nvmet_serves "$1"; fi; }

connects() {
    be_patient
    nvme connect -t tcp -a 127.0.0.1 -s "$PORT" -n "$NQN" -i 2 -k 60
    wait_for_namespace "$NQN" 1
}

# The disk's queue and that of its path, which the kernel may hide behind it.
raises_limits() {
    local queue most
    for queue in "/sys/block/${disk##*/}/queue" "$controller"/nvme*n*/queue; do
        most=$(cat "$queue/max_hw_sectors_kb")
        if [[ $1 == nvmet-mdts ]] && ((most > 4 << MDTS)); then most=$((4 << MDTS)); fi
        echo "$most" >"$queue/max_sectors_kb"
        echo "$queue: $(cat "$queue/max_sectors_kb") KiB"
    done
}

read_limits() {
    mdts=$(nvme id-ctrl "/dev/${controller##*/}" -o json | jq .mdts)
    max_hw_kb=$(cat "/sys/block/${disk##*/}/queue/max_hw_sectors_kb")
    max_kb=$(cat "/sys/block/${disk##*/}/queue/max_sectors_kb")
}

# Without a stated limit, the host's is that of the block layer.
host_knows_the_limit() {
    echo "MDTS $mdts, max_hw_sectors_kb $max_hw_kb, max_sectors_kb $max_kb"
    ((mdts > 0 && max_hw_kb == 4 << mdts && max_kb == max_hw_kb))
}

# Errors are counted and do not end the load. Jobs have regions of their own, and compare each block
# soon after it was written.
runs_load() {
    timeout $((DURATION_S * 5 + 900)) fio --output-format=json --output=/tmp/load.json \
        --name=global --filename="$disk" --ioengine=libaio --direct=1 --verify=crc32c \
        --continue_on_error=all --time_based --runtime="$DURATION_S" \
        --name=large --rw=write --bs=32m --numjobs=3 --size=96m --offset_increment=96m \
        --iodepth=2 --verify_backlog=2 \
        --name=small --rw=randrw --bs=4k --offset=288m --size=64m --iodepth=16 \
        --verify_backlog=64 >/tmp/load.log 2>&1 || tail -n 5 /tmp/load.log
    # Lines before the report are for people.
    sed -n '/^{/,$p' /tmp/load.json >/tmp/load.report
    jq -e '.jobs | length == 4' /tmp/load.report
}

# figure NAME FILTER: a figure of fio's report, summed over the jobs of this name.
figure() {
    jq --arg name "$1" "[.jobs[] | select(.jobname == \$name) | $2] | add" /tmp/load.report
}

count() {
    local requests='.read.total_ios + .write.total_ios'
    # The error number of a job that an error has ended counts as one.
    local errors='[.total_err // 0, if .error == 0 then 0 else 1 end] | max'
    large=$(figure large "$requests") large_errors=$(figure large "$errors")
    small=$(figure small "$requests") small_errors=$(figure small "$errors")
    echo "measured: $1: $large requests of 32 MiB, $large_errors errors;" \
        "$small of 4 KiB, $small_errors errors;" \
        "MDTS $mdts, max_hw_sectors_kb $max_hw_kb, max_sectors_kb $max_kb"
}

has_no_error() {
    ((large > 0 && small > 0 && large_errors == 0 && small_errors == 0)) ||
        { tail -n 20 /tmp/load.log; return 1; }
}

stops() {
    nvme disconnect -n "$NQN"
    not controller_device "$NQN"
    if is_ours "$1"; then
        end_target
        rm -f /tmp/disk
    else
        nvmet_remove "$NQN"
        rmmod brd
    fi
}

try_target() {
    local controller disk mdts max_hw_kb max_kb large small large_errors small_errors
    dmesg -C
    check "$1 serves" serves "$1" || return
    check "$1: the kernel connects" connects || return
    disk=$(namespace_device "$NQN" 1)
    controller=/sys/class/nvme/$(basename "$(controller_device "$NQN")")
    check "$1: limits raised" raises_limits "$1"
    read_limits
    if is_ours "$1"; then check "$1: the host knows the limit" host_knows_the_limit; fi
    if check "$1: $DURATION_S s of load" runs_load; then
        count "$1"
        tell_io_errors "$1"
        if is_ours "$1"; then
            check "$1: no error" has_no_error
            check "$1: kernel log is clean" kernel_log_is_clean
        fi
    fi
    check "$1 stops" stops "$1"
}

modprobe nvme-tcp
for target in "${targets[@]}"; do try_target "$target"; done
finish_checks
