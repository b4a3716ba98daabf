# `attach serve` with a block device and an NBD server in one file: killed, and taken over by the next one, or by `attach recover`.
#
#   job-attach-serve.sh PROGRAM
#
# PROGRAM is the program's name beside this job. Both ends are in the guest.
. /guest-lib.sh

readonly NQN=nqn.2026-01.io.selvedge:serve PORT=4420
readonly DISK=/dev/ublkb0 BYTES=$((8 << 20))

cp "/job/$1" /tmp/selvedge
selvedge=/tmp/selvedge

write_configurations() {
    cat >/tmp/target.toml <<TOML
[[port]]
address = "127.0.0.1:$PORT"
[[subsystem]]
nqn = "$NQN"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
memory = "64m"
block = 4096
[[subsystem.namespace]]
nsid = 2
memory = "48m"
block = 512
TOML
    cat >/tmp/attach.toml <<TOML
[defaults]
traddr = "127.0.0.1"
trsvcid = $PORT
nqn = "$NQN"
keep_alive_tmo = 10
[disk.block]
ublk = true
[disk.net]
nsid = 2
nbd = "unix:/tmp/net.nbd"
TOML
}

# attach WORD...: and the block device is there.
attach() {
    : >/tmp/attach.log
    "$selvedge" attach "$@" >/tmp/attach.log 2>&1 &
    echo $! >/tmp/attach.pid
    wait_ms 120000 'the block device is there' grep -q "^$DISK" /tmp/attach.log || true
    cat /tmp/attach.log
    grep -q "^$DISK" /tmp/attach.log
}

serves_both() {
    attach serve --config /tmp/attach.toml
    wait_ms 60000 'the NBD server is there' grep -q '^nbd+unix' /tmp/attach.log
    "$selvedge" attach list
}

starts() {
    write_configurations
    serve_again /tmp/target.toml "$PORT"
    modprobe ublk_drv
    wait_ms 30000 'the driver is there' test -e /dev/ublk-control
    serves_both
    dd if=/dev/urandom of=/tmp/data bs=1M count=8 status=none
    dd if=/tmp/data of=$DISK bs=1M oflag=direct status=none
}

kill_attach() {
    kill -KILL "$(cat /tmp/attach.pid)"
    wait_ms 30000 'attach is dead' has_ended /tmp/attach.pid
    "$selvedge" attach list | grep "$DISK.*its process is gone: selvedge attach recover"
}

is_taken_over() {
    kill_attach
    serves_both
    cmp -n $BYTES /tmp/data $DISK
}

is_recovered() {
    kill_attach
    attach recover
    cmp -n $BYTES /tmp/data $DISK
}

ends() {
    kill -TERM "$(cat /tmp/attach.pid)"
    wait_ms 60000 'attach ends' has_ended /tmp/attach.pid
    cat /tmp/attach.log
    # The socket of the killed process for NBD clients is listed until it is detached.
    "$selvedge" attach list | grep '/tmp/net.nbd.*its process is gone'
    "$selvedge" attach detach all
    [[ ! -e $DISK && ! -e /tmp/net.nbd && -z $(ls /run/selvedge-attach/attach) ]]
}

check 'both disks of a file are served' starts
check 'the next one takes over' is_taken_over
check 'recover takes over' is_recovered
check 'nothing is left' ends
finish_checks
