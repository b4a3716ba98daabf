# Functions of the guest's jobs: checks that print `ok NAME` or `FAIL NAME`, requests to the machine outside, the search for a
# namespace's block device, and the kernel's own target (nvmet) through configfs. Sourced, inside the guest only.

checks_failed=0
checks_passed=0
nvmet=/sys/kernel/config/nvmet

# check NAME COMMAND...: runs a command or function, which ends at its first failing step. The output is
# shown when it fails, together with the step that failed.
check() {
    local name=$1 output status
    shift
    # Never the condition of an `if`: there the shell would ignore set -e inside.
    output=$(
        exec 2>&1
        set -eE -o pipefail
        trap 'echo "this failed: $BASH_COMMAND"' ERR
        "$@"
    )
    status=$?
    if ((status == 0)); then
        checks_passed=$((checks_passed + 1))
        echo "ok $name"
    else
        checks_failed=$((checks_failed + 1))
        echo "FAIL $name"
        sed 's/^/    /' <<<"$output"
    fi
    return "$status"
}

# not COMMAND...: a step that has to fail. The shell's own `!` never ends a check.
not() { if "$@"; then return 1; fi; }

# The last step of a job: its status is the job's.
finish_checks() {
    echo "checks: $checks_passed ok, $checks_failed failed, $(cut -d' ' -f1 /proc/uptime) s since boot"
    ((checks_failed == 0))
}

# Requests to the machine outside go to the output, `ask N WHOM WORDS`, and `N STATUS` on the input is the reply. Checks redirect
# both, and the job's own are kept here before the first check.
hear_outside() { exec 3>&1 4<&0; }

# ask_outside WHOM WORDS...: the status is that of what was asked for. Checks run in subshells, so that the count
# is kept in a file.
ask_outside() {
    local number answered status
    number=$(($(cat /tmp/asked 2>/dev/null || echo 0) + 1))
    echo "$number" >/tmp/asked
    echo "ask $number $*" >&3
    while read -r -t 120 -u 4 answered status; do
        if [[ $answered == "$number" ]]; then return "$status"; fi
    done
    echo "no reply: $*"
    return 1
}

# target WORDS...: a command line of the program, about the target that serves us.
target() { ask_outside target "$@"; }

# The time in milliseconds, of which only differences mean something.
now_ms() { now=$((${EPOCHREALTIME/./} / 1000)); }

# wait_ms LIMIT WHAT COMMAND...: waits until the command succeeds.
wait_ms() {
    local limit=$1 what=$2 now end
    shift 2
    now_ms
    end=$((now + limit))
    while ! "$@" >/dev/null 2>&1; do
        now_ms
        ((now < end)) || { echo "$what: not within $limit ms"; return 1; }
        sleep 0.02
    done
}

# within_ms LIMIT WHAT COMMAND...: the same, and says how long that took.
within_ms() {
    local now began
    now_ms
    began=$now
    wait_ms "$@" || return
    now_ms
    echo "measured: $2 after $((now - began)) ms" >&3
}

# namespace_device NQN NSID: /dev/nvme0nX numbers follow the order of scanning, so sysfs is asked.
namespace_device() {
    local block
    for block in /sys/block/nvme*n*; do
        # The hidden disk of one path (nvme0c0n1) has a number of its own.
        [[ ${block##*/} == nvme*c*n* ]] && continue
        [[ $(cat "$block/nsid" 2>/dev/null) == "$2" ]] || continue
        [[ $(cat "$block/device/subsysnqn" 2>/dev/null) == "$1" ]] || continue
        echo "/dev/${block##*/}"
        return
    done
    return 1
}

# wait_for_namespace NQN NSID: the scan runs after `nvme connect` has returned.
wait_for_namespace() {
    local try device
    for try in {1..150}; do
        device=$(namespace_device "$@") && [[ -b $device ]] && echo "$device" && return
        sleep 0.1
    done
    echo "no block device for namespace $2 of $1 after 15 s" >&2
    return 1
}

# controller_device NQN: the character device of the (first) controller of a subsystem.
controller_device() {
    local controller
    for controller in /sys/class/nvme/nvme*; do
        [[ $(cat "$controller/subsysnqn" 2>/dev/null) == "$1" ]] && echo "/dev/${controller##*/}" && return
    done
    echo "no controller of $1" >&2
    return 1
}

# The kernel's host waits ten minutes for an I/O command: this processor is emulated, the machine
# below may be busy too, and queues are full. Hosts have a long keep-alive for the same reason.
be_patient() { echo 600 >/sys/module/nvme_core/parameters/io_timeout; }

# kernel_log_is_clean [PROVOKED]: no error may be in the log but those of the pattern, which the job has provoked.
kernel_log_is_clean() {
    local found provoked=${1:-^$}
    # In capitals: an emulated timer that is late at boot is an "MP-BIOS bug" of no concern.
    found=$(dmesg | grep -E '[nN][vV][mM][eE].*([tT]imeout|[eE]rror|[fF]ail|[rR]eset)|I/O error|Call Trace|BUG:|WARNING:' |
        grep -vE "$provoked" || true)
    [[ -z $found ]] || { echo "$found"; return 1; }
}

# tell_io_errors NAME: how often the kernel has logged each kind of failed command, at either end.
tell_io_errors() {
    local times text
    dmesg | grep -oE 'failed to map data|I/O Error \([^)]*\)' | sort | uniq -c |
        while read -r times text; do echo "measured: $1: the kernel says $times times: $text"; done
}

# nvmet_subsystem NQN: any host may connect.
nvmet_subsystem() {
    mkdir -p "$nvmet/subsystems/$1"
    echo 1 >"$nvmet/subsystems/$1/attr_allow_any_host"
}

# nvmet_namespace NQN NSID DEVICE
nvmet_namespace() {
    local namespace=$nvmet/subsystems/$1/namespaces/$2
    mkdir -p "$namespace"
    echo -n "$3" >"$namespace/device_path"
    echo 1 >"$namespace/enable"
}

# nvmet_port ADDRESS PORT NQN [TSAS [TREQ]]: one TCP port that offers one subsystem, by TLS where TSAS is tls1.3, and in clear
# too where TREQ is `not required`.
nvmet_port() {
    local port=$nvmet/ports/1
    mkdir -p "$port"
    echo tcp >"$port/addr_trtype"
    # Behind the transport, which resets it.
    [[ -z ${4:-} ]] || echo "$4" >"$port/addr_tsas"
    [[ -z ${5:-} ]] || echo "$5" >"$port/addr_treq"
    echo ipv4 >"$port/addr_adrfam"
    echo "$1" >"$port/addr_traddr"
    echo "$2" >"$port/addr_trsvcid"
    ln -s "$nvmet/subsystems/$3" "$port/subsystems/$3"
}

# nvmet_remove NQN: the reverse of the three above.
nvmet_remove() {
    local namespace
    rm -f "$nvmet/ports/1/subsystems/$1"
    for namespace in "$nvmet/subsystems/$1"/namespaces/*; do
        [[ -d $namespace ]] || continue
        echo 0 >"$namespace/enable"
        rmdir "$namespace"
    done
    rmdir "$nvmet/subsystems/$1" "$nvmet/ports/1"
}

# A host with two paths. A job that has one sets `address`, `nqn` and `ports`, by the paths' numbers 1 and 2, and once they
# are connected `controllers` and `paths`.

# The controller that goes to a port, in sysfs.
find_controller() {
    local controller
    for controller in /sys/class/nvme/nvme*; do
        [[ $(cat "$controller/subsysnqn") == "$nqn" ]] || continue
        [[ $(cat "$controller/address") == *"trsvcid=${ports[$1]}"* ]] && echo "$controller" && return
    done
    echo "no controller goes to port ${ports[$1]}" >&2
    return 1
}

# The disk of one path, which the kernel hides behind the common one.
find_path() {
    local path
    for path in "$(find_controller "$1")"/nvme*c*n*; do [[ -e $path/ana_state ]] && echo "$path" && return; done
    return 1
}

# holds FILE WORD. What is asked for again and again starts no programs, which take long here.
holds() {
    local word
    read -r word <"$1" && [[ $word == "$2" ]]
}

has_state() { holds "${controllers[$1]}/state" "$2"; }

has_ana_state() { holds "${paths[$1]}/ana_state" "$2"; }

# connects_twice SECONDS: so long a path may be away. The keep-alive is long because this processor is emulated, and the
# machine below may be busy too.
connects_twice() {
    local number
    for number in 1 2; do
        nvme connect -t tcp -a "$address" -s "${ports[$number]}" -n "$nqn" -i 2 -k 60 \
            --reconnect-delay 2 --ctrl-loss-tmo "$1"
    done
    wait_for_namespace "$nqn" 1
    for number in 1 2; do wait_ms 15000 "path $number" find_path "$number"; done
}

# All controllers show one disk.
is_one_disk() {
    local entry
    local -a shown=() hidden=()
    for entry in /sys/block/nvme*n*; do
        if [[ ${entry##*/} == nvme*c*n* ]]; then hidden+=("$entry"); else shown+=("$entry"); fi
    done
    echo "shown: ${shown[*]}; hidden: ${hidden[*]}"
    ((${#shown[@]} == 1 && ${#hidden[@]} == ${#ports[@]}))
}

disconnects() {
    nvme disconnect -n "$nqn"
    ! controller_device "$nqn"
}

# serve_again FILE PORT: our target, `$selvedge`, serves what FILE says. It may have been killed before.
serve_again() {
    # By it a disk is the same one after a restart.
    echo 5e17ed9e00004000800000000000000a >/etc/machine-id
    : >/tmp/target.log
    "$selvedge" serve -c "$1" --control unix:/tmp/control.sock >/tmp/target.log 2>&1 &
    echo $! >/tmp/target.pid
    wait_ms 120000 'our target listens' grep -q "listening on 127.0.0.1:$2" /tmp/target.log
}

# serve_namespace NQN PORT NAMESPACE: our target, `$selvedge`, serves one namespace on the loopback.
serve_namespace() {
    : >/tmp/target.log
    "$selvedge" serve -a 127.0.0.1 -s "$2" -n "$1" --allow-any-host --namespace "$3" \
        </dev/null >/tmp/target.log 2>&1 &
    echo $! >/tmp/target.pid
    wait_ms 120000 'our target listens' grep -q 'listening on' /tmp/target.log ||
        { cat /tmp/target.log; return 1; }
}

end_target() {
    kill -TERM "$(cat /tmp/target.pid)"
    wait_ms 60000 'our target ends' has_ended /tmp/target.pid
}

kill_target() {
    kill -KILL "$(cat /tmp/target.pid)"
    wait_ms 30000 'our target is dead' has_ended /tmp/target.pid
}

# has_ended FILE: the process whose number is in it.
has_ended() { ! kill -0 "$(cat "$1")" 2>/dev/null; }
