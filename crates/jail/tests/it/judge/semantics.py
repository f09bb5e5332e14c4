"""What system calls answer. Runs with and without the judge; both must print the same."""

import ctypes
import errno
import os
import resource
import stat
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
SYS = {"renameat2": 316, "linkat": 265, "openat": 257, "fchmodat2": 452, "mkdirat": 258,
       "creat": 85, "setxattrat": 463}
if os.uname().machine == "aarch64":
    SYS = {"renameat2": 276, "linkat": 37, "openat": 56, "fchmodat2": 452, "mkdirat": 34,
           "creat": None, "setxattrat": 463}


def call(name, *args):
    values = []
    for a in args:
        if isinstance(a, str):
            a = a.encode()
        if isinstance(a, bytes):
            a = ctypes.c_char_p(a)
        elif isinstance(a, int):
            a = ctypes.c_long(a)
        values.append(a)
    got = libc.syscall(ctypes.c_long(SYS[name]), *values)
    if got < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return got


def mode(path):
    return oct(stat.S_IMODE(os.lstat(path).st_mode))


count = 0


def check(name, work):
    global count
    count += 1
    try:
        got = work()
        print(name, "->", got)
    except OSError as e:
        print(name, "->", errno.errorcode.get(e.errno, e.errno))


def opened(path, flags, *args, **kw):
    fd = os.open(path, flags, *args, **kw)
    os.close(fd)
    return "ok"


W = os.O_WRONLY
C = os.O_CREAT | os.O_WRONLY


def create(path, m=0o666):
    os.close(os.open(path, C | os.O_EXCL, m))
    return mode(path)


os.mkdir("d")
os.mkdir("d/sub")
check("mode of a file", lambda: create("f"))
check("mode of a directory", lambda: (os.mkdir("m", 0o777), mode("m"))[1])
check("sticky directory", lambda: (os.mkdir("sticky", 0o1777), mode("sticky"))[1])


def with_umask(m):
    old = os.umask(m)
    try:
        return create(f"u{m:o}"), (os.mkdir(f"v{m:o}"), mode(f"v{m:o}"))[1]
    finally:
        os.umask(old)


check("umask 077", lambda: with_umask(0o077))
check("umask 0", lambda: with_umask(0))
check("umask is back", lambda: create("f2"))


def umask_of_threads():
    # Another thread shares it, a child has its own.
    os.umask(0o027)
    got = []
    t = threading.Thread(target=lambda: got.append(create("t1")))
    t.start()
    t.join()
    pid = os.fork()
    if pid == 0:
        os.umask(0o007)
        create("t2")
        os._exit(0)
    os.waitpid(pid, 0)
    got.append(mode("t2"))
    got.append(create("t3"))
    os.umask(0o022)
    return got


check("umask of threads and children", umask_of_threads)
check("O_EXCL on a file", lambda: opened("f", C | os.O_EXCL))
os.symlink("f", "lf")
os.symlink("new-target", "dangling")
os.symlink("d", "ld")
os.symlink("loop2", "loop1")
os.symlink("loop1", "loop2")
check("O_EXCL on a link", lambda: opened("lf", C | os.O_EXCL))
check("O_EXCL on a dangling link", lambda: opened("dangling", C | os.O_EXCL))
check("O_NOFOLLOW on a link", lambda: opened("lf", W | os.O_NOFOLLOW))
check("O_CREAT|O_NOFOLLOW on a link", lambda: opened("lf", C | os.O_NOFOLLOW))
check("write through a link", lambda: opened("lf", W))
check("dangling link makes its target", lambda: (opened("dangling", C), mode("new-target")))
check("a loop of links", lambda: opened("loop1/x", C))
check("a loop as last name", lambda: opened("loop1", C))
check("links on the way", lambda: (create("ld/through"), os.path.exists("d/through")))
dfd = os.open("d", os.O_RDONLY)
check("relative to a descriptor", lambda: (opened("rel", C, dir_fd=dfd), mode("d/rel")))
check("up from a descriptor", lambda: (opened("../up", C, dir_fd=dfd), mode("up")))
check("a bad descriptor", lambda: opened("x", C, dir_fd=77))
check("a negative descriptor", lambda: call("openat", -5, "x", C, 0o600))
ffd = os.open("f", os.O_RDONLY)
check("a file as directory", lambda: opened("x", C, dir_fd=ffd))
check("a file on the way", lambda: opened("f/x", C))
check("nothing on the way", lambda: opened("none/x", C))
check("nothing there", lambda: opened("none", W))
check("an empty path", lambda: opened("", C))
check("trailing slash creates", lambda: opened("slash/", C))
check("trailing slash on a file", lambda: opened("f/", W))
check("writing a directory", lambda: opened("d", W))
check("O_CREAT on a directory", lambda: opened("d", C))
check("writing a dot", lambda: opened(".", W))
check("O_CREAT on a dot", lambda: opened(".", C))
check("O_DIRECTORY on a file", lambda: opened("f", W | os.O_DIRECTORY))
check("mkdir with a slash", lambda: (os.mkdir("ms/"), mode("ms"))[1])
check("mkdir of what is there", lambda: os.mkdir("d"))
check("mkdir of a link", lambda: os.mkdir("lf"))
check("mkdir of dots", lambda: [os.mkdir("d/..")])
check("mkdir of the root", lambda: os.mkdir("/"))
check("rmdir of a dot", lambda: os.rmdir("d/."))
check("rmdir of dots", lambda: os.rmdir("d/sub/.."))
check("rmdir of what is not empty", lambda: os.rmdir("d"))
check("rmdir of a file", lambda: os.rmdir("f"))
check("unlink of a directory", lambda: os.unlink("d"))
check("unlink of nothing", lambda: os.unlink("none"))
check("unlink with a slash", lambda: os.unlink("f/"))
check("unlink of a link", lambda: (os.symlink("f", "gone"), os.unlink("gone"), os.path.exists("f"))[2])
check("through own descriptors", lambda: (opened(f"/proc/self/fd/{dfd}/via", C), mode("d/via")))
check("through own directory", lambda: (opened("/proc/self/cwd/cwd", C), mode("cwd")))
check("through own root", lambda: (opened(f"/proc/thread-self/root{os.getcwd()}/root", C), mode("root")))
check("through own pid", lambda: (opened(f"/proc/{os.getpid()}/cwd/pid", C), mode("pid")))


def reopen():
    fd = os.open("f", os.O_RDONLY)
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    os.write(again, b"abc")
    got = os.read(fd, 10)
    os.close(fd)
    os.close(again)
    return got


check("reopen for writing", reopen)


def to_pipe():
    r, w = os.pipe()
    again = os.open(f"/dev/fd/{w}", os.O_WRONLY)
    os.write(again, b"pipe")
    return os.read(r, 4), os.get_blocking(again)


check("reopen of a pipe", to_pipe)
check("another's descriptors", lambda: opened("/proc/1/fd/0", W))
check("own comm", lambda: [os.write(os.open("/proc/self/comm", W), b"me"), open("/proc/self/comm").read()])


def exchange():
    create("ea")
    os.mkdir("eb")
    call("renameat2", AT_FDCWD, "ea", AT_FDCWD, "eb", 2)
    return mode("ea"), mode("eb")


check("exchange", exchange)
check("no replace", lambda: call("renameat2", AT_FDCWD, "f", AT_FDCWD, "f2", 1))
check("rename", lambda: (os.rename("f2", "f3"), os.path.exists("f3"))[1])
check("rename of nothing", lambda: os.rename("none", "x"))
check("rename onto a directory", lambda: os.rename("f3", "d"))
check("rename of a directory", lambda: (os.rename("d/sub", "sub2/"), mode("sub2"))[1])
check("rename into itself", lambda: os.rename("d", "d/x"))
check("rename of a dot", lambda: os.rename("d/.", "x"))
check("rename of a link", lambda: (os.rename("lf", "lf2"), os.readlink("lf2"))[1])
check("rename with descriptors", lambda: (os.rename("rel", "rel2", src_dir_fd=dfd, dst_dir_fd=dfd), mode("d/rel2"))[1])
check("hard link", lambda: (os.link("f", "hard"), os.stat("f").st_nlink)[1])
check("hard link to what is there", lambda: os.link("f", "f3"))
check("hard link of a directory", lambda: os.link("d", "dd"))
check("hard link of a link", lambda: (os.link("lf2", "hl", follow_symlinks=False), os.readlink("hl"))[1])
check("hard link through a link", lambda: (call("linkat", AT_FDCWD, "lf2", AT_FDCWD, "hf", 0x400), os.stat("f").st_nlink)[1])


def temporary(link):
    fd = os.open("d", os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(fd, b"tmp")
    link(fd)
    os.close(fd)


def by_proc(fd):
    call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "tmp1", 0x400)


check("unnamed file, linked by procfs", lambda: (temporary(by_proc), mode("tmp1"))[1])
check("unnamed file, linked by descriptor", lambda: (temporary(lambda fd: call("linkat", fd, "", AT_FDCWD, "tmp2", 0x1000)), mode("tmp2"))[1])
check("unnamed file in a file", lambda: opened("f", os.O_TMPFILE | os.O_RDWR, 0o600))
check("unnamed file through a link", lambda: opened("ld", os.O_TMPFILE | os.O_RDWR, 0o600))
check("a bad address", lambda: call("openat", AT_FDCWD, 8, C, 0o600))
check("a null address", lambda: call("openat", AT_FDCWD, ctypes.c_void_p(0), C, 0o600))
check("a name too long", lambda: create("x" * 256))
check("a path too long", lambda: create("./" * 2050 + "x"))
check("the longest path", lambda: create("./" * 2040 + "long"))


def many():
    for i in range(39):
        os.symlink(f"chain{i + 1}", f"chain{i}")
    os.symlink("chain-end", "chain39")
    return opened("chain0", C)


check("forty links", many)
os.symlink("chain0", "chain-1")
check("forty-one links", lambda: opened("chain-1", C))
check("O_CLOEXEC", lambda: [os.get_inheritable(os.open("f", W)), os.get_inheritable(call("openat", AT_FDCWD, "f", W, 0))])
check("status flags", lambda: [bool(__import__("fcntl").fcntl(os.open("f", W | fl), 3) & os.O_NONBLOCK) for fl in (0, os.O_NONBLOCK)])
check("append", lambda: [bool(__import__("fcntl").fcntl(os.open("f", W | os.O_APPEND), 3) & os.O_APPEND)])
check("truncate", lambda: (os.truncate("f", 2), os.stat("f").st_size)[1])
check("truncate through a link", lambda: (os.truncate("lf2", 1), os.stat("f").st_size)[1])
check("truncate a directory", lambda: os.truncate("d", 0))
check("O_TRUNC", lambda: (opened("f", W | os.O_TRUNC), os.stat("f").st_size)[1])
check("O_RDONLY|O_CREAT", lambda: (opened("ro", os.O_RDONLY | os.O_CREAT, 0o400), mode("ro")))
check("no permission", lambda: opened("ro", W))
check("chmod", lambda: (os.chmod("f", 0o741), mode("f"))[1])
check("chmod through a link", lambda: (os.chmod("lf2", 0o644), mode("f"))[1])
check("chmod of a descriptor", lambda: (os.chmod(ffd, 0o600), mode("f"))[1])
check("chmod of a bad descriptor", lambda: os.chmod(99, 0o600))
check("chmod of a link itself", lambda: call("fchmodat2", AT_FDCWD, "lf2", 0o600, 0x100))
check("chmod by an empty path", lambda: (call("fchmodat2", ffd, "", 0o644, 0x1000), mode("f"))[1])
check("chown to oneself", lambda: os.chown("f", os.getuid(), os.getgid()))
check("chown to nobody in particular", lambda: os.chown("f", -1, -1))
check("chown of a link", lambda: os.lchown("loop1", os.getuid(), -1))
check("chown to another", lambda: os.chown("f", 12345, -1))
check("set an attribute", lambda: (os.setxattr("f", "user.a", b"1"), os.getxattr("f", "user.a"))[1])
check("create an attribute twice", lambda: os.setxattr("f", "user.a", b"2", os.XATTR_CREATE))
check("attribute of a descriptor", lambda: (os.setxattr(ffd, "user.b", b"3"), os.getxattr("f", "user.b"))[1])
check("remove an attribute", lambda: (os.removexattr("f", "user.a"), os.listxattr("f"))[1])
check("remove no attribute", lambda: os.removexattr("f", "user.a"))
check("attribute of a link", lambda: os.setxattr("lf2", "user.c", b"", follow_symlinks=False))
check("mknod of a fifo", lambda: (os.mkfifo("fifo"), stat.S_ISFIFO(os.stat("fifo").st_mode))[1])
check("mknod of a file", lambda: (os.mknod("node", 0o640), mode("node"))[1])
check("mknod of a device", lambda: os.mknod("dev", 0o600 | stat.S_IFCHR, os.makedev(1, 3)))
check("fifo without a reader, not waiting", lambda: opened("fifo", W | os.O_NONBLOCK))


def fifo_with_reader():
    r = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    w = os.open("fifo", W)
    os.write(w, b"x")
    return os.read(r, 1), os.get_blocking(w)


check("fifo with a reader", fifo_with_reader)
check("fifo for both", lambda: opened("fifo", os.O_RDWR))


def fifo_created_reader():
    got = []

    def read():
        fd = os.open("fifo", os.O_RDONLY | os.O_CREAT, 0o600)
        got.append(os.read(fd, 5))
        os.close(fd)

    t = threading.Thread(target=read)
    t.start()
    w = os.open("fifo", W)
    os.write(w, b"later")
    t.join()
    os.close(w)
    return got


check("fifo for reading with O_CREAT", fifo_created_reader)
check("a device", lambda: opened("/dev/null", os.O_RDWR))
check("no terminal", lambda: opened("/dev/tty", os.O_RDWR))


def threads():
    problems = []

    def work(n):
        for i in range(200):
            try:
                create(f"thread{n}-{i}")
                os.rename(f"thread{n}-{i}", f"done{n}-{i}")
            except OSError as e:
                problems.append(e.errno)

    all_of_them = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()
    return problems, len([n for n in os.listdir() if n.startswith("done")])


check("eight threads", threads)


def out_of_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard))
    held = []
    try:
        while len(held) < 64:
            held.append(os.open("f", W))
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


check("too many open files", out_of_descriptors)


def deleted_directory():
    os.mkdir("dying")
    fd = os.open("dying", os.O_RDONLY)
    os.rmdir("dying")
    return opened("x", C, dir_fd=fd)


check("in a directory that is gone", deleted_directory)


def private_directory():
    pid = os.fork()
    if pid == 0:
        os.chdir("d")
        create("forked")
        os._exit(0)
    return os.waitpid(pid, 0)[1], mode("d/forked")


check("from another working directory", private_directory)
check("not UTF-8", lambda: create(b"\xff\xfe name\n"))
check("on another file system", lambda: os.rename("f3", "/dev/shm/atoll-judge-rename"))
check("set-group-id directory", lambda: (os.mkdir("sg"), os.chmod("sg", 0o2775), os.mkdir("sg/in"), mode("sg/in"))[3])

print("checks:", count, file=sys.stderr)
