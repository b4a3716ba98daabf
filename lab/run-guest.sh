#!/usr/bin/env bash
# Boots the lab's guest under QEMU's own processor emulation, runs one job in it, and powers it off.
#
#   run-guest.sh [OPTION]... JOB [ARGUMENT]...
#   run-guest.sh [OPTION]... --shell
#
#   --timeout SECONDS   end the guest after this long (default 180)
#   --memory MIB        default 2048
#   --processors N      default 2
#   --forward H:G       connect port H of this machine's loopback to port G of the guest (repeatable)
#   --file PATH         put a file beside the job, under /job (repeatable)
#   --cards N           N more network cards, all on one wire that leads nowhere else (default 0)
#   --vhost-user PATH   a disk that the listener on this socket serves, with a queue for each processor (repeatable)
#   --zfs               with OpenZFS (build-guest.sh --zfs)
#   --console PATH      keep the guest's console there
#
# The job's output and standard input are this script's own, and its exit status becomes ours; 124 says
# that the time-out was reached, 125 that the guest ended without reporting a status. A guest whose kernel
# panics before the job begins is booted once more. The guest is 10.0.2.15 on a network of its own; 10.0.2.2
# there is this machine's loopback.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
guest=${SELVEDGE_LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/selvedge-lab}/guest${SELVEDGE_LAB_KERNEL:+-$SELVEDGE_LAB_KERNEL}
[[ ${SELVEDGE_LAB_KERNEL:-trixie} != trixie ]] || guest=${guest%-trixie}

timeout_s=180 memory_mib=2048 processors=2 cards=0 shell='' console_copy=''
forwards=() files=() sockets=() archives=("$guest/initramfs.cpio")
qemu_pid='' scratch=''

die() { printf 'run-guest.sh: %s\n' "$*" >&2; exit 2; }
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

clean_up() {
    if [[ -n $qemu_pid ]]; then
        kill "$qemu_pid" 2>/dev/null
        wait "$qemu_pid" 2>/dev/null
    fi
    [[ -z $scratch ]] || rm -rf "$scratch"
}

parse() {
    while (($#)); do
        case $1 in
            --timeout) timeout_s=${2:?}; shift 2 ;;
            --memory) memory_mib=${2:?}; shift 2 ;;
            --processors) processors=${2:?}; shift 2 ;;
            --forward) forwards+=("${2:?}"); shift 2 ;;
            --file) files+=("${2:?}"); shift 2 ;;
            --cards) cards=${2:?}; shift 2 ;;
            --vhost-user) sockets+=("${2:?}"); shift 2 ;;
            --zfs) archives+=("$guest/zfs.cpio"); shift ;;
            --console) console_copy=${2:?}; shift 2 ;;
            --shell) shell=yes; shift ;;
            -*) usage ;;
            *) break ;;
        esac
    done
    job=("$@")
    [[ -n $shell ]] || ((${#job[@]})) || usage
}

# A job may be given by its path, or by its name alone: `loopback` for lab/job-loopback.sh.
find_job() {
    local path
    for path in "$1" "$here/$1" "$here/job-$1.sh"; do
        [[ -f $path ]] && echo "$path" && return
    done
    die "there is no job $1"
}

# Files that change from run to run are in a small second archive behind the cached one; the kernel unpacks both.
write_initramfs() {
    local overlay=$scratch/overlay file path
    mkdir -p "$overlay/job"
    cp "$here/guest-init" "$overlay/init"
    cp "$here/guest-lib.sh" "$overlay/guest-lib.sh"
    chmod 755 "$overlay/init"
    if [[ -z $shell ]]; then
        path=$(find_job "${job[0]}") || exit 2
        cp "$path" "$overlay/job/run.sh"
        # All of them, because one job may run another.
        cp "$here"/job-*.sh "$overlay/job/"
        # Ended by NUL, so that an argument may hold anything.
        ((${#job[@]} == 1)) || printf '%s\0' "${job[@]:1}" >"$overlay/job/arguments"
    fi
    for file in "${files[@]}"; do cp "$file" "$overlay/job/" || exit 2; done
    (cd "$overlay" && find . -print0 | cpio --null -o -H newc --owner=+0:+0 --quiet) >"$scratch/overlay.cpio"
    cat "${archives[@]}" "$scratch/overlay.cpio" >"$scratch/initramfs" || exit 2
}

network() {
    local forward option=user,id=net0
    for forward in "${forwards[@]}"; do
        option+=,hostfwd=tcp:127.0.0.1:${forward%%:*}-:${forward##*:}
    done
    echo "$option"
}

# For network namespaces inside the guest: more cards behind its own, on a wire that no other machine is at.
add_cards() {
    local number
    for ((number = 1; number <= cards; number++)); do
        qemu+=(
            -netdev "hubport,id=wire$number,hubid=0"
            -device "virtio-net-pci,netdev=wire$number,romfile=,mac=52:54:00:77:00:0$number"
        )
    done
}

# The server of these disks reads and writes the guest's memory, which has to be shared for it.
add_disks() {
    local number version wait_option=reconnect=1
    ((${#sockets[@]})) || return 0
    # In milliseconds since QEMU 9.2, and no longer in seconds since 11.
    version=$(qemu-system-x86_64 --version | sed -n 's/^QEMU emulator version \([0-9.]*\).*/\1/p')
    if printf '9.2\n%s\n' "$version" | sort -VC; then wait_option=reconnect-ms=1000; fi
    qemu+=(
        -object "memory-backend-memfd,id=memory,size=${memory_mib}M,share=on"
        -machine memory-backend=memory
    )
    for number in "${!sockets[@]}"; do
        qemu+=(
            -chardev "socket,id=disk$number,path=${sockets[number]},$wait_option"
            -device "vhost-user-blk-pci,chardev=disk$number"
        )
    done
}

# KVM where a guest has booted with it since this machine's start: on some machines /dev/kvm opens and guests crash or hang. Elsewhere
# the emulated processor, which boots the same on every machine. SELVEDGE_LAB_ACCEL=kvm or tcg decides without a trial.
accelerator() {
    local known result=tcg
    if [[ -n ${SELVEDGE_LAB_ACCEL:-} ]]; then echo "$SELVEDGE_LAB_ACCEL"; return; fi
    [[ -r /dev/kvm && -w /dev/kvm ]] || { echo tcg; return; }
    known=$guest/accelerator-$(</proc/sys/kernel/random/boot_id)
    (
        # Guests that are started side by side wait for one trial.
        flock 9
        [[ ! -s $known ]] || exit 0
        echo 'run-guest.sh: trying whether KVM boots a guest here, for 30 s at most' >&2
        SELVEDGE_LAB_ACCEL=kvm "${BASH_SOURCE[0]}" --timeout 30 trial </dev/null >/dev/null 2>&1 && result=kvm
        echo "$result" >"$known"
        echo "run-guest.sh: guests run with $result" >&2
    ) 9>"$guest/accelerator.lock"
    cat "$known"
}

qemu_arguments() {
    local processor
    case $(accelerator) in
        kvm) processor=(-accel kvm -cpu host) ;;
        *) processor=(-accel tcg,thread=multi,tb-size=256 -cpu Westmere) ;;
    esac
    qemu=(
        -nodefaults -no-user-config -display none -no-reboot -monitor none
        -machine q35,usb=off "${processor[@]}"
        -smp "$processors" -m "$memory_mib"
        -kernel "$guest/vmlinux" -initrd "$scratch/initramfs"
        -append 'console=ttyS0 panic=-1 quiet loglevel=4 tsc=reliable no_timer_check mitigations=off nvme_core.multipath=Y'
        -device virtio-rng-pci
        -netdev "$(network)" -device virtio-net-pci,netdev=net0,romfile=
    )
    add_cards
    add_disks
    [[ -z $shell ]] || return 0
    qemu+=(
        -serial "file:$scratch/console" -device virtio-serial-pci
        -chardev "file,id=output,path=$scratch/output"
        -device virtserialport,chardev=output,name=lab.output
        -chardev "file,id=status,path=$scratch/status"
        -device virtserialport,chardev=status,name=lab.status
        -chardev stdio,id=input -device virtserialport,chardev=input,name=lab.input
    )
}

run_shell() {
    qemu-system-x86_64 "${qemu[@]}" -serial mon:stdio
    exit
}

# One boot: leaves what the guest said of the job in `status`, and in `timed_out` whether it was ended for its time.
boot() {
    local reader
    rm -f "$scratch/output" "$scratch/status" "$scratch/console"
    mkfifo "$scratch/output"
    # Opened for both, so that neither this reader nor QEMU waits for the other to open its end.
    exec 4<>"$scratch/output"
    qemu-system-x86_64 "${qemu[@]}" <&3 3<&- 4<&- >"$scratch/qemu.log" 2>&1 &
    qemu_pid=$!
    cat <"$scratch/output" 3<&- 4<&- &
    reader=$!
    while kill -0 "$qemu_pid" 2>/dev/null; do
        if ((SECONDS >= end)); then timed_out=yes; kill "$qemu_pid"; break; fi
        sleep 0.1
    done
    wait "$qemu_pid" 2>/dev/null
    qemu_pid=''
    # The last writer goes, and with it the reader, after it has passed on everything.
    exec 4<&-
    wait "$reader"
    [[ -z $console_copy ]] || cat "$scratch/console" "$scratch/qemu.log" >>"$console_copy"
    status=$(tr -cd '0-9' <"$scratch/status" 2>/dev/null)
}

# True if the kernel panicked before the job began: on a busy machine QEMU's emulation of several processors lets it do so
# now and then, while the kernel changes its own code. It says nothing of what is tried.
panicked_at_boot() {
    [[ ! -s $scratch/status ]] && grep -q 'Kernel panic' "$scratch/console" 2>/dev/null
}

run_job() {
    local end=$((SECONDS + timeout_s)) timed_out='' status=''
    # A terminal is never the job's input: QEMU would put it into raw mode.
    [[ ! -t 0 ]] || exec </dev/null
    [[ -z $console_copy ]] || : >"$console_copy"
    exec 3<&0
    boot
    if panicked_at_boot; then
        echo "run-guest.sh: the guest's kernel panicked before the job began; it is booted once more:" >&2
        grep -m 1 'Kernel panic' "$scratch/console" >&2
        boot
    fi
    exec 3<&-
    [[ -z $status ]] || exit "$status"
    {
        echo "run-guest.sh: the guest gave no status${timed_out:+ within $timeout_s s}; its console ends:"
        tail -n 30 "$scratch/console" "$scratch/qemu.log"
    } >&2
    [[ -z $timed_out ]] || exit 124
    exit 125
}

parse "$@"
command -v qemu-system-x86_64 >/dev/null || die 'QEMU is missing (Debian: qemu-system-x86 seabios)'
command -v cpio >/dev/null || die 'cpio is missing'
[[ -s $guest/vmlinux ]] || die "there is no guest in $guest: run lab/build-guest.sh"
scratch=$(mktemp -d -t selvedge-guest.XXXXXX) || exit 2
trap clean_up EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT
write_initramfs
qemu_arguments
if [[ -n $shell ]]; then run_shell; else run_job; fi
