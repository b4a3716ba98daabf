#!/usr/bin/env bash
# The command of ceph-nvmeof, from the Python index, against two gateways: what ceph-csi asks, each call twice, one gateway killed
# in the middle, and certificates as ceph-nvmeof's documents make them.
#
#   ceph-nvmeof.sh PROGRAM CEPH_CONF FOLDER
#
# CEPH_CONF is that of a cluster with the pool `rbd`; FOLDER is where the command is installed, once.
set -euo pipefail

readonly VERSION=1.5.1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$(realpath "$1") conf=$(realpath "$2") folder=$3
readonly GROUP=calls-$$ NQN=nqn.2016-06.io.spdk:calls HOST=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000aa
# Addresses without other listeners on this machine: a client has to know the port before it is there.
readonly A=127.0.55.1 B=127.0.55.2
readonly SECRET=DHHC-1:00:MTIzNDU2NzgxMjM0NTY3ODEyMzQ1Njc4MTIzNDU2Nzg+AE0v:
readonly OTHER_SECRET=DHHC-1:00:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQHMnzFi:
readonly PSK=NVMeTLSkey-1:01:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQHMnzFi:
world=$(mktemp -d) gateways=()
export RUNTIME_DIRECTORY=$world

clean_up() {
    local pid
    for pid in "${gateways[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
    for image in one two; do rbd -c "$conf" rm --no-progress "rbd/calls-$image-$$" 2>/dev/null || true; done
    rm -rf "$world"
}
trap clean_up EXIT

die() { printf 'ceph-nvmeof.sh: %s\n' "$*" >&2; tail -n 20 "$world"/*.log >&2; exit 1; }

install_command() {
    [[ ! -e $folder/bin/ceph-nvmeof ]] || return 0
    rm -rf "$folder"
    /usr/bin/python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 10 "ceph-nvmeof==$VERSION"
}

# gateway NAME ADDRESS FLAGS...
gateway() {
    local name=$1 address=$2 until=$((SECONDS + 60))
    shift 2
    "$program" serve -a "$address" -s 4420 --gateway-group "rbd/$GROUP,conf=$conf" --gateway-name "$name" \
        --control "unix:$world/$name.sock" --encryption-key "$world/encryption.key" "$@" >"$world/$name.log" 2>&1 &
    gateways+=($!)
    until grep -qs '^administered at' "$world/$name.log"; do
        ((SECONDS < until)) || die "gateway $name does not start"
        sleep 0.1
    done
}

# The other gateways learn of a change a moment later.
until_open() {
    local until=$((SECONDS + 20))
    until "$program" identify "$@" >"$world/identify.log" 2>&1; do
        ((SECONDS < until)) || die "the host is not let in: $(cat "$world/identify.log")"
        sleep 0.2
    done
}

# certificate NAME SUBJECT
certificate() {
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$world/$1.key" -out "$world/$1.crt" -days 2 -subj "/CN=$2" \
        -addext "subjectAltName=DNS:$2,IP:$B" 2>/dev/null
    chmod 600 "$world/$1.key"
}

calls() {
    cat >"$world/calls"
    "$folder/bin/python" "$here/ceph-nvmeof-calls.py" "$world/calls" || die "calls did not end as expected"
}

# Requests of ceph-csi for a volume that it creates and publishes.
publish() {
    local address=$1 status=$2
    cat <<CALLS
$status --server-address $address subsystem add -n $NQN --no-group-append
$status --server-address $address listener add -n $NQN --host-name a --traddr $A --trsvcid 4420
$status --server-address $address listener add -n $NQN --host-name b --traddr $B --trsvcid 4420
$status --server-address $address namespace add -n $NQN --rbd-pool rbd --rbd-image calls-one-$$
$status --server-address $address host add -n $NQN --host-nqn $HOST --dhchap-key $SECRET
0 --server-address $address namespace set_qos -n $NQN --nsid 1 --rw-ios-per-second 2000 --rw-megabytes-per-second 20
0 --server-address $address listener list -n $NQN
0 --server-address $address namespace list -n $NQN
CALLS
}

# And for one that it takes back and deletes.
unpublish() {
    local address=$1 gone=$2 namespace=$3
    cat <<CALLS
$gone --server-address $address host del -n $NQN --host-nqn $HOST
$namespace --server-address $address namespace del -n $NQN --nsid 1
$namespace --server-address $address namespace del -n $NQN --nsid 2
$gone --server-address $address listener del -n $NQN --host-name b --traddr $B --trsvcid 4420 --force
$gone --server-address $address listener del -n $NQN --host-name a --traddr $A --trsvcid 4420 --force
$gone --server-address $address subsystem del -n $NQN
CALLS
}

others() {
    cat <<CALLS
0 --server-address $A gw info
0 --server-address $A gw version
0 --server-address $A subsystem list
0 --server-address $A get_subsystems
0 --server-address $A namespace add -n $NQN --rbd-pool rbd --rbd-image calls-two-$$ --size 16MB --rbd-create-image
17 --server-address $B namespace add -n $NQN --rbd-pool rbd --rbd-image calls-two-$$ --size 16MB --rbd-create-image
0 --server-address $A namespace resize -n $NQN --nsid 2 --size 32MB
22 --server-address $A namespace resize -n $NQN --nsid 2 --size 16MB
19 --server-address $A namespace resize -n $NQN --nsid 9 --size 32MB
19 --server-address $A namespace add -n $NQN --rbd-pool none --rbd-image calls-two-$$
19 --server-address $A namespace add -n $NQN --rbd-pool rbd --rbd-image calls-none
2 --server-address $A namespace add -n $NQN.none --rbd-pool rbd --rbd-image calls-none
0 --server-address $A namespace add -n $NQN --rbd-pool rbd --rbd-image calls-trash-$$ --size 16MB --rbd-create-image --rbd-trash-image-on-delete
22 --server-address $A namespace del -n $NQN --nsid 3
0 --server-address $B namespace set_rbd_trash_image -n $NQN --nsid 3 --rbd-trash-image-on-delete no
0 --server-address $A namespace set_rbd_trash_image -n $NQN --nsid 3 --rbd-trash-image-on-delete yes
0 --server-address $A namespace del -n $NQN --nsid 3 --i-am-sure
0 --server-address $A namespace get_io_stats -n $NQN --nsid 1
0 --server-address $A namespace change_visibility -n $NQN --nsid 1 --auto-visible no
0 --server-address $A namespace add_host -n $NQN --nsid 1 --host-nqn $HOST
0 --server-address $A namespace del_host -n $NQN --nsid 1 --host-nqn $HOST
19 --server-address $A namespace del_host -n $NQN --nsid 1 --host-nqn $HOST
0 --server-address $A namespace change_visibility -n $NQN --nsid 1 --auto-visible yes
17 --server-address $B namespace change_load_balancing_group -n $NQN --nsid 1 --load-balancing-group 2
0 --server-address $A namespace change_load_balancing_group -n $NQN --nsid 1 --load-balancing-group 2
19 --server-address $A namespace change_load_balancing_group -n $NQN --nsid 1 --load-balancing-group 7
0 --server-address $A host list -n $NQN
13 --server-address $A host add -n $NQN --host-nqn *
13 --server-address $B host add -n $NQN --host-nqn *
0 --server-address $A host del -n $NQN --host-nqn *
22 --server-address $A host add -n $NQN --host-nqn $HOST-2 --dhchap-key DHHC-1:00:nonsense:
0 --server-address $A host add -n $NQN --host-nqn $HOST-2 --psk $PSK
17 --server-address $B host add -n $NQN --host-nqn $HOST-2 --psk $PSK
22 --server-address $A subsystem change_key -n $NQN --dhchap-key $SECRET
0 --server-address $B host change_key -n $NQN --host-nqn $HOST-2 --dhchap-key $SECRET
0 --server-address $A subsystem change_key -n $NQN --dhchap-key $SECRET
126 --server-address $B host add -n $NQN --host-nqn $HOST-3
13 --server-address $B host add -n $NQN --host-nqn *
126 --server-address $B host change_key -n $NQN --host-nqn $HOST-2
0 --server-address $B subsystem change_key -n $NQN
0 --server-address $A host change_key -n $NQN --host-nqn $HOST-2
0 --server-address $B host del -n $NQN --host-nqn $HOST-2
0 --server-address $A connection list -n $NQN
0 --server-address $A gw listener_info -n $NQN
19 --server-address $A listener add -n $NQN --host-name c --traddr $A --trsvcid 4420
99 --server-address $A listener add -n $NQN --host-name a --traddr $A --trsvcid 4499
0 --server-address $A gw get_log_level
0 --server-address $A gw set_log_level -l info
0 --server-address $A spdk_log_level get
0 --server-address $A spdk_log_level set -l WARNING
0 --server-address $A spdk_log_level disable
16 --server-address $A subsystem del -n $NQN
2 --server-address $A subsystem del -n $NQN.none
CALLS
}

install_command
certificate server server.example.org
certificate admin admin.example.org
certificate reader reader.example.org
certificate other other.example.org
cat "$world/admin.crt" "$world/reader.crt" >"$world/clients.crt"
printf '[[certificate]]\nname = "%s"\nrole = "%s"\n' admin.example.org admin reader.example.org read >"$world/access.toml"
chmod 600 "$world/access.toml"
openssl genpkey -algorithm RSA -out "$world/encryption.key" 2>/dev/null
chmod 600 "$world/encryption.key"
gateway a "$A" --ceph-nvmeof-api "$A:5500" --ceph-nvmeof-api-for-anybody
gateway b "$B" --ceph-nvmeof-api "$B:5500" --ceph-nvmeof-api-for-anybody
rbd -c "$conf" create --size 64 rbd/calls-one-$$

{ publish "$A" 0; publish "$B" 17; others; publish "$A" 17; } | calls
# Every gateway lets the host in by the key that one of them was given, and by nothing else.
printf '%s\n' "$SECRET" >"$world/host.key"
printf '%s\n' "$OTHER_SECRET" >"$world/other.key"
chmod 600 "$world"/*.key
for address in "$A" "$B"; do
    who=(-a "$address" -n "$NQN" -q "$HOST")
    until_open "${who[@]}" -S "$world/host.key"
    if "$program" identify "${who[@]}" >"$world/refused.log" 2>&1; then die 'a host is let in without its key'; fi
    if "$program" identify "${who[@]}" -S "$world/other.key" >"$world/refused.log" 2>&1; then die 'a host is let in by another key'; fi
done
"$program" host set-key "$NQN" "$HOST" --dhchap-secret-file "$world/other.key" --sealed --control "unix:$world/b.sock" >/dev/null
for address in "$A" "$B"; do until_open -a "$address" -n "$NQN" -q "$HOST" -S "$world/other.key"; done
echo 'both gateways let the host in by its key, and not without'
[[ $(rbd -c "$conf" info rbd/calls-two-$$ --format json) == *'"size":33554432'* ]] || die 'the image has another size'
[[ $(rbd -c "$conf" trash ls rbd) == *calls-trash-$$* ]] || die 'the image of a deleted namespace is not in the trash'
kill -KILL "${gateways[0]}"
{ publish "$B" 17; unpublish "$B" 0 0; unpublish "$B" 2 2; } | calls
[[ $(rbd -c "$conf" ls rbd) == *calls-one-$$* ]] || die 'the image is gone with its namespace'

# Only who shows a certificate may ask, and may do what its role may.
kill "${gateways[1]}" && wait "${gateways[1]}" || true
gateway b "$B" --ceph-nvmeof-api "tls:$B:5500" --control-access "$world/access.toml" --control-tls-cert "$world/server.crt" \
    --control-tls-key "$world/server.key" --control-tls-client-ca "$world/clients.crt"
by() { printf -- '--server-address %s --server-cert %s/server.crt --client-key %s/%s.key --client-cert %s/%s.crt' "$B" "$world" "$world" "$1" "$world" "$1"; }
calls <<CALLS
0 $(by admin) subsystem add -n $NQN --no-group-append
0 $(by reader) subsystem list
13 $(by reader) subsystem del -n $NQN
13 $(by reader) host add -n $NQN --host-nqn $HOST
0 $(by admin) subsystem del -n $NQN
CALLS
for client in other none; do
    words=$(by "$client")
    [[ $client != none ]] || words="--server-address $B"
    # shellcheck disable=SC2086
    if timeout 20 "$folder/bin/ceph-nvmeof" $words subsystem list >"$world/refused.log" 2>&1; then die "$client may ask"; fi
    grep -q UNAVAILABLE "$world/refused.log" || die "$client was not turned away"
done
echo 'turned away: a certificate that is not known, and a client without one'
