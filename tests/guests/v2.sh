#!/bin/sh
# Tests the cgroup code on a pure cgroup v2 kernel: boots Debian's kernel with one
# static program of ours as its first and only process.
set -eu
cd "$(dirname "$0")/../.."
NAME=guest-v2
. tests/guests/boot.sh

guest=$(cargo build --quiet --package atoll-jail --example guest_v2 --message-format json |
    sed -n 's/.*"name":"guest_v2".*"executable":"\([^"]*\)".*/\1/p')
# Review mode's overlay is a module there. Without it that probe is not checked.
overlay=$(ls "/lib/modules/$version/kernel/fs/overlayfs/overlay.ko" 2>/dev/null || true)
"$guest" archive ${overlay:+"$overlay"} >"$dir/initrd"
boot "" -m 512 -smp 1 -initrd "$dir/initrd"
