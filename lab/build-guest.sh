#!/usr/bin/env bash
# Builds the lab's guest, a Linux kernel and an initramfs, from Debian packages only.
#
#   build-guest.sh [--fresh] [--zfs]
#
# Nothing is installed on this machine and root is not needed: the packages go into a private apt root
# and are only unpacked. The result is $SELVEDGE_LAB_DIR/guest/{vmlinux,initramfs.cpio,release}; a second
# call finds it and is done. --fresh builds again, with whatever packages the mirror has by then.
#
# --zfs adds OpenZFS in guest/zfs.cpio, which Debian has as source only: its modules are compiled for
# the guest's kernel, with Debian's compiler, in nine minutes of processor time.
#
# SELVEDGE_LAB_KERNEL names the Debian suite whose kernel boots (bullseye: 5.10, bookworm: 6.1, trixie: 6.12,
# trixie-backports: newer). Such a guest is in guest-SUITE; its programs are those of the usual one.
set -euo pipefail

readonly SUITE=trixie
readonly KERNEL_SUITE=${SELVEDGE_LAB_KERNEL:-$SUITE}
readonly KERNEL_META=linux-image-cloud-amd64

# Every program of these packages goes into the guest, with the shared libraries it needs.
readonly PROGRAM_PACKAGES=(
    bash coreutils diffutils e2fsprogs findutils fio gawk grep hostname iproute2 jq keyutils kmod ktls-utils
    mount nbd-client nvme-cli procps sed util-linux xfsprogs
)

# These and the modules they depend on. The virtio ones carry the guest's own devices; brd, null_blk and
# loop are what nvmet exports; ublk_drv and nbd are whom `selvedge attach` serves; the checksums are what header
# and data digests need; tcp_diag is whom `ss` and `selvedge tune show` ask for connections; tls seals the
# kernel's queues, and the ciphers are what it does so with.
readonly MODULES=(
    virtio_pci virtio_net virtio_console virtio_rng virtio_blk
    nvme-fabrics nvme-tcp nvmet nvmet-tcp brd null_blk loop ublk_drv nbd ext4 xfs configfs
    crc32c_generic crc32c-intel tcp_diag
    tls nvme-keyring aesni-intel gcm ghash-clmulni-intel
)

# What compiles OpenZFS besides the compiler, which comes with the kernel's headers, and what its
# programs need.
readonly ZFS_TOOLS=(
    bash coreutils diffutils file findutils gawk grep libc6-dev make sed
    libnvpair3linux libuuid1 libuutil3linux libzfs6linux libzpool6linux
)
# Its source and its programs.
readonly ZFS_PACKAGES=(zfs-dkms zfsutils-linux)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=${SELVEDGE_LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/selvedge-lab}
apt_root=$lab/apt
userland=$lab/userland
kernel=$lab/kernel
tree=$lab/tree
guest=$lab/guest
[[ $KERNEL_SUITE == "$SUITE" ]] || guest+=-$KERNEL_SUITE

say() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }
die() { printf 'build-guest.sh: %s\n' "$*" >&2; exit 1; }

require_programs() {
    local name missing=()
    for name in apt-get dpkg-deb cpio zstd xz modprobe depmod readelf flock; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null || missing+=("$name")
    done
    ((${#missing[@]} == 0)) || die "missing programs: ${missing[*]}" \
        "(Debian: apt-get install cpio zstd xz-utils kmod binutils util-linux)"
}

# The guest stays valid for as long as this script, which decides all that is in it, stays the same.
recipe() { sha256sum <"$here/build-guest.sh" | cut -d' ' -f1; }

is_built() {
    [[ -s $guest/vmlinux && -s $guest/initramfs.cpio && -s $guest/release ]] &&
        [[ $(cat "$guest/recipe" 2>/dev/null) == "$(recipe)" ]]
}

# The address this machine itself uses for a Debian suite. Its sources are read in both of apt's formats,
# since apt tells them only after an update, and an update needs root.
machine_source() {
    { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null || true; } |
        awk -v suite="$1" '
        function offer(name, address) {
            if (name != suite || address !~ /^https?:/ || found++) return
            sub("/*$", "", address)
            print address
        }
        function end_stanza(   i, n, names) {
            n = split(suites, names, " ")
            for (i = 1; i <= n; i++) offer(names[i], uri)
            suites = uri = ""
        }
        /^deb / { sub(/\[[^]]*\] */, ""); offer($3, $2) }
        /^Types:/ { end_stanza() }
        /^URIs:/ { uri = $2 }
        /^Suites:/ { suites = $0; sub(/^Suites: */, "", suites) }
        END { end_stanza() }'
}

write_sources() {
    local codename mirror security keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-none}")
    mirror=${SELVEDGE_LAB_MIRROR:-$(machine_source "$codename")}
    security=${SELVEDGE_LAB_SECURITY_MIRROR:-$(machine_source "$codename-security")}
    [[ $(. /etc/os-release && echo "$ID") == debian || -n ${SELVEDGE_LAB_MIRROR:-} ]] ||
        die "this is not Debian: set SELVEDGE_LAB_MIRROR to a Debian mirror's address"
    [[ -n $mirror ]] || die "apt's sources name no mirror for $codename: set SELVEDGE_LAB_MIRROR"
    [[ -e $keyring ]] || die "$keyring is missing (package debian-archive-keyring)"
    echo "deb [arch=amd64 signed-by=$keyring] $mirror $SUITE main contrib"
    [[ -z $security ]] || echo "deb [arch=amd64 signed-by=$keyring] $security $SUITE-security main"
    [[ $KERNEL_SUITE == "$SUITE" ]] || echo "deb [arch=amd64 signed-by=$keyring] $mirror $KERNEL_SUITE main"
}

# An apt that has this folder for its whole world, and an empty package database, so that it resolves
# every dependency for the guest whatever the machine has installed.
prepare_apt() {
    mkdir -p "$apt_root"/{lists/partial,cache/archives/partial,state,etc/parts}
    : >"$apt_root/state/status"
    write_sources >"$apt_root/etc/sources.list"
    cat >"$apt_root/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt_root/etc/sources.list";
Dir::Etc::sourceparts "$apt_root/etc/parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$apt_root/etc/parts";
Dir::State "$apt_root/state";
Dir::State::lists "$apt_root/lists";
Dir::State::status "$apt_root/state/status";
Dir::Cache "$apt_root/cache";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Debug::NoLocking "true";
quiet "2";
CONF
}

guest_apt() {
    local tool=$1 log=$apt_root/last.log
    shift
    if [[ $tool == cache ]]; then
        APT_CONFIG=$apt_root/apt.conf apt-cache "$@"
    else
        APT_CONFIG=$apt_root/apt.conf timeout 600 "apt-$tool" "$@" >"$log" 2>&1 ||
            { tail -n 20 "$log" >&2; die "apt-$tool $1 failed"; }
    fi
}

fetch_userland() {
    rm -f "$apt_root"/cache/archives/*.deb
    guest_apt get -y --download-only install "${PROGRAM_PACKAGES[@]}"
    say "userland: $(du -sh "$apt_root/cache/archives" | cut -f1) of packages"
    unpack_archives
}

unpack_archives() {
    local package folder
    rm -rf "$userland"
    mkdir -p "$userland"/usr/{bin,sbin,lib,lib64}
    for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$userland/$folder"; done
    for package in "$apt_root"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$userland" --keep-directory-symlink \
            --exclude './usr/share/doc' --exclude './usr/share/locale' --exclude './usr/share/man' \
            --exclude './dev/*'
    done
}

fetch_kernel() {
    local package
    local -a packages
    package=$(guest_apt cache depends "$KERNEL_META/$KERNEL_SUITE" |
        awk '/Depends: linux-image-/ && !n++ { print $2 }')
    [[ -n $package ]] || die "$KERNEL_META of $KERNEL_SUITE names no kernel"
    release=${package#linux-image-}
    rm -rf "$kernel"
    mkdir -p "$kernel"
    # Since Linux 7 the image and the modules are packages of their own.
    mapfile -t packages < <(guest_apt cache depends "$package" |
        awk -v release="-$release" '/Depends: linux-/ && index($2, release) { print $2 }')
    (
        cd "$kernel"
        guest_apt get download "$package" "${packages[@]}"
        for package in ./*.deb; do dpkg-deb -x "$package" . && rm "$package"; done
    )
    # modprobe -d looks below /lib, and newer packages have only /usr/lib.
    [[ -e $kernel/lib ]] || ln -s usr/lib "$kernel/lib"
    depmod -b "$kernel" "$release"
    say "kernel $release"
}

# QEMU enters an uncompressed kernel directly (PVH), which spares an emulated processor the unpacking.
extract_vmlinux() {
    local image=$kernel/boot/vmlinuz-$release offset magic unpack
    # Since Linux 7 it is beside its modules.
    [[ -e $image ]] || image=$kernel/lib/modules/$release/vmlinuz
    while read -r magic unpack; do
        while read -r offset; do
            # The payload is followed by other bytes, of which the unpacker complains after its work.
            { tail -c "+$((offset + 1))" "$image" | $unpack; } >"$guest/vmlinux" 2>/dev/null || true
            if [[ $(head -c 4 "$guest/vmlinux" | tail -c 3) == ELF ]]; then return 0; fi
        done < <(LC_ALL=C grep -aboP "$magic" "$image" | LC_ALL=C cut -d: -f1)
    done <<'FORMATS'
\x28\xb5\x2f\xfd zstd -dcq
\xfd7zXZ\x00 xz -dcq
\x1f\x8b\x08 gzip -dcq
FORMATS
    # Packed some other way (LZ4, until Linux 6.12): the emulated processor unpacks it.
    cp "$image" "$guest/vmlinux"
}

copy_modules() {
    local from=$kernel/lib/modules/$release into=$tree/usr/lib/modules/$release name path relative
    mkdir -p "$into"
    cp "$from"/modules.{builtin,builtin.modinfo,order} "$into/"
    for name in "${MODULES[@]}"; do
        # A module that this kernel has built in is no error: modprobe says so and prints no insmod.
        modprobe -d "$kernel" -S "$release" --show-depends "$name" 2>/dev/null || true
    done | awk '$1 == "insmod" { print $2 }' | sort -u >"$guest/modules"
    while read -r path; do
        relative=${path##*/modules/"$release"/}
        mkdir -p "$into/$(dirname "$relative")"
        case $path in
            *.xz) xz -dc "$path" >"$into/${relative%.xz}" ;;
            *.zst) zstd -dcq "$path" >"$into/${relative%.zst}" ;;
            *) cp "$path" "$into/$relative" ;;
        esac
    done <"$guest/modules"
    depmod -b "$tree" "$release"
}

# The programs of the named packages only: fio alone brings a hundred libraries' tools along otherwise.
copy_programs() {
    local package archive path
    for package in "${PROGRAM_PACKAGES[@]}"; do
        for archive in "$apt_root"/cache/archives/"$package"_*.deb; do
            dpkg-deb --fsys-tarfile "$archive" | tar -t | grep -E '^\./(usr/)?s?bin/.+' || true
        done
    done | sed -E 's,^\./(usr/)?,usr/,' | sort -u >"$guest/programs"
    while read -r path; do
        cp -a "$userland/$path" "$tree/$path"
    done <"$guest/programs"
    ln -sf gawk "$tree/usr/bin/awk"
    ln -sf bash "$tree/usr/bin/sh"
}

libraries_of() {
    readelf -d "$@" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u
}

# Libraries that ldd would list, without running the guest's programs: follow NEEDED until nothing is new.
copy_libraries() {
    local into=$tree/usr/lib/x86_64-linux-gnu from=$userland/usr/lib name path round
    local -a fresh
    mkdir -p "$into"
    cp -L "$userland/lib64/ld-linux-x86-64.so.2" "$tree/usr/lib64/"
    mapfile -t fresh < <(find "$tree/usr/bin" "$tree/usr/sbin" -type f)
    # libgcc_s is opened by name when a thread ends, so that no program names it.
    cp -L "$from/x86_64-linux-gnu/libgcc_s.so.1" "$into/"
    for round in {1..20}; do
        ((${#fresh[@]})) || return 0
        mapfile -t names < <(libraries_of "${fresh[@]}")
        fresh=()
        for name in "${names[@]}"; do
            [[ -e $into/$name || $name == ld-linux-x86-64.so.2 ]] && continue
            path=$(find "$from" -name "$name" -print -quit)
            [[ -n $path ]] || die "a program needs $name, which no package has"
            cp -L "$path" "$into/$name"
            fresh+=("$into/$name")
        done
    done
    die "libraries still unresolved after $round rounds"
}

write_settings() {
    mkdir -p "$tree"/{proc,sys,dev,run,tmp,mnt,job,root,etc/nvme}
    echo 'root:x:0:0:root:/root:/bin/bash' >"$tree/etc/passwd"
    echo 'root:x:0:' >"$tree/etc/group"
    printf '127.0.0.1 localhost\n10.0.2.2 host\n' >"$tree/etc/hosts"
    echo 'hosts: files' >"$tree/etc/nsswitch.conf"
    cp "$userland/etc/mke2fs.conf" "$tree/etc/"
}

build_tree() {
    local folder
    rm -rf "$tree"
    mkdir -p "$tree"/usr/{bin,sbin,lib,lib64}
    for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$tree/$folder"; done
    copy_programs
    copy_libraries
    copy_modules
    write_settings
    # The kernel's own built-in initramfs has /dev/console, so that no device node is made here.
    (cd "$tree" && find . -print0 | cpio --null -o -H newc --owner=+0:+0 --quiet) >"$guest/initramfs.cpio"
}

# Headers of the very kernel that the guest has: a mirror keeps those of some kernels only.
fetch_zfs() {
    rm -f "$apt_root"/cache/archives/*.deb
    guest_apt cache show "linux-headers-$release" >/dev/null 2>&1 ||
        die "the mirror has no headers of kernel $release: build the guest again with --fresh"
    guest_apt get -y --download-only install "${ZFS_TOOLS[@]}" \
        "linux-headers-$release" "linux-image-$release"
    rm -f "$apt_root"/cache/archives/linux-image-*.deb
    # Without their dependencies, Python and DKMS.
    (cd "$apt_root/cache/archives" && guest_apt get download "${ZFS_PACKAGES[@]}")
    unpack_archives
    rm -rf "$apt_root/cache"
}

# In a root of its own: compiler and kernel headers have programs for the guest's C library, which may
# be newer than this machine's.
compile_zfs() {
    local headers=/lib/modules/$release log=$lab/zfs.log
    mkdir -p "$userland"/{dev,proc,tmp}
    ln -sf gawk "$userland/usr/bin/awk"
    ln -sf bash "$userland/usr/bin/sh"
    cat >"$userland/compile-zfs" <<SCRIPT
set -e
export PATH=/usr/bin:/usr/sbin LC_ALL=C
CC=\$(compgen -c | grep -xE -m 1 'gcc-[0-9]+')
export CC
cd /usr/src/zfs-*
./configure --with-config=kernel --disable-dependency-tracking \\
    --with-linux=$headers/source --with-linux-obj=$headers/build
make -j$(nproc)
SCRIPT
    unshare --map-root-user --mount bash -c '
        mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc" &&
            exec chroot "$1" bash /compile-zfs
    ' bash "$userland" </dev/null >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "OpenZFS does not compile: see $log"; }
}

# The kernel unpacks this archive behind the guest's own. It has no index of modules: jobs use insmod.
build_zfs() {
    local userland=$lab/zfs-root tree=$lab/zfs-tree modules
    [[ ! -s $guest/zfs.cpio ]] || return 0
    [[ $KERNEL_SUITE == "$SUITE" ]] || die "--zfs is for the kernel of $SUITE"
    require_programs
    release=$(cat "$guest/release")
    modules=$tree/usr/lib/modules/$release/extra
    prepare_apt
    guest_apt get update
    fetch_zfs
    # Other builds do not wait for the compiler.
    flock --unlock 9
    say 'compiling OpenZFS'
    compile_zfs
    rm -rf "$tree"
    mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$modules"
    cp "$userland"/usr/src/zfs-*/module/{spl,zfs}.ko "$modules/"
    strip --strip-debug "$modules"/*.ko
    cp "$userland"/usr/sbin/{zfs,zpool} "$tree/usr/sbin/"
    copy_libraries
    (cd "$tree" && find . -print0 | cpio --null -o -H newc --owner=+0:+0 --quiet) >"$lab/zfs.cpio"
    mv "$lab/zfs.cpio" "$guest/zfs.cpio"
    rm -rf "$userland" "$tree"
    say "OpenZFS for kernel $release is in $guest"
}

build_guest() {
    require_programs
    rm -rf "$guest"
    mkdir -p "$guest"
    prepare_apt
    guest_apt get update
    say "package lists of $SUITE"
    fetch_userland
    fetch_kernel
    extract_vmlinux
    build_tree
    # Only what is needed to run stays: the trees are five times as large as the guest.
    rm -rf "$userland" "$kernel" "$tree" "$apt_root/cache"
    echo "$release" >"$guest/release"
    recipe >"$guest/recipe"
    say "vmlinux $(du -m "$guest/vmlinux" | cut -f1) MiB," \
        "initramfs $(du -m "$guest/initramfs.cpio" | cut -f1) MiB in $guest"
}

main() {
    local fresh='' zfs=''
    while (($#)); do
        case $1 in
            --fresh) fresh=yes ;;
            --zfs) zfs=yes ;;
            *) echo 'usage: build-guest.sh [--fresh] [--zfs]' >&2; exit 2 ;;
        esac
        shift
    done
    mkdir -p "$lab"
    if [[ -n $zfs ]]; then
        exec 8>"$lab/zfs.lock"
        flock -w 3600 8 || die "another build holds $lab/zfs.lock"
    fi
    exec 9>"$lab/lock"
    flock -w 600 9 || die "another build holds $lab/lock"
    PATH=$PATH:/usr/sbin:/sbin
    if [[ -z $fresh ]] && is_built; then
        say "guest with kernel $(cat "$guest/release") is in $guest"
    else
        build_guest
    fi
    [[ -z $zfs ]] || build_zfs
}

main "$@"
