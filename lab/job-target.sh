# The Linux kernel's own target, for an initiator outside the guest: one subsystem with a RAM disk as
# namespace 1 and a null block device as namespace 2.
#
#   job-target.sh PORT NQN
#
# Prints `ready for hosts` when it listens. It serves until a line, or the end, comes on its standard
# input, and then looks whether the kernel has complained.
. /guest-lib.sh

port=$1 nqn=$2

serve() {
    modprobe nvmet-tcp
    modprobe brd rd_nr=1 rd_size=65536
    modprobe null_blk nr_devices=1 gb=1
    nvmet_subsystem "$nqn"
    nvmet_namespace "$nqn" 1 /dev/ram0
    nvmet_namespace "$nqn" 2 /dev/nullb0
    nvmet_port 0.0.0.0 "$port" "$nqn"
}

if check 'nvmet serves' serve; then
    echo 'ready for hosts'
    read -r _
    check 'nvmet removed' nvmet_remove "$nqn"
fi
check 'kernel log is clean' kernel_log_is_clean
finish_checks
