# shellcheck shell=bash
# A kernel's modules: the few that the guests need, in a folder that busybox's modprobe can use.

readonly WANTED=${here:?}/guest/modules

need_module_tools() {
    # kmod's programs are where only root's PATH leads.
    PATH=$PATH:/usr/sbin:/sbin
    need depmod kmod
    need modinfo kmod
    need xz xz-utils
}

wanted_modules() { sed -E 's/#.*//; s/[[:space:]]+$//; /^$/d' "$WANTED"; }

# The folder lib/modules/VERSION that DIR is or has: find_modules DIR
find_modules() {
    local found=() candidate
    for candidate in "$1" "$1"/lib/modules/* "$1"/usr/lib/modules/* "$1"/*; do
        [ -f "$candidate/modules.builtin" ] && found+=("$(realpath "$candidate")")
    done
    # lib may be a link to usr/lib.
    mapfile -t found < <(printf '%s\n' "${found[@]}" | sort -u)
    [ -n "${found[0]-}" ] || stop "$1 has no modules" "name the folder that make modules_install wrote"
    [ "${#found[@]}" = 1 ] || stop "$1 has modules of ${#found[@]} kernels" "name one folder lib/modules/VERSION"
    echo "${found[0]}"
}

# select_modules FROM TO: copies the wanted modules and what they depend on from FROM (a lib/modules/VERSION) to
# TO/lib/modules/VERSION, decompressed, with depmod's files. Writes what this kernel lacks to TO/missing.
select_modules() {
    local from=$1 to=$2/lib/modules/${1##*/} name
    declare -A path_of=() is_builtin=() is_taken=()
    local waiting=() missing=()
    while read -r file; do
        name=${file##*/}
        name=${name%%.ko*}
        path_of[${name//-/_}]=$file
    done < <(find "$from/" -name '*.ko*' -type f -printf '%P\n')
    while read -r file; do
        name=${file##*/}
        name=${name%.ko}
        is_builtin[${name//-/_}]=1
    done <"$from/modules.builtin"

    mkdir -p "$to"
    cp -- "$from"/modules.builtin* "$from/modules.order" "$to/"
    mapfile -t waiting < <(wanted_modules)
    while [ "${#waiting[@]}" != 0 ]; do
        name=${waiting[0]//-/_}
        waiting=("${waiting[@]:1}")
        [ -z "${is_taken[$name]-}" ] || continue
        is_taken[$name]=1
        if [ -n "${path_of[$name]-}" ]; then
            copy_module "$from/${path_of[$name]}" "$to/${path_of[$name]}"
            mapfile -t -O "${#waiting[@]}" waiting < <(modinfo -F depends "$from/${path_of[$name]}" | tr ',' '\n' | sed '/^$/d')
        elif [ -z "${is_builtin[$name]-}" ]; then
            missing+=("$name")
        fi
    done
    printf '%s\n' "${missing[@]}" | sed '/^$/d' >"$2/missing"
    depmod -b "$2" "${from##*/}"
}

copy_module() { # FROM TO, which loses the suffix of its compression
    mkdir -p "$(dirname "$2")"
    case $1 in
        *.ko) cp -- "$1" "$2" ;;
        *.ko.xz) xz -dc -- "$1" >"${2%.xz}" ;;
        *.ko.gz) gzip -dc -- "$1" >"${2%.gz}" ;;
        *.ko.zst) need zstd zstd; zstd -qdc -- "$1" >"${2%.zst}" ;;
        *) stop "$1 is compressed in an unknown way" "decompress it" ;;
    esac
}

# is_image FILE: an arm64 Image as QEMU boots it (Documentation/arch/arm64/booting.rst: magic "ARM\x64" at byte 56).
is_image() { [ "$(dd if="$1" bs=1 skip=56 count=4 status=none)" = 'ARMd' ]; }

# copy_image FROM TO: an Image, decompressed if the package had it so.
copy_image() {
    case $(dd if="$1" bs=1 count=2 status=none | od -An -tx1 | tr -d ' ') in
        1f8b) gzip -dc -- "$1" >"$2" ;;
        *) cp -- "$1" "$2" ;;
    esac
    is_image "$2" || stop "$1 is no arm64 Image" "only Images, plain or in gzip, are known here"
}
