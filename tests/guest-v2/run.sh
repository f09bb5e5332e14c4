#!/bin/sh
# Tests the cgroup code on a pure cgroup v2 kernel: boots Debian's kernel in QEMU
# with one static program of ours as its first and only process, and shows what
# that prints: a PASS or FAIL line per check.
#
# Needs qemu-system-x86_64 and a kernel that the caller can read; without them it
# prints SKIPPED and succeeds. On Debian:
#   apt-get install qemu-system-x86 linux-image-cloud-amd64
# Environment: KERNEL (an image instead of the newest one in /boot), ACCEL (tcg,
# or kvm), SECONDS_MAX (240).
set -eu
cd "$(dirname "$0")/../.."

skip() {
    echo "SKIPPED guest-v2: $1"
    exit 0
}

test "$(uname -m)" = x86_64 || skip "this is no x86_64 machine"
qemu=$(command -v qemu-system-x86_64) || skip "qemu-system-x86_64 is not installed"
kernel=${KERNEL:-$(ls -t /boot/vmlinuz-*-amd64 2>/dev/null | head -n 1)}
test -n "$kernel" || skip "no kernel image in /boot (linux-image-cloud-amd64)"
test -r "$kernel" || skip "$kernel is not readable"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
guest=$(cargo build --quiet --package atoll-jail --example guest_v2 --message-format json |
    sed -n 's/.*"name":"guest_v2".*"executable":"\([^"]*\)".*/\1/p')
version=${kernel##*/vmlinuz-}
# Review mode's overlay is a module there. Without it that probe is not checked.
overlay=$(ls "/lib/modules/$version/kernel/fs/overlayfs/overlay.ko" 2>/dev/null || true)
"$guest" archive ${overlay:+"$overlay"} >"$dir/initrd"

echo "kernel $kernel, accelerator ${ACCEL:-tcg}"
status=0
timeout "${SECONDS_MAX:-240}" "$qemu" -accel "${ACCEL:-tcg}" -m 512 -smp 1 \
    -kernel "$kernel" -initrd "$dir/initrd" \
    -append "console=ttyS0 quiet panic=-1 cgroup_no_v1=all random.trust_cpu=on" \
    -display none -serial "file:$dir/serial" -monitor none -no-reboot -net none || status=$?
tr -d '\r' <"$dir/serial" >"$dir/lines"
grep -a -E '^(PASS|FAIL|NOTE|DONE)' "$dir/lines" || true

if test "$status" != 0 || ! grep -a -q '^DONE' "$dir/lines"; then
    echo "FAIL the guest did not finish (status $status); its last lines:"
    tail -n 20 "$dir/lines"
    exit 1
fi
! grep -a -q '^FAIL' "$dir/lines"
