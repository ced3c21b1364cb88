# shellcheck shell=dash
# Gadgets: g_ether for `ether` alone, as on the recorded board; everything else by configfs.

GADGET=/sys/kernel/config/usb_gadget/poolproof
DISK=/run/disk
DISK_MIB=8
# As in devices/gadgets: locally administered, one for each end.
BOARD_MAC=02:50:50:00:00:02
HOST_MAC=02:50:50:00:00:01

bind_gadget() { # KIND[,KIND…]
    local kinds
    echo "$1" >/run/gadget
    kinds=$(echo "$1" | tr ',' ' ')
    if [ "$kinds" = ether ]; then
        load g_ether "dev_addr=$BOARD_MAC" "host_addr=$HOST_MAC" || return 1
    else
        compose "$kinds" || return 1
    fi
    await 10 "a gadget on $(udc)" has_gadget || return 1
    say "gadget $1 bound"
}

unbind_gadget() {
    if [ -d "$GADGET" ]; then release; else rmmod g_ether; fi || return 1
    await 10 "$(udc) without a gadget" has_no_gadget
}

release() { echo '' >"$GADGET/UDC"; }

has_gadget() { [ -n "$(udc_attribute function)" ]; }

has_no_gadget() { ! has_gadget; }

# One gadget of all kinds; composed once, bound as often as asked.
compose() { # KINDS
    if [ ! -d "$GADGET" ]; then
        load libcomposite || return 1
        mountpoint_of_configfs
        if ! { mkdir "$GADGET" && describe "$1" && fill_configurations "$1"; }; then
            failure "gadget $1 cannot be composed"
            return 1
        fi
    fi
    # Still bound to the name of a controller that went away.
    [ -z "$(cat "$GADGET/UDC")" ] || release
    udc >"$GADGET/UDC" || { failure "gadget $1 does not bind to $(udc)"; return 1; }
}

mountpoint_of_configfs() {
    load configfs
    [ -d /sys/kernel/config/usb_gadget ] || mount -t configfs configfs /sys/kernel/config
}

# The ids that Linux's legacy gadgets have, by which usbtest and others know them.
product_of() { # KINDS
    case $1 in
        source-sink) echo 0xa4a0 ;;
        ether) echo 0xa4a2 ;;
        mass-storage) echo 0xa4a5 ;;
        serial) echo 0xa4a7 ;;
        *) echo 0xa4ac ;;
    esac
}

describe() { # KINDS
    echo 0x0525 >"$GADGET/idVendor"
    product_of "$1" >"$GADGET/idProduct"
    mkdir "$GADGET/strings/0x409" || return 1
    # As the legacy gadgets say it: the controller by its glue.
    echo "Linux $(uname -r) with ci_hdrc_$(parameter glue none)" >"$GADGET/strings/0x409/manufacturer"
    echo "poolproof $1" >"$GADGET/strings/0x409/product"
    echo 0123456789 >"$GADGET/strings/0x409/serialnumber"
}

fill_configurations() { # KINDS
    local kind
    if [ "$1" = source-sink ]; then
        # Two configurations with g_zero's numbers.
        configure 3 'source and sink' && add_function SourceSink.0 3 &&
            configure 2 loopback && add_function Loopback.0 2
        return
    fi
    configure 1 "$1" || return 1
    for kind in $1; do
        case $kind in
            ether) add_ether ;;
            source-sink) add_function SourceSink.0 1 ;;
            serial) add_function acm.0 1 ;;
            mass-storage) add_disk ;;
            *) failure "gadget $kind is unknown: ether, source-sink, serial, mass-storage or none"; false ;;
        esac || return 1
    done
}

configure() { # NUMBER NAME
    mkdir -p "$GADGET/configs/c.$1/strings/0x409" && echo "$2" >"$GADGET/configs/c.$1/strings/0x409/configuration"
}

add_function() { # FUNCTION.INSTANCE CONFIGURATION; the kernel loads the function's module
    mkdir -p "$GADGET/functions/$1" && ln -s "$GADGET/functions/$1" "$GADGET/configs/c.$2/"
}

add_ether() {
    mkdir "$GADGET/functions/ecm.0" || return 1
    echo "$BOARD_MAC" >"$GADGET/functions/ecm.0/dev_addr"
    echo "$HOST_MAC" >"$GADGET/functions/ecm.0/host_addr"
    add_function ecm.0 1
}

add_disk() {
    mkdir "$GADGET/functions/mass_storage.0" || return 1
    truncate -s "${DISK_MIB}M" "$DISK" || return 1
    echo "$DISK" >"$GADGET/functions/mass_storage.0/lun.0/file" || return 1
    say "disk $DISK $DISK_MIB MiB"
    add_function mass_storage.0 1
}
