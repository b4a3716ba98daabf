# The kernel's initiator as `selvedge tune show` sees it, beside what our target in this guest knows of the same queues
# from Connect: two controllers with 2 and with 4 I/O queues, at one address and at two, and after one was reset.
#
#   job-tune.sh PROGRAM
#
# PROGRAM is the program's name beside this job. It takes four processors, since the kernel makes no more queues than that.
. /guest-lib.sh

readonly ADDRESS=10.0.2.15 CONTROL=unix:/run/control.sock
readonly NQN=nqn.2026-01.io.selvedge:tune
# Kernel messages of a host about a target that was away.
readonly CUT='error recovery|(send request|receive failed:) +-(32|104)|connect socket: -111|Failed reconnect attempt'
declare -A queues=([a]=2 [b]=4)

# Other processes find the program by its name.
cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

write_configuration() {
    local service letter
    for service in 4420 4421; do
        printf '[[port]]\nid = %s\naddress = "%s"\nservice = %s\n' $((service - 4419)) "$ADDRESS" "$service"
    done
    for letter in a b; do
        printf '[[subsystem]]\nnqn = "%s"\nallow_any_host = true\n' "$NQN-$letter"
        printf '[[subsystem.namespace]]\nnsid = 1\nmemory = "16m"\nblock = 4096\n'
    done
}

listens() { (($(grep -c 'listening on' /tmp/target.log) == 2)) && [[ -S ${CONTROL#unix:} ]]; }

target_serves() {
    write_configuration >/tmp/target.toml
    "$selvedge" serve -c /tmp/target.toml --control "$CONTROL" </dev/null >/tmp/target.log 2>&1 &
    echo $! >/tmp/target.pid
    wait_ms 60000 'the target listens' listens || { cat /tmp/target.log; return 1; }
}

# connect LETTER PORT: the keep-alive is long because this processor is emulated, and the machine below may be busy too.
connect() {
    nvme connect -t tcp -a "$ADDRESS" -s "$2" -n "$NQN-$1" -i "${queues[$1]}" -k 60 \
        --reconnect-delay 1 --ctrl-loss-tmo 120
    wait_for_namespace "$NQN-$1" 1
}

# Queues in the target's report: NAME NQN QID HOST-END TARGET-PORT, the name as sysfs has it.
truth() {
    local controller
    "$selvedge" connection list --control "$CONTROL" -o json >/tmp/list.json
    for controller in /sys/class/nvme/nvme*; do
        jq -r --arg name "${controller##*/}" --arg cntlid "$(cat "$controller/cntlid")" \
            --arg nqn "$(cat "$controller/subsysnqn")" \
            '.. | objects | select(.subsystem? == $nqn and (.cntlid | tostring) == $cntlid) |
             .subsystem as $nqn | .queues[] | "\($name) \($nqn) \(.queue_id) \(.peer)"' /tmp/list.json
    done | sort
}

# Queues in the output of the program, in the same format.
shown() {
    jq -r '.topology.flows[] | select(.owner.kind == "kernel") |
        "\(.controller) \(.subsystem_nqn) \(.queue_id) \(.local)"' /tmp/shown.json | sort
}

look() {
    "$selvedge" tune show -o json >/tmp/shown.json
    jq -c '.topology.flows[] | select(.owner.kind == "kernel") |
        [.controller, .queue_id, .local, .peer, .source, .worker]' /tmp/shown.json
    jq -c '.topology.shortfalls' /tmp/shown.json
}

# all_are_right QUEUES: so many, none missing, none wrong, and known by more than a guess.
all_are_right() {
    look
    truth >/tmp/truth
    shown >/tmp/shown
    echo "the target knows:"
    cat /tmp/truth
    (($(wc -l </tmp/truth) == $1))
    diff /tmp/truth /tmp/shown
    jq -e '[.topology.flows[] | select(.owner.kind == "kernel") | .source] |
        all(. == "derived" or . == "kernel")' /tmp/shown.json
}

# none_is_wrong QUEUES: all are there; what is not known is called a guess.
none_is_wrong() {
    look
    truth >/tmp/truth
    echo "the target knows:"
    cat /tmp/truth
    (($(wc -l </tmp/truth) == $1))
    [[ $(jq '[.topology.flows[] | select(.owner.kind == "kernel")] | length' /tmp/shown.json) == "$1" ]]
    jq -r '.topology.flows[] | select(.owner.kind == "kernel" and .source != "guessed") |
        "\(.controller) \(.subsystem_nqn) \(.queue_id) \(.local)"' /tmp/shown.json | sort >/tmp/sure
    [[ -z $(comm -13 /tmp/truth /tmp/sure) ]]
    echo "measured: $(wc -l </tmp/sure) of $1 queues are known for sure after $2" >&3
}

# peers_are LETTER=PORT...: each controller's flows go to the port that it was connected to.
peers_are() {
    local pair
    for pair in "$@"; do
        jq -e --arg nqn "$NQN-${pair%=*}" --arg peer "$ADDRESS:${pair#*=}" \
            '[.topology.flows[] | select(.owner.kind == "kernel" and .subsystem_nqn == $nqn) | .peer] |
             length > 0 and all(. == $peer)' /tmp/shown.json
    done
}

# The target's side shows the same connections, from its end.
target_has_the_same() {
    jq -r '.topology.flows[] | select(.owner.kind == "kernel") | "\(.local) \(.peer)"' /tmp/shown.json |
        sort >/tmp/one
    jq -r '.topology.flows[] | select(.owner.kind == "target") | "\(.peer) \(.local)"' /tmp/shown.json |
        sort >/tmp/other
    diff /tmp/one /tmp/other
}

# The block layer gives each queue some processors, and each processor has one queue.
workers_are_possible() {
    jq -e '[.topology.flows[] | select(.owner.kind == "kernel" and .queue_id > 0) |
        select(.worker == null or .worker.is_movable or .worker.thread != null)] == []' /tmp/shown.json
}

without_root() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$selvedge" tune show
}

disconnect() {
    nvme disconnect -n "$NQN-$1"
    ! controller_device "$NQN-$1"
}

# both_at NAME FIRST-LETTER PORT SECOND-LETTER PORT
both_at() {
    local name=$1
    check "$name: connect 2 and 4 queues" eval "connect $2 $3; connect $4 $5" || return
    check "$name: all 8 queues are right" all_are_right 8
    check "$name: peers" peers_are "$2=$3" "$4=$5"
    check "$name: the target's side" target_has_the_same
    check "$name: workers" workers_are_possible
}

both_gone() {
    check "$1: disconnect" eval 'disconnect a; disconnect b'
}

reset_first() {
    local device
    device=$(controller_device "$NQN-a")
    nvme reset "$device"
    wait_ms 20000 'live again' grep -q live "/sys/class/nvme/${device##*/}/state"
}

has_eight() { (($(truth | wc -l) == 8)); }

# Both controllers try again, each when it likes.
target_starts_again() {
    kill -KILL "$(cat /tmp/target.pid)"
    sleep 2
    target_serves
    wait_ms 60000 'all 8 queues again' has_eight
}

# The kernel reuses the free name, while the target assigns a later identifier.
connect_first_again() {
    disconnect a
    connect a "$1"
}

hear_outside
modprobe nvme-tcp
if check 'our target serves' target_serves; then
    both_at 'one address' a 4420 b 4420
    check 'without root' without_root
    check 'one address: reset of one' reset_first
    check 'one address: none is wrong after a reset of one' none_is_wrong 8 'a reset of one'
    check 'one address: one connects again' connect_first_again 4420
    check 'one address: none is wrong after that' none_is_wrong 8 'one connected again'
    check 'one address: the target starts again' target_starts_again
    check 'one address: none is wrong after that either' none_is_wrong 8 'both connected again at once'
    both_gone 'one address'
    both_at 'one address, 4 first' b 4420 a 4420
    both_gone 'one address, 4 first'
    both_at 'two ports' a 4420 b 4421
    check 'two ports: reset of one' reset_first
    check 'two ports: all 8 queues are right after a reset of one' all_are_right 8
    check 'two ports: one connects again' connect_first_again 4420
    check 'two ports: all 8 queues are right after that' all_are_right 8
    both_gone 'two ports'
fi
check 'kernel log is clean' kernel_log_is_clean "resetting controller|$CUT"
finish_checks
