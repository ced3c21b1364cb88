# shellcheck shell=bash
# What all scripts in qemu/ share: how they fail, the cache, finished pieces, children that end with their parent.
# The script sets `self` (the name in its messages) before it sources this.
: "${self:?}"

# Exit statuses are poolproof's own: 125 nothing can be tested, 129 wrong usage, 130 and above everything else that is not
# a verdict.
readonly UNTESTABLE=125 WRONG_USAGE=129 INTERNAL=130
# The status below 129 that we end with on purpose, if it is not 0.
verdict=0

# stop WHAT WHAT-TO-DO
stop() {
    echo "$self: $1: $2" >&2
    exit "$INTERNAL"
}

# untestable WHAT: for git bisect, what is under test is not there or does not build. Not in a subshell.
untestable() {
    echo "$self: $1" >&2
    verdict=$UNTESTABLE
    exit "$UNTESTABLE"
}

# refuse WHAT
refuse() {
    echo "$self: $1: see $self --help" >&2
    exit "$WRONG_USAGE"
}

say() { echo "$self: $*"; }

# Prints the comment at the top of the script, which is its help.
print_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"; }

# need_value FLAG COUNT-OF-ARGUMENTS-LEFT
need_value() { [ "$2" -ge 2 ] || refuse "$1 needs a value"; }

# need COMMAND PACKAGE
need() { command -v "$1" >/dev/null || stop "$1 is missing" "install Debian's package $2"; }

default_cache() {
    local base=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
    if [ -n "${POOLPROOF_CACHE-}" ]; then echo "$POOLPROOF_CACHE"
    elif [ -n "$base" ]; then echo "$base/poolproof"
    fi
}

# One hash over words and the contents of files: digest WORD… -- FILE…
digest() {
    local words=()
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    { printf '%s\n' "${words[@]}"; cat -- "$@"; } | sha256sum | cut -d' ' -f1
}

# A piece is a folder that appears complete, by one rename, with the recipe that it was made by inside.
is_made() { # FOLDER RECIPE
    [ -f "$1/recipe" ] && [ "$(<"$1/recipe")" = "$2" ]
}

publish() { # NEW FOLDER RECIPE
    echo "$3" >"$1/recipe"
    rm -rf -- "$2"
    mkdir -p -- "$(dirname "$2")"
    mv -T -- "$1" "$2"
}

# lock FOLDER MINUTES: one at a time in it; the lock ends with whoever holds it, or with the next one that it takes.
lock() {
    exec 9>"$1/lock"
    flock -n 9 && return
    say "waits for another run in $1"
    flock -w "$((${2:-15} * 60))" 9 || stop "another run has held $1 for ${2:-15} minutes" "end it, or name another --cache"
}

unlock() { exec 9>&-; }

# A temporary folder beside what will be renamed, and a child with a process group of its own; neither outlives us,
# whichever way we end.
work=
child=

make_work() { # PARENT
    mkdir -p -- "$1"
    sweep_work "$1"
    work=$(mktemp -d -- "$1/work.$$.XXXXXX")
}

# What a run left behind that was killed without a chance to clean up.
sweep_work() { # PARENT
    local left owner
    for left in "$1"/work.*.*; do
        owner=${left##*/work.}
        owner=${owner%%.*}
        if [ -d "$left" ] && ! kill -0 "$owner" 2>/dev/null; then rm -rf -- "$left"; fi
    done
}

# Bash runs no trap while it waits for a foreground child; for a background one it does at once.
run() {
    set -m
    "$@" </dev/null &
    child=$!
    set +m
    local status=0
    wait "$child" || status=$?
    child=
    return "$status"
}

clean_up() {
    local status=$?
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill -TERM -- "-$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    [ -z "$work" ] || rm -rf -- "$work"
    if [ "$status" != "$verdict" ] && [ "$status" -gt 0 ] && [ "$status" -lt "$WRONG_USAGE" ]; then status=$INTERNAL; fi
    exit "$status"
}

trap clean_up EXIT
# What fails without a word of ours, which are all of these statuses, is told where.
set -E
trap '[ $? -ge "$WRONG_USAGE" ] || echo "$self: ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND: failed" >&2' ERR
trap 'exit 130' INT
trap 'exit 143' TERM
# Not 129, which is wrong usage.
trap 'exit 143' HUP
