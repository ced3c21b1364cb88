#!/bin/sh
# shellcheck disable=SC2016 # $arg1, $retval: tracefs reads them
# Logs what the kernel's DMA pools do, by kprobe events: what `poolproof check --observed` reads. As root.
#
#   kprobe-events.sh start   begins. Pools are known from their creation on: load or bind the driver after this
#   kprobe-events.sh print   prints the log so far
#   kprobe-events.sh stop    ends, and leaves nothing behind
#
# Everything is in an instance of tracefs that is called poolproof; nobody else's tracing is touched. Any POSIX shell will
# do, and busybox.
#
# 64-bit kernels from 5.15 on, x86_64 and arm64, with CONFIG_KPROBE_EVENTS; tried on Debian's arm64 kernels 6.1, 6.12 and
# 7.3. dma_pool_alloc returns the device's address by a pointer, which is there only on entry, and the address only on
# return:
#
#   6.9 and later  a return probe sees the arguments ($arg3, "entry data")
#   before         a histogram keeps the pointer until the return, a synthetic event carries it, an event probe reads what it
#                  points to: CONFIG_HIST_TRIGGERS, CONFIG_SYNTH_EVENTS. An allocation in an interrupt that came during
#                  another one of the same task takes its pointer away: that one is then missing in the log
#
# struct dma_pool is private to mm/dmapool.c. Where its name and size lie is asked of BTF (CONFIG_DEBUG_INFO_BTF, 6.9 and
# later), and is else as its versions have it; with CONFIG_DEBUG_SPINLOCK or lockdep that is wrong, and only pools that were
# created since `start` have their names.
set -u
group=poolproof

stop_with() {
    echo "kprobe-events.sh: $*" >&2
    exit 1
}

find_tracefs() {
    tracing=/sys/kernel/tracing
    [ -e $tracing/dynamic_events ] || mount -t tracefs tracefs $tracing 2>/dev/null
    [ -w $tracing/dynamic_events ] || stop_with "$tracing/dynamic_events cannot be written: it needs root, and a kernel with CONFIG_KPROBE_EVENTS"
    instance=$tracing/instances/$group
}

add() { echo "$1" 2>/dev/null >>"$tracing"/dynamic_events; }

# How a kernel calls the creation of a pool: from 6.16 on with a node, dma_pool_create is only a wrapper then.
find_create() {
    create=dma_pool_create
    if grep -q ' dma_pool_create_node$' /proc/kallsyms; then create=dma_pool_create_node; fi
}

# Who called, on entry.
set_caller() {
    case $(uname -m) in
        aarch64) caller='caller=%x30:symbol' ;;
        x86_64) caller='caller=+0($stack):symbol' ;;
        *) caller='' ;;
    esac
}

# What is read from a pool at an address, by the layout of its version: set_fields POOL
set_fields() {
    major=$(uname -r | cut -d. -f1)
    minor=$(uname -r | cut -d. -f2 | sed 's/[^0-9].*//')
    if [ "$create" = dma_pool_create_node ]; then
        name="name=+80($1):string" fields="size=+64($1):u32 boundary=+72($1):u32 device=+56($1):x64"
    elif [ "$major" -gt 6 ] || { [ "$major" = 6 ] && [ "$minor" -ge 4 ]; }; then
        name="name=+76($1):string" fields="size=+64($1):u32 boundary=+72($1):u32 device=+56($1):x64"
    else
        name="name=+56($1):string" fields="size=+24($1):u64 boundary=+48($1):u64 device=+32($1):x64"
    fi
}

# Return probes that see the arguments; with what BTF knows, or by the layout.
define_by_arguments() {
    alloc='dma_pool_alloc pool=$arg1:x64 cpu=$retval:x64 dma=+0($arg3):x64'
    name='name=pool->name:string' fields='size=pool->size boundary=pool->boundary device=pool->dev:x64'
    if ! add "r:$group/dma_pool_alloc $alloc $name $fields"; then
        set_fields '$arg1'
        add "r:$group/dma_pool_alloc $alloc $name $fields" || return 1
    fi
    add "r:$group/dma_pool_create $create pool=\$retval:x64 name=+0(\$arg1):string device=\$arg2:x64 size=\$arg3:u64 align=\$arg4:u64 boundary=\$arg5:u64"
}

# keep KEY N FILTER: joins entry and return by KEY; variables are called by N, of which an event has each name once. Appends:
# to open a trigger file for writing anew removes what is in it.
keep() {
    echo "hist:keys=$1:p$2=pool,h$2=handle if $3" >>"$events/alloc_entry/trigger" &&
        echo "hist:keys=$1:c$2=cpu,i$2=__probe_ret_ip:onmatch($group.alloc_entry).trace(${group}_alloc,\$p$2,\$h$2,\$c$2,\$i$2) if $3" \
            >>"$events/alloc_return/trigger"
}

define_by_histogram() {
    set_fields '$pool'
    # The first return probe of a function fires first.
    add "r:$group/alloc_time dma_pool_alloc" && add "r:$group/create_time dma_pool_create" || return 1
    add "p:$group/alloc_entry dma_pool_alloc pool=\$arg1:x64 handle=\$arg3:x64" &&
        add "r:$group/alloc_return dma_pool_alloc cpu=\$retval:x64" &&
        add "s:${group}_alloc u64 pool; u64 handle; u64 cpu; u64 caller" &&
        add "p:$group/create_entry dma_pool_create name=\$arg1:x64 device=\$arg2:x64 size=\$arg3:u64 align=\$arg4:u64 boundary=\$arg5:u64" &&
        add "r:$group/create_return dma_pool_create pool=\$retval:x64" &&
        add "s:${group}_create u64 pool; u64 name; u64 device; u64 size; u64 align; u64 boundary; u64 caller" || return 1
    events=$tracing/events/$group
    # The idle tasks of all processors have one number, and cannot move to another processor.
    keep common_pid 1 'common_pid != 0' && keep common_cpu 0 'common_pid == 0' &&
        echo "hist:keys=common_pid:n=name,d=device,s=size,a=align,b=boundary" >>"$events"/create_entry/trigger &&
        echo "hist:keys=common_pid:q=pool,i=__probe_ret_ip:onmatch($group.create_entry).trace(${group}_create,\$q,\$n,\$d,\$s,\$a,\$b,\$i)" \
            >>"$events"/create_return/trigger &&
        add "e:$group/dma_pool_alloc synthetic.${group}_alloc pool=\$pool:x64 cpu=\$cpu:x64 dma=+0(\$handle):x64 caller=\$caller:symbol $name $fields" &&
        add "e:$group/dma_pool_create synthetic.${group}_create pool=\$pool:x64 name=+0(\$name):string device=\$device:x64 size=\$size:u64 align=\$align:u64 boundary=\$boundary:u64 caller=\$caller:symbol"
}

# What is there on entry. A block is free from then on, as it is in use from the return of its allocation on: the log's
# order is that of the driver.
define_entries() {
    add "p:$group/dma_pool_free dma_pool_free pool=\$arg1:x64 cpu=\$arg2:x64 dma=\$arg3:x64 $caller" &&
        add "p:$group/dma_pool_destroy dma_pool_destroy pool=\$arg1:x64 $caller"
}

start() {
    [ ! -e "$instance" ] || stop_with "it runs already: $instance"
    case $(uname -m) in
        *64) ;;
        *) stop_with "$(uname -m): a 64-bit kernel is needed" ;;
    esac
    find_create
    set_caller
    if ! define_by_arguments; then
        remove_events
        define_by_histogram || fail_to_start
    fi
    define_entries || fail_to_start
    mkdir "$instance" || fail_to_start
    # Of the clocks that all processors share, the one that the kernel's own log has, or nearly.
    echo global >"$instance"/trace_clock
    echo 4096 >"$instance"/buffer_size_kb
    for event in create alloc free destroy; do
        echo 1 >"$instance"/events/$group/dma_pool_$event/enable || fail_to_start
    done
    # 6.1 gives an event probe the time of the event before it in the buffer, whenever that was: there is one of the same
    # moment.
    for event in alloc_time create_time; do
        [ ! -e "$instance"/events/$group/$event ] || echo 1 >"$instance"/events/$group/$event/enable || fail_to_start
    done
}

fail_to_start() {
    tail -n 3 "$tracing"/error_log >&2
    stop
    stop_with "kernel $(uname -r) refuses the events (its words are above)"
}

print() {
    [ -e "$instance" ] || stop_with "it does not run: kprobe-events.sh start"
    echo "# poolproof observed allocations, kernel $(uname -r) $(uname -m)"
    cat "$instance"/trace
}

remove_events() {
    events=$tracing/events/$group
    # What refers to another goes first; a trigger is removed by its own words.
    for event in dma_pool_alloc dma_pool_create; do add "-:$group/$event"; done
    for event in alloc_return create_return alloc_entry create_entry; do
        [ -e "$events"/$event/trigger ] || continue
        while read -r trigger; do
            case $trigger in hist:*) echo "!${trigger%% \[*}" 2>/dev/null >>"$events"/$event/trigger ;; esac
        done <"$events"/$event/trigger
    done
    for event in alloc create; do add "-:synthetic/${group}_$event"; done
    for event in alloc_return create_return alloc_entry create_entry alloc_time create_time; do add "-:$group/$event"; done
}

stop() {
    if [ -e "$instance" ]; then
        echo 0 >"$instance"/events/$group/enable
        rmdir "$instance"
    fi
    remove_events
    for event in dma_pool_free dma_pool_destroy; do add "-:$group/$event"; done
    ! grep -q ":$group/" "$tracing"/dynamic_events
}

case ${1-} in
    start | print | stop)
        find_tracefs
        "$1"
        ;;
    --help | -h)
        sed -n '3,8s/^# \{0,1\}//p' "$0"
        ;;
    *)
        sed -n '3,8s/^# \{0,1\}//p' "$0" >&2
        exit 129
        ;;
esac
