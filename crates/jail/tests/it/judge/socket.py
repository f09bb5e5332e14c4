"""What bind(2) answers. Runs with and without the judge; both must print the same."""

import ctypes
import errno
import os
import socket
import stat
import struct
import subprocess
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
UNIX, INET = socket.AF_UNIX, socket.AF_INET
count = 0


def check(name, work):
    global count
    count += 1
    try:
        print(name, "->", work())
    except OSError as error:
        print(name, "->", errno.errorcode.get(error.errno, error))


def raw(fd, address, length=None):
    """bind with any bytes and any length."""
    length = len(address) if length is None else length
    if libc.bind(fd, address, length) != 0:
        raise OSError(ctypes.get_errno(), "bind")


kept = []


def number(family):
    kept.append(socket.socket(family))
    return kept[-1].fileno()


def unix(path):
    return struct.pack("=H", UNIX) + path


def bound(path, kind=STREAM):
    made = socket.socket(UNIX, kind)
    made.bind(path)
    return made


def mode(path):
    found = os.lstat(path)
    return oct(found.st_mode), found.st_uid == os.getuid(), found.st_gid == os.getgid()


os.mkdir("d")
os.symlink("d", "link")
os.symlink("nowhere", "dangling")
open("file", "w").close()
here = os.getcwd()
long = "n" * 107

check("a name", lambda: (bound("s1").getsockname(), mode("s1")))
check("a path", lambda: (bound("d/s2").getsockname(), mode("d/s2")))
check("an absolute path", lambda: bound(f"{here}/d/s3").getsockname() == f"{here}/d/s3")
check("through a link", lambda: (bound("link/s4").getsockname(), mode("d/s4")))
check("up and down", lambda: bound("d/../d/s5").getsockname())
check("through procfs", lambda: (bound("/proc/self/cwd/d/s6"), mode("d/s6"))[1])
check("the longest", lambda: (raw(number(UNIX), unix((long + "x").encode())), mode(long + "x"))[1])
check("with a NUL", lambda: (raw(number(UNIX), unix(b"s7\0rest")), mode("s7"))[1])
check("there already", lambda: bound("s1"))
check("a file there", lambda: bound("file"))
check("a link there", lambda: bound("link"))
check("a dangling link there", lambda: bound("dangling"))
check("a directory there", lambda: bound("d"))
check("dots", lambda: bound("."))
check("dots above", lambda: bound("d/.."))
check("the root", lambda: bound("/"))
check("a slash at the end", lambda: bound("none/"))
check("a slash after what is there", lambda: bound("d/"))
check("no directory", lambda: bound("none/s"))
check("a file on the way", lambda: bound("file/s"))
check("too long", lambda: raw(number(UNIX), unix(b"x" * 109)))
check("far too long", lambda: raw(number(UNIX), unix(b"x" * 200)))
check("a long name that is none", lambda: bound("d/" + "x" * 105 + "/"))
check("no length", lambda: raw(number(UNIX), b"", 0))
check("one byte", lambda: raw(number(UNIX), b"\1", 1))
check("a negative length", lambda: raw(number(UNIX), unix(b"x"), -1))
check("a bad address", lambda: raw(number(UNIX), ctypes.c_void_p(8), 16))
check("another family's address", lambda: raw(number(UNIX), struct.pack("=H", INET) + b"x" * 14))
check("a path for another family", lambda: raw(number(INET), unix(b"s8" + b"\0" * 20)))
check("a file", lambda: raw(os.open("file", os.O_RDONLY), unix(b"s9")))
check("a closed descriptor", lambda: raw(99, unix(b"s9")))
check("a negative descriptor", lambda: raw(-1, unix(b"s9")))
check("a file of another process", lambda: raw(os.open("/proc/1/comm", os.O_RDONLY), unix(b"s9")))
check("abstract", lambda: bound("\0atoll-judge-socket").getsockname())


def held(work):
    first = work()
    work()
    return first


check("abstract twice", lambda: held(lambda: bound("\0atoll-judge-twice")))
check("unnamed", lambda: len(bound("").getsockname()))


def twice(first, second):
    made = bound(first)
    made.bind(second)


check("bound already", lambda: twice("s10", "s11"))
check("what was bound already left no name", lambda: os.path.exists("s11"))
check("bound already, unnamed", lambda: len(twice("s12", "") or ""))


def closed_directory():
    os.mkdir("closed", 0o500)
    return bound("closed/s")


if os.getuid():
    check("a directory without rights", closed_directory)


def with_umask(mask):
    old = os.umask(mask)
    try:
        bound(f"u{mask:o}")
        return mode(f"u{mask:o}")
    finally:
        os.umask(old)


check("umask 077", lambda: with_umask(0o077))
check("umask 0", lambda: with_umask(0))
check("umask is back", lambda: (bound("s13"), mode("s13"))[1])


def own_mode():
    made = socket.socket(UNIX)
    os.fchmod(made.fileno(), 0o640)
    made.bind("s14")
    return mode("s14")


check("the socket's own mode", own_mode)


def another_directory():
    got = []
    pid = os.fork()
    if pid == 0:
        os.chdir("d")
        bound("s15")
        os._exit(0)
    return os.waitpid(pid, 0)[1], mode("d/s15")


check("from another directory", another_directory)


def served():
    server = bound("server")
    server.listen()
    pid = os.fork()
    if pid == 0:
        client = socket.socket(UNIX)
        client.connect("server")
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        its = struct.unpack("3i", credentials)
        os._exit(0 if its == (os.getppid(), os.getuid(), os.getgid()) else 1)
    peer, _ = server.accept()
    credentials = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return os.waitpid(pid, 0)[1], credentials == (pid, os.getuid(), os.getgid())


check("both ends know each other", served)


def answered():
    server, client = bound("d/datagrams", DATAGRAM), bound(f"{here}/d/client", DATAGRAM)
    client.sendto(b"ping", "d/datagrams")
    word, sender = server.recvfrom(10)
    server.sendto(word + b" pong", sender)
    return client.recv(20), sender == f"{here}/d/client"


check("datagrams are answered", answered)


def thread_of_its_own_table():
    """A thread with descriptors of its own binds its own one."""
    got = []
    shared = socket.socket(INET)

    def work():
        libc.unshare(0x400)
        mine = socket.socket(UNIX)
        os.dup2(mine.fileno(), shared.fileno())
        raw(shared.fileno(), unix(b"mine"))
        got.append(socket.socket(fileno=os.dup(shared.fileno())).getsockname())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return got, shared.getsockname(), mode("mine")


check("a thread with a table of its own", thread_of_its_own_table)


def not_dumpable():
    pid = os.fork()
    if pid == 0:
        libc.prctl(4, 0)
        bound("d/secretive")
        thread = threading.Thread(target=lambda: bound("d/secretive-thread"))
        thread.start()
        thread.join()
        os._exit(0)
    return os.waitpid(pid, 0)[1], mode("d/secretive"), mode("d/secretive-thread")


check("a process that is not dumpable", not_dumpable)


def internet(family, kind, address):
    made = socket.socket(family, kind)
    made.bind((address, 0))
    return made.getsockname()[1] > 0


check("TCP", lambda: internet(INET, STREAM, "127.0.0.1"))
check("UDP", lambda: internet(INET, DATAGRAM, "127.0.0.1"))
check("TCP of version 6", lambda: internet(socket.AF_INET6, STREAM, "::1"))
check("an address of somebody else", lambda: socket.socket(INET).bind(("192.0.2.1", 0)))


def taken():
    first = socket.socket(INET)
    first.bind(("127.0.0.1", 0))
    socket.socket(INET).bind(first.getsockname())


check("a port that is taken", taken)


def netlink():
    one, two = (socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) for _ in range(2))
    one.bind((0, 0))
    two.bind((0, 0))
    ports = one.getsockname()[0], two.getsockname()[0]
    try:
        one.bind((0, 0))
        again = "bound"
    except OSError as error:
        again = errno.errorcode[error.errno]
    return ports[0] == os.getpid(), ports[1] not in (0, ports[0]), again


check("netlink ports", netlink)
check("a netlink port by number", lambda: held(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((7, 0))))

print("checks:", count, file=sys.stderr)
