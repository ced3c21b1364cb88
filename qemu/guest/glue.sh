# shellcheck shell=dash
# From a PCI function to a USB device controller, by either of Linux's glue drivers.

PCI=/sys/bus/pci/devices
TREE=/sys/firmware/devicetree/base

attach_glue() { # msm|pci
    case $1 in
        msm) attach_msm ;;
        pci) attach_pci ;;
        *) failure "glue $1 is unknown: msm, pci or none"; return 1 ;;
    esac || return 1
    await 10 "a controller in /sys/class/udc" udc || { report_deferred; return 1; }
    say "udc ready $(udc) glue $1"
}

attach_pci() {
    local function
    function=$(await_function 0x153f:0x1006) || return 1
    say "pci $function bar0 $(bar0_of "$function")"
    load phy-generic && load ci_hdrc_pci
}

# The glue drives the function's BAR as a platform device. No PCI driver binds, so the window is opened here first:
# closed, it reads all ones.
attach_msm() {
    local function module
    function=$(await_function 0x153f:0x1007) || return 1
    agree_on_window "$function" || return 1
    agree_on_interrupt "$function" || return 1
    echo 1 >"$PCI/$function/enable" || { failure "pci $function cannot be enabled"; return 1; }
    say "pci $function bar0 $(bar0_of "$function") enabled"
    for module in fixed ulpi phy-qcom-usb-hs ci_hdrc_msm; do load "$module" || return 1; done
}

await_function() { # VENDOR:DEVICE; prints its address
    await 5 "PCI function $1" find_function "$1" && find_function "$1"
}

find_function() { # VENDOR:DEVICE
    local function
    for function in "$PCI"/*; do
        [ -e "$function/vendor" ] || continue
        [ "$(cat "$function/vendor"):$(cat "$function/device")" = "$1" ] || continue
        echo "${function##*/}"
        return
    done
    return 1
}

bar0_of() { # FUNCTION
    local first rest
    # shellcheck disable=SC2034 # the end and the flags
    read -r first rest <"$PCI/$1/resource"
    printf '0x%x\n' "$first"
}

# The first node of the device tree that Linux's msm glue binds to.
msm_node() {
    local compatible
    for compatible in "$TREE"/usb@*/compatible; do
        [ -e "$compatible" ] || continue
        tr '\0' '\n' <"$compatible" | grep -qx qcom,ci-hdrc || continue
        echo "${compatible%/compatible}"
        return
    done
    return 1
}

# cell FILE NUMBER: a 32-bit cell of a property, counted from 0.
cell() { printf '%d\n' "0x$(dd if="$1" bs=4 skip="$2" count=1 2>/dev/null | xxd -p)"; }

# Linux chose where BAR0 is; the device tree was written before. Driving another window would be somebody else's.
agree_on_window() { # FUNCTION
    local node said
    node=$(msm_node) || { failure "the device tree has no qcom,ci-hdrc: is it QEMU's own?"; return 1; }
    said=$(printf '0x%x' $((($(cell "$node/reg" 0) << 32) | $(cell "$node/reg" 1))))
    [ "$said" = "$(bar0_of "$1")" ] && return
    failure "bar0 of $1 is at $(bar0_of "$1"), the device tree says $said"
    return 1
}

# QEMU's virt wires INTA of slot n to SPI 3 + n % 4.
agree_on_interrupt() { # FUNCTION
    local node slot wired said
    node=$(msm_node) || return 1
    slot=${1##*:}
    wired=$((3 + 0x${slot%.*} % 4))
    said=$(cell "$node/interrupts" 1)
    [ "$said" = "$wired" ] && return
    failure "$1 interrupts by SPI $wired, the device tree says $said: is it in slot 1?"
    return 1
}

# Devices that wait for another driver, and why.
report_deferred() { report deferred </sys/kernel/debug/devices_deferred; }
