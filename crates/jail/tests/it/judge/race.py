"""Main thread creates files; others swap the path's text, a link, directories."""

import ctypes
import errno
import os
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
end = time.monotonic() + float(sys.argv[1])
GOOD = b"plain/hooks/evil\0"
BAD = b".git//hooks/evil\0"
assert len(GOOD) == len(BAD)
text = ctypes.create_string_buffer(GOOD, len(GOOD))
os.symlink("plain", "link")


def running():
    return time.monotonic() < end


def swap_text():
    while running():
        for value in (BAD, GOOD):
            ctypes.memmove(text, value, len(value))


def in_child(work):
    pid = os.fork()
    if pid == 0:
        while running():
            try:
                work()
            except OSError:
                pass
        os._exit(0)
    return pid


def swap_link():
    for target in (".git", "plain"):
        os.symlink(target, "link.new")
        os.rename("link.new", "link")


def exchange(a, b):
    libc.renameat2(-100, a, -100, b, 2)


def swap_directories():
    exchange(b"one", b"two")


def swap_git():
    exchange(b"gx", b".git")


children = [in_child(w) for w in (swap_link, swap_directories, swap_git)]
swapper = threading.Thread(target=swap_text)
swapper.start()
rounds = 0
while running():
    rounds += 1
    fd = libc.open(text, os.O_CREAT | os.O_WRONLY, 0o755)
    if fd >= 0:
        os.close(fd)
    for path in (b"link/hooks/evil", b"one/.git/hooks/evil", b"gx/hooks/evil"):
        fd = libc.open(path, os.O_CREAT | os.O_WRONLY, 0o755)
        if fd >= 0:
            os.close(fd)
    for path in ("plain/hooks/evil", "gx/hooks/evil"):
        try:
            os.unlink(path)
        except OSError:
            pass
    libc.rename(b"plain/hooks/evil2", text)
swapper.join()
for pid in children:
    os.waitpid(pid, 0)
print("rounds:", rounds)
