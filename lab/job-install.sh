# The package in a fresh Debian with systemd: installed without it, installed with it, served at boot, used by the kernel's
# host as the README says, upgraded under a host, and purged without a trace.
#
#   job-install.sh BOOT
#
# Beside it are before.deb, the package of an earlier version, now.deb, the library's packages, and read-block, a program that was
# compiled with them.
. /job/guest-lib.sh

readonly NQN=nqn.2026-01.org.example:disks
readonly EXPOSURE_MAX=2.0
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

# All files but those that change by themselves: logs, caches, what dpkg and systemd keep.
all_files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /dev -o -path /job -o -path /tmp -o -path /var/tmp \
        -o -path /var/log -o -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/systemd \) -prune -o -print |
        grep -vxE '/boots|/files-before|/data.sum|/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?|/etc/\.pwd\.lock' | sort
}

# A package manager that meets no systemd: in a container for one.
without_systemd() {
    local said
    said=$(unshare --mount sh -ec 'mount -t tmpfs none /run; dpkg --install /job/now.deb; dpkg --purge selvedge' 2>&1)
    echo "$said"
    (($(grep -c '^selvedge: ' <<<"$said") == 1))
    grep -q '^selvedge: systemd does not run here' <<<"$said"
}

leaves_nothing() {
    all_files >/tmp/files-after
    comm -13 /files-before /tmp/files-after >/tmp/left
    cat /tmp/left
    [[ ! -s /tmp/left ]]
    ! getent passwd selvedge
    ! ls -d /run/selvedge 2>/dev/null
    ! systemctl list-unit-files --no-legend 'selvedge*' | grep .
}

install_before() { dpkg --install /job/before.deb; }
is_active() { systemctl is-active selvedge; }
nothing_is_served_yet() {
    selvedge status
    ss -ltn | grep -q 127.0.0.1:4420
    [[ $(stat -c %U /proc/"$(systemctl show -P MainPID selvedge)") == selvedge ]]
}

unit_is_right() {
    local unit
    for unit in selvedge.service selvedge.socket selvedge-gateway@rbd-group.service \
        selvedge-attach@disks.service selvedge-connect@disks.service; do
        systemd-analyze verify --man=no "$unit" 2>&1 | grep -i selvedge && return 1
    done
    true
}

exposure() {
    local figure
    figure=$(systemd-analyze security "$1" --no-pager | awk '/Overall exposure level/ { print $(NF - 2) }')
    echo "figure: exposure of $1: $figure" >>/tmp/figures
    awk -v figure="$figure" -v most="$EXPOSURE_MAX" 'BEGIN { exit !(figure != "" && figure <= most) }'
}

# Rights of the running service: no capabilities, no home folders, no disks.
lacks_what_it_does_not_need() {
    local pid set home=/home
    pid=$(systemctl show -P MainPID selvedge)
    for set in CapInh CapPrm CapEff CapAmb; do
        grep -q "^$set:[[:space:]]*0*$" "/proc/$pid/status" || return 1
    done
    touch "$home/probe"
    [[ -e $home/probe && ! -e /proc/$pid/root$home/probe ]] || return 1
    rm "$home/probe"
    [[ -n $(find /dev -type b) && -z $(find "/proc/$pid/root/dev/" -type b) ]]
}

configure() {
    cat >/etc/selvedge/target.toml <<TOML
[[port]]
address = "127.0.0.1:4420"

[[subsystem]]
nqn = "$NQN"
allow_any_host = true

[[subsystem.namespace]]
backend.file = { path = "/var/lib/selvedge/disk.img", size = "64m" }
TOML
    selvedge config check /etc/selvedge/target.toml
    systemctl reload selvedge
    selvedge namespace list | grep -q disk.img
}

# The library without the program's package: its dependencies are here, the linker finds it, and it reads the disk that is served.
library() {
    dpkg --install /job/libselvedge0.deb /job/libselvedge-dev.deb
    ldconfig -p | grep -F libselvedge.so.0
    not grep -F 'not found' <(ldd /job/read-block)
    /job/read-block 127.0.0.1 "$NQN" | grep -x '67108864 bytes'
    [[ -f /usr/include/selvedge.h && -f /usr/lib/x86_64-linux-gnu/libselvedge.so ]]
    dpkg --purge libselvedge-dev libselvedge0
    not /job/read-block 127.0.0.1 "$NQN"
}

# The five lines of README, and what holds beyond a reboot.
use_from_linux() {
    modprobe nvme-tcp
    nvme discover -t tcp -a 127.0.0.1 -s 4420
    nvme connect -t tcp -a 127.0.0.1 -n "$NQN"
    wait_ms 60000 "the disk" has_disk || { dmesg | tail -n 20; selvedge namespace list; journalctl -u selvedge -n 20 --no-pager; return 1; }
    mkfs.ext4 -q "$(disk)"
    mount "$(disk)" /mnt
}

# The first namespace, wherever the kernel has put it.
has_disk() { [[ -b $(disk) ]]; }
disk() { ls /dev/nvme[0-9]*n1 2>/dev/null | head -n 1; }

persist() {
    head -c 8M /dev/urandom >/mnt/data
    sha256sum /mnt/data >/data.sum
    sync
    echo nvme-tcp >/etc/modules-load.d/nvme-tcp.conf
    echo "-t tcp -a 127.0.0.1 -s 4420" >>/etc/nvme/discovery.conf
    systemctl enable nvmf-autoconnect.service
    mkdir -p /etc/systemd/system/nvmf-autoconnect.service.d
    printf '[Unit]\nAfter=selvedge.service\n' >/etc/systemd/system/nvmf-autoconnect.service.d/selvedge.conf
    echo "UUID=$(blkid -s UUID -o value "$(disk)") /mnt ext4 _netdev,nofail 0 0" >>/etc/fstab
    umount /mnt
    systemctl daemon-reload
    mount /mnt
}

is_mounted() { wait_ms 120000 "the mount" mountpoint -q /mnt; }
data_is_there() { sha256sum --check /data.sum; }

# The host has the disk mounted and writes while the package is replaced, and stays connected.
upgrade() {
    local before after connected pid
    before=$(selvedge --version | head -n 1)
    connected=$(reconnects)
    pid=$(systemctl show -P MainPID selvedge)
    (while sleep 0.05; do date +%s%N >>/mnt/written || exit 1; sync -d /mnt/written || exit 1; done) &
    local writer=$!
    sleep 2
    dpkg --install --force-confold /job/now.deb
    after=$(dpkg-query -W -f '${Version}' selvedge)
    echo "before: $before, now: package $after"
    is_active
    sleep 5
    kill -0 "$writer"
    kill "$writer"
    wait "$writer" 2>/dev/null || true
    awk '{ if (last && $1 - last > most) most = $1 - last; last = $1 }
         END { printf "figure: longest pause of a writer over the upgrade: %.1f s, of %d writes\n", most / 1e9, NR }' \
        /mnt/written >>/tmp/figures
    sync
    sha256sum --check /data.sum
    selvedge namespace list | grep -q disk.img
    wait_ms 60000 "another process" has_another_process "$pid"
    [[ $(reconnects) == "$connected" ]] || { dmesg | tail -n 20; return 1; }
}

has_another_process() { [[ $(systemctl show -P MainPID selvedge) != "$1" ]] && [[ ! -e /proc/$1 ]]; }
reconnects() { dmesg | grep -ciE 'nvme.*(reconnect|error recovery|keep-alive)' || true; }

# Another file has the program's name: a reload puts it in place of the one that runs, and the kernel's host stays connected.
goes_on_after_reload() {
    local before pid round
    before=$(reconnects)
    (while sleep 0.05; do date +%s%N >>/mnt/reloaded || exit 1; sync -d /mnt/reloaded || exit 1; done) &
    local writer=$!
    for round in 1 2 3; do
        sleep 2
        pid=$(systemctl show -P MainPID selvedge)
        cp -a /usr/bin/selvedge /usr/bin/selvedge.new
        mv /usr/bin/selvedge.new /usr/bin/selvedge
        systemctl reload selvedge
        wait_ms 30000 "another process ($round)" has_another_process "$pid"
        is_active
    done
    # Longer than its watchdog.
    sleep 25
    is_active
    kill -0 "$writer"
    kill "$writer"
    wait "$writer" 2>/dev/null || true
    awk '{ if (last && $1 - last > most) most = $1 - last; last = $1 }
         END { printf "figure: longest pause of a writer over three reloads: %.1f s, of %d writes\n", most / 1e9, NR }' \
        /mnt/reloaded >>/tmp/figures
    [[ $(reconnects) == "$before" ]] || { dmesg | tail -n 20; return 1; }
    [[ $(cat /sys/class/nvme/nvme*/state | sort -u) == live ]]
    selvedge namespace list | grep -q disk.img
    # The same program again is no reason to do anything.
    pid=$(systemctl show -P MainPID selvedge)
    systemctl reload selvedge
    [[ $(systemctl show -P MainPID selvedge) == "$pid" ]]
}

# Port used by another program: one log line says so, and the service starts when the port is free.
port_in_use() {
    umount /mnt
    nvme disconnect-all
    systemctl stop selvedge
    selvedge serve -n nqn.2026-01.org.example:other --control none --namespace null:1m >/dev/null &
    local other=$!
    wait_ms 20000 "the other target" sh -c 'ss -ltn | grep -q 127.0.0.1:4420'
    systemctl start selvedge && return 1
    journalctl -u selvedge -n 50 -o cat --no-pager | grep -m 1 'selvedge: .*127.0.0.1:4420.*in use'
    kill "$other"
    wait "$other" || true
    wait_ms 60000 "the service" systemctl is-active selvedge
}

missing_disk() {
    cat >>/etc/selvedge/target.toml <<'TOML'

[[subsystem.namespace]]
nsid = 9
backend.file = { path = "/srv/pool/late.img" }
TOML
    systemctl restart selvedge
    selvedge namespace list | grep -E ' 9 .*absent'
    selvedge namespace list | grep -E ' 1 .*ready'
    mkdir -p /srv/pool
    truncate -s 16M /srv/pool/late.img
    chown -R selvedge: /srv/pool
    wait_ms 60000 "the disk" sh -c "selvedge namespace list | grep -E ' 9 .*ready'"
}

# The state has no space: the service serves, and says once what it cannot do.
full_var() {
    systemctl stop selvedge
    local owner
    owner=$(id -u selvedge)
    mount -t tmpfs -o "size=64k,mode=700,uid=$owner,gid=$(id -g selvedge)" none /var/lib/selvedge
    install -d -m 700 -o selvedge -g selvedge /var/lib/selvedge/reservations
    : >/var/lib/selvedge/lock
    chown selvedge: /var/lib/selvedge/lock
    cp /etc/selvedge/target.toml /var/tmp/target.toml
    cat >/etc/selvedge/target.toml <<TOML
[[port]]
address = "127.0.0.1:4420"
[[subsystem]]
nqn = "$NQN"
allow_any_host = true
[[subsystem.namespace]]
backend.memory = { size = "1m" }
TOML
    dd if=/dev/zero of=/var/lib/selvedge/filler bs=4k 2>/dev/null || true
    systemctl start selvedge
    journalctl -u selvedge -n 20 -o cat --no-pager | grep 'state cannot be written'
    selvedge namespace list | grep -q memory
    systemctl stop selvedge
    umount /var/lib/selvedge
    mv /var/tmp/target.toml /etc/selvedge/target.toml
    systemctl start selvedge
}

purge() {
    systemctl stop selvedge
    rm -rf /var/lib/selvedge/disk.img /srv/pool
    selvedge token create prometheus --role metrics >/dev/null
    [[ -s /etc/selvedge/access.toml ]]
    dpkg --purge selvedge
    rm -rf /etc/systemd/system/nvmf-autoconnect.service.d /etc/modules-load.d/nvme-tcp.conf
    systemctl disable nvmf-autoconnect.service
}

case $1 in
1)
    all_files >/files-before
    check "installs and purges without systemd" without_systemd
    check "leaves nothing without systemd" leaves_nothing
    check "installs the version before" install_before
    check "the service runs" is_active
    check "nothing is served yet, to this machine alone" nothing_is_served_yet
    check "units verify" unit_is_right
    check "exposure of the service" exposure selvedge.service
    check "rights of the service" lacks_what_it_does_not_need
    check "a reload serves a disk" configure
    check "a program in C reads it by the library" library
    check "the kernel's host mounts it" use_from_linux
    check "it is mounted at the next boot" persist
    cat /tmp/figures
    finish_checks && echo again
    ;;
2)
    check "the service runs after a reboot" is_active
    check "the disk is mounted" is_mounted
    check "its data is there" data_is_there
    check "an upgrade under a host" upgrade
    check "another program goes on after a reload" goes_on_after_reload
    check "units verify after it" unit_is_right
    check "exposure after it" exposure selvedge.service
    check "a port in use" port_in_use
    check "a missing disk" missing_disk
    check "a full /var" full_var
    check "it purges" purge
    check "nothing is left" leaves_nothing
    cat /tmp/figures
    finish_checks
    ;;
esac
