# shellcheck shell=dash
# What init and its commands share: saying, waiting, loading, and the kernel's command line.

# A line of the kernel's log, of level notice: the harness reads it on the console.
say() { echo "<5>poolproof: $*" >/dev/kmsg; }

failure() { say "failure $*"; }

# The lines of its input, each behind a name: report NAME
report() {
    local line
    while IFS= read -r line || [ -n "$line" ]; do say "$1 | $line"; done
}

# parameter NAME DEFAULT: of poolproof.NAME=VALUE; the last one counts.
parameter() {
    local word value=$2
    # shellcheck disable=SC2013 # words
    for word in $(cat /proc/cmdline); do
        case $word in "poolproof.$1="*) value=${word#*=} ;; esac
    done
    echo "$value"
}

has_parameter() { # NAME
    case " $(cat /proc/cmdline) " in *" poolproof.$1 "*) return 0 ;; esac
    return 1
}

# await SECONDS WHAT COMMAND…: until the command succeeds.
await() {
    local left=$(($1 * 10)) seconds=$1 what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        if [ $left -le 0 ]; then
            failure "waited $seconds s for $what"
            return 1
        fi
        usleep 100000
    done
}

# load MODULE PARAMETER…: with what it depends on, by modules.dep; fine too if it is built in.
load() {
    modprobe "$@" 2>/run/modprobe || { failure "module $1: $(cat /run/modprobe)"; return 1; }
}

# The controller by its name in /sys/class/udc.
udc() {
    local found
    for found in /sys/class/udc/*; do
        [ -e "$found" ] || return 1
        echo "${found##*/}"
        return
    done
}

udc_attribute() { # NAME
    cat "/sys/class/udc/$(udc)/$1" 2>/dev/null
}
