#!/bin/busybox sh
# shellcheck shell=dash
# The source service for one connection.
while read -r bytes; do
    seq 1 2147483647 | head -c "$bytes"
done
