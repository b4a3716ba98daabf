#!/usr/bin/env bash
# A whole Debian with systemd, under QEMU's own processor emulation, in which packages are installed and reboots are real.
#
#   installed-guest.sh build SUITE
#   installed-guest.sh disk SUITE
#   installed-guest.sh run [--drive DRIVE | --vhost-user SOCKET] SUITE JOB [FILE]...
#
# SUITE is bookworm or trixie. `run` starts a fresh copy, and runs JOB in it at the end of each boot, with the number of the
# boot as its argument and the FILEs beside it, below /job. A job that prints the line `again` is run again after a reboot;
# its exit status otherwise becomes ours. 124 says that a boot did not end in time, 125 that it ended without a status.
# With --drive (QEMU's -drive) or --vhost-user the guest's disk is elsewhere, and a copy of the file that `disk` names.
# Building takes root and mmdebstrap; the result is kept, and made again when this script changes.
set -euo pipefail

readonly PACKAGES=systemd,systemd-sysv,udev,dbus,kmod,iproute2,procps,e2fsprogs,nvme-cli,linux-image-cloud-amd64,initramfs-tools,zstd
readonly DISK=1600M
readonly BOOT_LIMIT_S=${SELVEDGE_BOOT_LIMIT_S:-600}
readonly BOOTS_MAX=6

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=${SELVEDGE_LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/selvedge-lab}
export PATH=$PATH:/usr/sbin:/sbin
scratch='' qemu_pid='' drive='' socket=''

die() { printf 'installed-guest.sh: %s\n' "$*" >&2; exit 2; }
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

clean_up() {
    if [[ -n $qemu_pid ]]; then
        kill "$qemu_pid" 2>/dev/null || true
        wait "$qemu_pid" 2>/dev/null || true
    fi
    [[ -z $scratch ]] || rm -rf "$scratch"
}

recipe() { sha256sum <"${BASH_SOURCE[0]}" | cut -d' ' -f1; }

# Only what this machine itself gets its packages from is asked.
mirror() {
    [[ -z ${SELVEDGE_LAB_MIRROR:-} ]] || { echo "$SELVEDGE_LAB_MIRROR"; return; }
    { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null || true; } |
        awk '/^URIs:/ && !n++ { print $2 } /^deb / { sub(/\[[^]]*\] */, ""); if (!n++) print $2 }'
}

# At the end of a boot the job runs, with the console as its output.
write_job_unit() {
    cat >"$1/etc/systemd/system/job.service" <<'UNIT'
[Unit]
Description=The job of this boot
After=multi-user.target network.target

[Service]
Type=idle
ExecStart=/bin/bash /usr/local/sbin/run-job
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
UNIT
    cat >"$1/usr/local/sbin/run-job" <<'JOB'
boot=$(($(cat /boots 2>/dev/null || echo 0) + 1))
echo "$boot" >/boots
mkdir -p /job && mount -o ro /dev/vdb /job
bash /job/job.sh "$boot" </dev/null
status=$?
umount /job
echo "job: status $status"
sync
systemctl poweroff --no-block
JOB
    mkdir -p "$1/etc/systemd/system/multi-user.target.wants"
    ln -s /etc/systemd/system/job.service "$1/etc/systemd/system/multi-user.target.wants/job.service"
}

build() {
    local suite=$1 into=$lab/installed-$1 address
    if [[ $(cat "$into/recipe" 2>/dev/null) == "$(recipe)" ]]; then return; fi
    ((EUID == 0)) || die "building needs root, for the owners of files"
    command -v mmdebstrap >/dev/null || die "mmdebstrap is missing (Debian: apt-get install mmdebstrap)"
    address=$(mirror)
    [[ -n $address ]] || die "apt's sources name no mirror: set SELVEDGE_LAB_MIRROR"
    scratch=$(mktemp -d -p "${TMPDIR:-/tmp}")
    mkdir -p "$into" "$scratch/tree"
    mmdebstrap --quiet --variant=minbase --include="$PACKAGES" --aptopt='Acquire::Retries "3"' \
        --dpkgopt='path-exclude=/usr/share/locale/*' "$suite" "$scratch/root.tar" "deb $address $suite main" ||
        die "$suite cannot be installed"
    tar -xf "$scratch/root.tar" -C "$scratch/tree" --exclude './dev/*'
    write_job_unit "$scratch/tree"
    # Of no use here, and an emulated processor is slow.
    local unit
    for unit in apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service systemd-timesyncd.service \
        getty@tty1.service serial-getty@ttyS0.service dpkg-db-backup.timer fstrim.timer; do
        ln -sf /dev/null "$scratch/tree/etc/systemd/system/$unit"
    done
    echo "/dev/vda / ext4 defaults 0 1" >"$scratch/tree/etc/fstab"
    echo guest >"$scratch/tree/etc/hostname"
    cp "$scratch"/tree/boot/vmlinuz-* "$into/vmlinuz"
    cp "$scratch"/tree/boot/initrd.img-* "$into/initrd"
    rm -f "$into/disk"
    mke2fs -q -t ext4 -d "$scratch/tree" "$into/disk" "$DISK"
    recipe >"$into/recipe"
    rm -rf "$scratch"
    scratch=''
}

# boot: one boot, its console in $scratch/console. The disk is the first one, wherever it is.
boot() {
    local disk=(-drive "$drive,if=none,id=disk" -device virtio-blk-pci,drive=disk,addr=0x4)
    [[ -z $socket ]] ||
        disk=(-chardev "socket,id=disk,path=$socket" -device vhost-user-blk-pci,chardev=disk,num-queues=2,addr=0x4)
    qemu-system-x86_64 -accel tcg,thread=multi -cpu Westmere -smp 2 -display none -no-reboot -nodefaults \
        -object memory-backend-memfd,id=memory,size=1024M,share=on -m 1024 -machine pc,memory-backend=memory \
        -serial "file:$scratch/console" -kernel "$base/vmlinuz" -initrd "$base/initrd" \
        -append "root=/dev/vda rw console=ttyS0 quiet mitigations=off panic=-1" "${disk[@]}" \
        -drive "file=$scratch/job.img,if=none,id=job,format=raw,readonly=on" -device virtio-blk-pci,drive=job,addr=0x5 \
        -device virtio-rng-pci,addr=0x6 &
    qemu_pid=$!
    local waited=0
    while kill -0 "$qemu_pid" 2>/dev/null; do
        ((++waited <= BOOT_LIMIT_S * 2)) || return 124
        sleep 0.5
    done
    wait "$qemu_pid" || true
    qemu_pid=''
}

# True if the kernel panicked before the job began: on a busy machine QEMU's emulation of several processors lets it do so
# now and then, while the kernel changes its own code. It says nothing of what is tried. A job says something at once.
panicked_at_boot() {
    grep -qa 'Kernel panic' "$scratch/console" && ! grep -qaE '^(job: |ok |FAIL )' "$scratch/console"
}

run() {
    case $1 in
        --drive) drive=$2; shift 2 ;;
        --vhost-user) socket=$2; shift 2 ;;
    esac
    (($# >= 2)) || usage
    local suite=$1 job=$2 count status
    shift 2
    base=$lab/installed-$suite
    [[ -s $base/disk ]] || die "the guest is not built: installed-guest.sh build $suite"
    [[ -f $job ]] || job=$here/job-$job.sh
    scratch=$(mktemp -d -p "${TMPDIR:-/tmp}")
    if [[ -z $drive$socket ]]; then
        qemu-img create -q -f qcow2 -b "$base/disk" -F raw "$scratch/disk"
        drive="file=$scratch/disk,format=qcow2,cache=unsafe"
    fi
    mkdir "$scratch/job"
    cp "$job" "$scratch/job/job.sh"
    cp "$here/guest-lib.sh" "$scratch/job/"
    (($# == 0)) || cp "$@" "$scratch/job/"
    mke2fs -q -t ext4 -d "$scratch/job" "$scratch/job.img" 128M
    for ((count = 1; count <= BOOTS_MAX; count++)); do
        boot || { tail -n 40 "$scratch/console"; exit 124; }
        if panicked_at_boot; then
            echo "installed-guest.sh: the guest's kernel panicked before the job began; it is booted once more:" >&2
            grep -am 1 'Kernel panic' "$scratch/console" >&2
            boot || { tail -n 40 "$scratch/console"; exit 124; }
        fi
        # Output before the job belongs to the boot.
        tr -d '\r' <"$scratch/console" | grep -aE '^(ok |FAIL |    |checks: |again|figure: |job: )' || true
        status=$(tr -d '\r' <"$scratch/console" | sed -n 's/^job: status //p')
        [[ -n $status ]] || { tail -n 40 "$scratch/console"; exit 125; }
        if ! tr -d '\r' <"$scratch/console" | grep -qax again; then exit "$status"; fi
    done
    die "the job wanted more than $BOOTS_MAX boots"
}

trap clean_up EXIT
trap 'exit 130' INT TERM
case ${1:-} in
    build) [[ $# == 2 ]] || usage; build "$2" ;;
    disk) [[ $# == 2 ]] || usage; echo "$lab/installed-$2/disk" ;;
    run) (($# >= 3)) || usage; shift; run "$@" ;;
    *) usage ;;
esac
