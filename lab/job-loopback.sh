# The lab's test of itself: the kernel as initiator against the kernel as target, both inside the guest,
# by the same checks that our target has to pass. When this fails, the lab is broken and not the target.
. /guest-lib.sh

nqn=nqn.2026-01.io.selvedge:loopback
address=10.0.2.2
port=4420

# The address of the world outside, put on the loopback, so that discovery looks as it does out there.
claim_address() {
    ip addr add "$address/32" dev lo
    modprobe nvmet-tcp
    modprobe brd rd_nr=2 rd_size=65536
    modprobe loop
}

# The shape of the real run: memory, and files behind loop devices with either block size.
serve() {
    local block nsid=3 device
    nvmet_subsystem "$nqn"
    nvmet_namespace "$nqn" 1 /dev/ram0
    nvmet_namespace "$nqn" 2 /dev/ram1
    for block in 512 4096; do
        truncate -s 256M "/tmp/disk-$block"
        device=$(losetup --find --show --sector-size "$block" "/tmp/disk-$block")
        nvmet_namespace "$nqn" "$nsid" "$device"
        nsid=$((nsid + 1))
    done
    nvmet_port "$address" "$port" "$nqn"
}

check 'claim the address' claim_address
check 'nvmet serves' serve
bash /job/job-initiator.sh "$address" "$port" "$nqn" 4 offered || checks_failed=$((checks_failed + 1))
check 'nvmet removed' nvmet_remove "$nqn"
finish_checks
