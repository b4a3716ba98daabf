# A second host of a subsystem, with fewer rights, in a guest of its own: it executes requests from its input, one a line:
# a number, a word and its arguments. Replies are `answer N STATUS`.
#
#   job-second-host.sh ADDRESS PORT NQN
. /guest-lib.sh

address=$1 port=$2 nqn=$3
readonly HOST_ID=5e17ed9e-0000-4000-8000-000000000002

connect() {
    nvme connect -t tcp -a "$address" -s "$port" -n "$nqn" -i 1 -k 60 \
        -q "nqn.2014-08.org.nvmexpress:uuid:$HOST_ID" -I "$HOST_ID"
}

# refused CODE WORD...: it ends with the status whose type and code these digits are, whatever its flags.
refused() {
    local code=$1 answer
    shift
    if answer=$(do_word "$@" 2>&1); then
        echo "it went well: $*"
        return 1
    fi
    echo "$answer"
    grep -qiE "0x[0-9a-f]?${code}\b" <<<"$answer"
}

do_word() {
    case $1 in
        refused) refused "${@:2}" ;;
        attach) nvme attach-ns "$controller" -n "$2" -c "${3:-$own}" ;;
        detach) nvme detach-ns "$controller" -n "$2" -c "${3:-$own}" ;;
        create) nvme create-ns "$controller" -s "$2" -c "$2" -f 1 -m 1 ;;
        delete) nvme delete-ns "$controller" -n "$2" ;;
        protect) nvme set-feature "$controller" -n "$2" -f 0x84 -V "$3" ;;
        lists) [[ $(nvme list-ns "$controller" --all -o json | jq -c '[.nsid_list[].nsid]') == "$2" ]] ;;
        write) nvme write "$disk" -s 0 -c 0 -z 512 -d /tmp/zeroes ;;
        read) nvme read "$disk" -s 0 -c 0 -z 512 -d /dev/null ;;
        register) nvme resv-register "$disk" -n 1 -k 0xb -r 0 ;;
        preempt) nvme resv-acquire "$disk" -n 1 -c 0xb -p 0xa -t 1 -a 1 ;;
        release) nvme resv-release "$disk" -n 1 -c 0xb -t 1 -a 0 ;;
        clear) nvme resv-release "$disk" -n 1 -c 0xb -t 1 -a 1 ;;
        *) echo "unknown word $1"; return 1 ;;
    esac
}

modprobe nvme-tcp
head -c 512 /dev/zero >/tmp/zeroes
if check 'second host connects' connect; then
    disk=$(wait_for_namespace "$nqn" 1)
    controller=$(controller_device "$nqn")
    own=$(nvme id-ctrl "$controller" -o json | jq .cntlid)
    echo 'second host is ready'
    while read -r -t 1200 number rest; do
        [[ $number != stop ]] || break
        read -r -a words <<<"$rest"
        do_word "${words[@]}"
        echo "answer $number $?"
    done
    check 'second host disconnects' nvme disconnect -n "$nqn"
fi
finish_checks
