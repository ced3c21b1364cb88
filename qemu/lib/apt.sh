# shellcheck shell=bash
# Debian packages without installing them: an apt of our own, for any architecture, that verifies as apt does.
#
# It has its own state, sources and configuration below $work, so that it neither reads nor changes what is installed.
# The mirror and the proxy are those of the machine's apt; they stand only in files below $work, which is temporary.
# Nothing is configured or run: packages are unpacked, and that needs no root.
# The script that sources this has set `cache`, and `mirror` to an archive or to nothing, and has made `work` (see
# common.sh).
: "${self:?}" "${cache=}" "${mirror=}"

readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
# Where kernels and what runs on them come from.
# shellcheck disable=SC2034 # for the scripts
readonly GUEST_SUITES='bookworm bookworm-backports trixie trixie-backports'

need_apt() {
    need apt-get apt
    need apt-cache apt
    need dpkg-deb dpkg
    [ -r "$KEYRING" ] || stop "Debian's signing keys are missing" "install Debian's package debian-archive-keyring"
}

# The base address of the Debian archive that the machine's apt uses.
find_mirror() {
    local found
    # shellcheck disable=SC2016 # apt's own variable
    found=$(apt-get indextargets --format '$(REPO_URI)' \
        'Identifier: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | sort -u | first)
    [ -n "$found" ] || stop "apt knows no Debian archive" "run apt-get update, or name one with --mirror"
    echo "$found"
}

# Messages of apt without the hosts that it talks to.
hide_hosts() { sed -E 's#://[^/ ]+#://…#g; s#(to|resolve|from) [^ ]*:(80|443|http|https)#\1 …#g' >&2; }

# open_apt NAME ARCHITECTURE MIRROR: from here on, ask_apt NAME … asks it.
open_apt() {
    local root=${work:?}/apt-$1
    mkdir -p "$root"/{state/lists/partial,cache/archives/partial,etc/sources.d,etc/preferences.d,etc/none}
    : >"$root/state/status"
    {
        # Proxies and time limits; no hooks, no preferences.
        apt-config dump --format '%F "%v";%n' Acquire
        cat <<CONFIG
Dir::State "$root/state";
Dir::State::status "$root/state/status";
Dir::Cache "$root/cache";
Dir::Etc "$root/etc";
Dir::Etc::main "$root/etc/none/main";
Dir::Etc::parts "$root/etc/none";
Dir::Etc::sourcelist "$root/etc/none/list";
Dir::Etc::sourceparts "$root/etc/sources.d";
Dir::Etc::trustedparts "$root/etc/none";
APT::Architecture "$2";
#clear APT::Architectures;
APT::Architectures { "$2"; };
APT::Install-Recommends "false";
APT::Default-Release "/.*-backports/";
APT::Sandbox::User "root";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::AllowInsecureRepositories "false";
APT::Update::Error-Mode "any";
CONFIG
    } >"$root/apt.conf"
    echo "$3" >"$root/mirror"
}

# ask_apt NAME apt-get|apt-cache …
ask_apt() {
    local root=$work/apt-$1
    shift
    # apt reads this file first, and then the parts that it names, which are none: no hook of the machine runs.
    APT_CONFIG=$root/apt.conf "$1" -qq "${@:2}" 2> >(hide_hosts)
}

# add_suite NAME SUITE: fails if the mirror does not have it or its signature does not verify.
add_suite() {
    local source=$work/apt-$1/etc/sources.d/$2.sources
    cat >"$source" <<SOURCE
Types: deb
URIs: $(<"$work/apt-$1/mirror")
Suites: $2
Components: main
Signed-By: $KEYRING
SOURCE
    say "$1: reads the index of $2"
    run ask_apt "$1" apt-get update \
        -o "Dir::Etc::sourcelist=$source" -o "Dir::Etc::sourceparts=/dev/null" && return
    rm -f "$source"
    return 1
}

# candidates NAME PACKAGE: its versions, the newest first; nothing if there is no such package.
candidates() {
    { ask_apt "$1" apt-cache show "$2" 2>/dev/null || true; } | sed -n 's/^Version: //p' | sort -u | sort_versions
}

sort_versions() {
    local sorted=() version at
    while read -r version; do
        for ((at = 0; at < ${#sorted[@]}; at++)); do
            dpkg --compare-versions "$version" gt "${sorted[at]}" && break
        done
        sorted=("${sorted[@]:0:at}" "$version" "${sorted[@]:at}")
    done
    [ "${#sorted[@]}" = 0 ] || printf '%s\n' "${sorted[@]}"
}

# field NAME PACKAGE=VERSION FIELD
field() { ask_apt "$1" apt-cache show "$2" | sed -n "s/^$3: //p" | first; }

# The first line of its input. Unlike head it reads to the end: a writer that is cut off fails.
first() { sed -n 1p; }

# describe NAME PACKAGE=VERSION…: a line for each: package, version, architecture, size, hash
describe() {
    ask_apt "$1" apt-cache show "${@:2}" | awk -v RS= -v FS='\n' -v OFS='\t' '{
        for (at = 1; at <= NF; at++) {
            colon = index($at, ": ")
            field[substr($at, 1, colon - 1)] = substr($at, colon + 2)
        }
        print field["Package"], field["Version"], field["Architecture"], field["Size"], "sha256:" field["SHA256"]
    }'
}

# download NAME FOLDER MANIFEST: the packages of the manifest (the last columns as in `describe`), into FOLDER, where
# an earlier, interrupted run may have left some.
download() {
    local name=$1 folder=$2 packages
    mapfile -t packages < <(awk -F'\t' '{print $2 "=" $3}' "$3")
    say "downloads for $(awk -F'\t' '{size += $5} END {printf "%s: %d package%s, %.1f MiB", $1, NR, NR == 1 ? "" : "s", size / 2^20}' "$3")"
    awk -F'\t' '{print $2, $3}' "$3" | paste -sd, | sed 's/,/, /g' | fold -sw 100 | sed 's/^/    /; s/ *$//'
    mkdir -p "$folder"
    run download_into "$folder" "$name" "${packages[@]}" ||
        stop "the download failed" "run $self again; it goes on where it stopped"
}

download_into() { # FOLDER NAME PACKAGE=VERSION…
    cd "$1" || return
    ask_apt "$2" apt-get download "${@:3}"
}

# unpack FOLDER-OF-PACKAGES TARGET TAR-OPTION…
unpack() {
    local package
    mkdir -p "$2"
    for package in "$1"/*.deb; do
        run unpack_one "$package" "$2" "${@:3}" || stop "${package##*/} cannot be unpacked" "is the disk full?"
    done
}

unpack_one() { # PACKAGE TARGET TAR-OPTION…
    dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --no-same-owner "${@:3}"
}

# Downloads into the cache.

# open_archive NAME ARCHITECTURE SUITES, once in a run
open_archive() {
    [ ! -d "$work/apt-$1" ] || return 0
    local suite found=
    [ -n "$mirror" ] || mirror=$(find_mirror)
    open_apt "$1" "$2" "$mirror"
    for suite in $3; do
        if add_suite "$1" "$suite"; then found=1
        else say "$1: goes on without $suite"
        fi
    done
    [ -n "$found" ] || stop "no index of the archive could be read" "see apt's messages above; is there a network?"
}

fetch() { # PIECE NAME PACKAGE=VERSION…, into downloads/PIECE, with its manifest in $work/manifest
    describe "${@:2}" | sed "s/^/$1\t/" >"$work/manifest"
    # Of an older version, when the archive moved on in between.
    keep_only "$cache/downloads/$1" "${@:3}"
    download "$2" "$cache/downloads/$1" "$work/manifest"
}

keep_only() { # FOLDER PACKAGE=VERSION…
    local folder=$1 file known
    shift
    for file in "$folder"/*.deb; do
        [ -e "$file" ] || continue
        known=${file##*/}
        # A file is NAME_VERSION_ARCHITECTURE.deb, with %3a for a colon.
        known=${known%_*}
        known=${known/_/=}
        [[ " $* " == *" ${known//%3a/:} "* ]] || rm -f -- "$file"
    done
}
