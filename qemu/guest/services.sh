# shellcheck shell=dash
# What the gadgets serve, made for tests: every byte can be checked in both directions. Ports as in devices/gadgets.
#
#   tcp 7   echo (RFC 862)
#   tcp 9   discard (RFC 863); at the end of the host's stream it answers one line, `sha256sum -` of it
#   tcp 19  source: for a line with a decimal number, so many bytes of 1, 2, 3, … in decimal, one a line
#   ttyGS0  echo

BOARD_ADDRESS=192.168.7.2/24

start_services() { # KIND[,KIND…]
    case ,$1, in *,ether,*) start_network || return 1 ;; esac
    case ,$1, in *,serial,*) start_serial || return 1 ;; esac
}

# After the gadget was bound again: its network interface is a new one. Servers listen on, whatever the interface.
restore_services() { # KIND[,KIND…]
    case ,$1, in *,ether,*) bring_network_up ;; esac
}

start_network() {
    bring_network_up || return 1
    ip link set lo up
    serve 7 echo cat
    serve 9 discard sha256sum
    serve 19 source /poolproof/source.sh
}

bring_network_up() {
    # Not by sysfs: from there 6.1 loses it when its controller goes, and does not bring it back.
    await 10 'network interface usb0' ip link show usb0 || return 1
    # What configfs made keeps its interface, and that its address.
    ip addr flush dev usb0
    if ! { ip addr add "$BOARD_ADDRESS" dev usb0 && ip link set usb0 up; }; then
        failure 'usb0 cannot be brought up'
        return 1
    fi
    say "usb0 up $BOARD_ADDRESS"
}

# Each connection has a program of its own.
serve() { # PORT NAME PROGRAM
    nc -ll -p "$1" -e "$3" >/dev/null 2>&1 </dev/null &
    say "service $2 tcp $1"
}

start_serial() {
    await 10 /dev/ttyGS0 test -c /dev/ttyGS0 || return 1
    echo_serial &
    say 'service echo ttyGS0'
}

# Bytes as they come. A disconnected host hangs the terminal up, so again.
echo_serial() {
    while true; do
        { stty raw -echo; cat; } </dev/ttyGS0 >/dev/ttyGS0 2>/dev/null
        sleep 1
    done
}
