#!/bin/sh
# Tests that a network is captured as far as the kernel can: boots Debian's kernel, whose
# netfilter is in modules, with one static program of ours as its first and only
# process, with IPv6 and without.
set -eu
cd "$(dirname "$0")/../.."
NAME=guest-capture
. tests/guests/boot.sh

modules=
for name in lib/libcrc32c net/netfilter/nfnetlink net/netfilter/nf_tables \
    net/ipv4/netfilter/nf_defrag_ipv4 net/ipv6/netfilter/nf_defrag_ipv6 \
    net/ipv4/netfilter/nf_tproxy_ipv4 net/ipv6/netfilter/nf_tproxy_ipv6 \
    net/ipv4/netfilter/nf_reject_ipv4 net/ipv6/netfilter/nf_reject_ipv6 \
    net/netfilter/nft_reject net/netfilter/nft_reject_inet net/netfilter/nft_tproxy; do
    module=/lib/modules/$version/kernel/$name.ko
    test -r "$module" || skip "$module is not there"
    modules="$modules $module"
done

guest=$(cargo build --quiet --package atoll-sys --example guest_capture --message-format json |
    sed -n 's/.*"name":"guest_capture".*"executable":"\([^"]*\)".*/\1/p')
# shellcheck disable=SC2086 # the list is of words
"$guest" archive $modules >"$dir/initrd"
for line in "" ipv6.disable=1 ipv6.disable_ipv6=1; do
    boot "$line" -m 512 -smp 1 -initrd "$dir/initrd"
done
