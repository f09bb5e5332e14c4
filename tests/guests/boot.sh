# For the scripts beside: boots Debian's kernel in QEMU. They set NAME before and
# are in the workspace's root.
#
# Needs qemu-system-x86_64 and a kernel that the caller can read; without them
# SKIPPED is printed, which is no failure. On Debian:
#   apt-get install qemu-system-x86 linux-image-cloud-amd64
# Environment: KERNEL (an image instead of the newest one in /boot), ACCEL (tcg,
# or kvm), SECONDS_MAX (240).

skip() {
    echo "SKIPPED $NAME: $1"
    exit 0
}

test "$(uname -m)" = x86_64 || skip "this is no x86_64 machine"
qemu=$(command -v qemu-system-x86_64) || skip "qemu-system-x86_64 is not installed"
kernel=${KERNEL:-$(ls -t /boot/vmlinuz-*-amd64 2>/dev/null | head -n 1)}
test -n "$kernel" || skip "no kernel image in /boot (linux-image-cloud-amd64)"
test -r "$kernel" || skip "$kernel is not readable"
version=${kernel##*/vmlinuz-}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# boot COMMAND-LINE [QEMU-ARGUMENT]...: runs a machine to its end, shows its lines of
# PASS, FAIL and NOTE, and fails if one failed or the last, DONE, is not there.
boot() {
    line=$1
    shift
    echo "kernel $kernel, accelerator ${ACCEL:-tcg}"
    status=0
    timeout "${SECONDS_MAX:-240}" "$qemu" -accel "${ACCEL:-tcg}" -cpu max -kernel "$kernel" "$@" \
        -append "console=ttyS0 quiet panic=-1 cgroup_no_v1=all random.trust_cpu=on $line" \
        -display none -serial "file:$dir/serial" -monitor none -no-reboot -net none || status=$?
    tr -d '\r' <"$dir/serial" >"$dir/lines"
    grep -a -E '^(PASS|FAIL|NOTE|DONE)' "$dir/lines" || true
    if test "$status" != 0 || ! grep -a -q '^DONE' "$dir/lines"; then
        echo "FAIL the guest did not finish (status $status); its last lines:"
        tail -n 20 "$dir/lines"
        exit 1
    fi
    ! grep -a -q '^FAIL' "$dir/lines"
}
