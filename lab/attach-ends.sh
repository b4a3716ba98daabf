#!/usr/bin/env bash
# Processes of `selvedge attach` end at any moment and in every way while others use their disks, and leave nothing behind.
#
#   attach-ends.sh PROGRAM ENDS [guest]
#
# ENDS is how often. The users are fio, qemu-io and nbdcopy over NBD; with `guest` also the lab's guest, whose one disk is served
# by one process after the other over vhost-user, and whose fio must see no error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$(realpath "$1") ends=$2 guest=${3:-}
readonly NQN=nqn.2026-01.io.selvedge:ends WAYS=(INT TERM detach KILL)
world=$(mktemp -d) target='' attached='' user='' guest_pid=''
export RUNTIME_DIRECTORY=$world/run

die() { printf 'attach-ends.sh: %s\n' "$*" >&2; cat "$world"/*.log >&2; exit 1; }

clean_up() {
    local pid
    for pid in $user $attached $target; do kill -KILL "$pid" 2>/dev/null || true; done
    # It ends its emulator, which would go on without it.
    [[ -z $guest_pid ]] || kill -TERM "$guest_pid" 2>/dev/null || true
    [[ -z $guest_pid ]] || wait "$guest_pid" 2>/dev/null || true
    rm -rf "$world"
}

# within SECONDS COMMAND...
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.05
    done
}

has_ended() { ! kill -0 "$1" 2>/dev/null; }
listens() { grep -qs '^listening on' "$world/target.log"; }
is_program() { [[ /proc/$attached/exe -ef $program ]] || has_ended "$attached"; }
is_attached() { grep -q "$1" "$world/attach.log" || has_ended "$attached"; }

serve() {
    (cd "$world" && exec "$program" serve -s 0 -n "$NQN" --control "unix:$world/control.sock" --reactors 1 --state-dir state \
        --namespace memory:64m --namespace memory:64m) >"$world/target.log" 2>&1 &
    target=$!
    disown
    within 20 listens || die 'the target does not listen'
    port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$world/target.log" | head -n 1)
}

# A shell has those in the background ignore SIGINT, until they say that they do not. A signal that comes before the program is
# loaded is the shell's, and lost.
attach() {
    env --default-signal=INT "$program" attach -a 127.0.0.1 -s "$port" -n "$NQN" -k 10 "$@" >"$world/attach.log" 2>&1 &
    attached=$!
    within 30 is_program || die 'the program is not loaded'
}

# Uses the disk until it is gone.
use() {
    local uri="nbd+unix:///1?socket=$world/disk.nbd"
    case $((RANDOM % 3)) in
        0) exec fio --name=w --ioengine=nbd --uri="$uri" --rw=randrw --bs=4k --iodepth=16 --time_based --runtime=600 --size=32m ;;
        1) exec nbdcopy --connections=2 /dev/urandom "$uri" ;;
        2) exec qemu-io -f raw "$uri" < <(yes 'aio_write -P 7 1M 2M') ;;
    esac
}

# end WAY SOCKET: the process ends so. One that is killed leaves what a later one has to know, and what `detach` takes away.
end() {
    local kept
    case $1 in
        detach) "$program" attach detach "$2" >"$world/detach.log" 2>&1 || kill -TERM "$attached" 2>/dev/null || true ;;
        *) kill "-$1" "$attached" 2>/dev/null || true ;;
    esac
    within 30 has_ended "$attached" || die "it did not end by $1"
    wait "$attached" || true
    if [[ $1 == KILL ]]; then
        # Never all: this machine may have others.
        "$program" attach detach "$2" >"$world/detach.log" 2>&1 || grep -q 'not attached' "$world/detach.log" ||
            die 'what is left was not detached'
        # One that was killed before it had written anything down has left its socket to the next one.
        [[ ! -S $2 || $(stat -c %Y "$2") -ge $began ]] || die "$2 is an old one"
    else
        [[ ! -e $2 ]] || die "$2 is left by $1"
        kept=$(compgen -G "$RUNTIME_DIRECTORY/*.controllers" || true)
        [[ -z $kept ]] || [[ -n ${is_killed:-} ]] || die "$kept is left by $1"
    fi
    [[ -z $(ls "$RUNTIME_DIRECTORY/attach" 2>/dev/null) ]] || die "a record is left by $1"
    attached=''
}

over_nbd() {
    local way=$1
    attach --nbd "unix:$world/disk.nbd"
    # Some end while they connect.
    if ((RANDOM % 4)); then within 60 is_attached '^nbd'; fi
    use >"$world/user.log" 2>&1 &
    user=$!
    sleep "0.$((RANDOM % 10))"
    end "$way" "$world/disk.nbd"
    # Some programs wait for ever for one that is gone.
    within 1 has_ended "$user" || kill -KILL "$user"
    wait "$user" || true
    user=''
}

over_vhost_user() {
    attach --nsid 2 --vhost-user "$world/disk.vhost"
    within 60 is_attached '^vhost-user'
    sleep "$((RANDOM % 3)).$((RANDOM % 10))"
    end "$1" "$world/disk.vhost"
}

guest_uses_its_disk() {
    mkfifo "$world/word"
    "$here/run-guest.sh" --timeout 1800 --memory 1024 --vhost-user "$world/disk.vhost" attach-ends <"$world/word" \
        >"$world/guest.log" 2>&1 &
    guest_pid=$!
    exec 9>"$world/word"
    attach --nsid 2 --vhost-user "$world/disk.vhost"
    within 240 grep -q 'disk in use' "$world/guest.log" || die 'the guest uses no disk'
    end TERM "$world/disk.vhost"
}

guest_is_done() {
    attach --nsid 2 --vhost-user "$world/disk.vhost"
    echo enough >&9
    wait "$guest_pid" || die 'the guest has seen an error'
    guest_pid=''
    cat "$world/guest.log"
    end TERM "$world/disk.vhost"
}

trap clean_up EXIT
trap 'exit 130' INT TERM
mkdir -m 700 "$RUNTIME_DIRECTORY"
serve
[[ -z $guest ]] || guest_uses_its_disk
for ((round = 1; round <= ends; round++)); do
    way=${WAYS[RANDOM % 4]} began=$(date +%s)
    [[ $way != KILL ]] || is_killed=yes
    if [[ -n $guest ]] && ((round % 2)); then over_vhost_user "$way"; else over_nbd "$way"; fi
    ((round % 10)) || echo "$round ends"
done
[[ -z $guest ]] || guest_is_done
# The next ones in order bring the controllers of those to rest that were killed.
for nsid in 1 2; do
    attach --nsid "$nsid" --nbd "unix:$world/disk.nbd"
    within 60 is_attached '^nbd'
    within 60 eval "! ls $RUNTIME_DIRECTORY/*.controllers | sed -n 2p | grep -q ." || true
    end TERM "$world/disk.nbd"
done
[[ -z $(compgen -G "$RUNTIME_DIRECTORY/*.controllers") ]] || die "controllers are left: $(ls "$RUNTIME_DIRECTORY")"
[[ $(ls -A "$RUNTIME_DIRECTORY") == attach ]] || die "something is left: $(ls -A "$RUNTIME_DIRECTORY")"
echo "ok $ends ends"
