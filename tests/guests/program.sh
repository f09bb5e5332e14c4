#!/bin/sh
# Runs the program on the kernel that Debian 12 comes with, on ext4 and with control
# groups v2: boots it with a few of this machine's programs and `program-inside.sh`
# as its first process.
set -eu
cd "$(dirname "$0")/../.."
NAME=guest-program
. tests/guests/boot.sh

initrd=/boot/initrd.img-$version
overlay=/lib/modules/$version/kernel/fs/overlayfs/overlay.ko
test -r "$initrd" || skip "$initrd is not readable"
test -r "$overlay" || skip "$overlay is not there"
mke2fs=$(PATH=$PATH:/sbin:/usr/sbin command -v mke2fs) || skip "mke2fs is not installed"

program=$(cargo build --quiet --package atoll --bin atoll --message-format json |
    sed -n 's/.*"name":"atoll".*"executable":"\([^"]*\)".*/\1/p')
root=$dir/root
for name in usr/bin usr/lib usr/lib64 etc proc sys dev tmp run root home/u srv; do
    mkdir -p "$root/$name"
done
for name in bin sbin lib lib64; do
    ln -s "usr/$(test $name = sbin && echo bin || echo $name)" "$root/$name"
done

# A program by the name it is called by, and the libraries that it is linked with.
take() {
    real=$(readlink -f "$(PATH=$PATH:/sbin:/usr/sbin command -v "$1")")
    cp "$real" "$root/usr/bin/$1"
    ldd "$real" 2>/dev/null | grep -oE '/[^ ]+' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -n "$(readlink -f "$library")" "$root$library"
    done
}
for name in bash dash ls cat touch mv stat id mkdir chown mount setpriv env sleep grep head tail \
    timeout sync insmod git; do
    PATH=$PATH:/sbin:/usr/sbin command -v "$name" >/dev/null || skip "$name is not installed"
    take "$name"
done
cp "$root/usr/bin/dash" "$root/usr/bin/sh"
cp "$program" "$root/usr/bin/atoll"
cp "$overlay" "$root/overlay.ko"
cp tests/guests/program-inside.sh "$root/inside"
printf 'root:x:0:0:root:/root:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nu:x:1000:\n' >"$root/etc/group"
"$mke2fs" -q -t ext4 -d "$root" "$dir/disk" 400M
boot "root=/dev/vda rw init=/inside" -m 1024 -smp 2 -initrd "$initrd" \
    -drive "file=$dir/disk,if=virtio,format=raw"
