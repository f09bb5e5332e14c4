//! Copies that are made while somebody works, for the ones after them.

use super::*;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

/// Does in a tree whatever a copy might miss, until it is killed: the same length, the old
/// time, through a mapping, under another name.
const WORKER: &str = r#"
import mmap, os, random, sys
random.seed(int(sys.argv[1]))
def path(): return f'd{random.randrange(4)}/f{random.randrange(12)}'
for d in range(4): os.makedirs(f'd{d}', exist_ok=True)
maps = []
for n in range(3):
    f = os.open(f'map{n}', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8192); maps.append(mmap.mmap(f, 8192))
print('ready', flush=True)
while True:
    what = random.randrange(8); a, b = path(), path()
    try:
        if what < 3:
            f = os.open(a, os.O_RDWR | os.O_CREAT); s = os.fstat(f)
            os.pwrite(f, b'%08d' % random.randrange(10**8), 0)
            if what == 2: os.utime(f, ns=(s.st_atime_ns, s.st_mtime_ns))
            os.close(f)
        elif what == 3: os.rename(a, b)
        elif what == 4: os.link(a, b)
        elif what == 5: os.unlink(a)
        elif what == 6: os.chmod(a, random.choice([0o600, 0o644, 0o755])); os.setxattr(a, 'user.n', b'%d' % random.randrange(10))
        elif random.randrange(20) == 0: os.rename(f'd{random.randrange(4)}', 'tmp'); os.rename('tmp', 'd' + random.choice('0123'))
        m = random.choice(maps); m[random.randrange(8192)] = random.randrange(256)
    except OSError: pass
"#;

struct Worker(Child);

impl Worker {
    fn start(dir: &Path, seed: u32) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", WORKER, &seed.to_string()])
            .current_dir(dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped());
    }

    fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn nothing_is_missed_of_what_is_done_meanwhile() {
    as_root_and_user("tree::ahead::nothing_is_missed_of_what_is_done_meanwhile", || {
        let case = Case::new();
        if !case.links() {
            return;
        }
        case.run("mkdir quiet; for i in {1..40}; do echo $i >quiet/$i; done; mkdir -m 000 shut");
        let worker = Worker::start(&case.source(), 1);
        let base = File::open(&case.base).unwrap();
        let open = |name: &str| {
            fs::create_dir(case.base.join(name)).unwrap();
            File::open(case.base.join(name)).unwrap()
        };
        let source = File::open(case.source()).unwrap();
        let mut linked = 0;
        for _ in 0..30 {
            let (ahead, copy) = (open("ahead"), open("copy"));
            let (_, index) =
                tree::copy_ahead(source.as_fd(), ahead.as_fd(), None, &|| false).unwrap();
            worker.stop();
            let previous = Previous { tree: ahead.as_fd(), index: &index };
            let (copied, _) =
                tree::copy(source.as_fd(), copy.as_fd(), Some(previous), &|| false).unwrap();
            Listing::of(&case.base.join("copy")).assert_is(&Listing::of(&case.source()));
            linked += copied.linked;
            worker.go_on();
            for name in ["ahead", "copy"] {
                atoll_store::remove(base.as_fd(), OsStr::new(name)).unwrap();
            }
        }
        assert!(linked > 30 * 20, "little was of use: {linked}");
    });
}

#[test]
fn a_file_that_changes_while_it_is_copied_is_copied_again() {
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    let case = Case::new();
    if !case.links() {
        return;
    }
    // Two pieces with a hole between them: in between it is asked whether to go on.
    let path = case.source().join("file");
    let file = File::create(&path).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.write_all_at(b"second", 1 << 20).unwrap();
    Case::tick();
    let mtime = path.metadata().unwrap().modified().unwrap();
    let asked = std::cell::Cell::new(0);
    let change = || {
        asked.set(asked.get() + 1);
        // Of the same length and with the old time, when the first piece is copied.
        if asked.get() == 3 {
            file.write_all_at(b"later", 0).unwrap();
            file.set_modified(mtime).unwrap();
        }
        false
    };
    let open = |name: &str| {
        fs::create_dir(case.base.join(name)).unwrap();
        File::open(case.base.join(name)).unwrap()
    };
    let (source, ahead, copy) = (File::open(case.source()).unwrap(), open("ahead"), open("copy"));
    let (_, index) = tree::copy_ahead(source.as_fd(), ahead.as_fd(), None, &change).unwrap();
    let is_in_ahead = fs::read(case.base.join("ahead/file")).unwrap();
    assert_eq!((asked.get(), &is_in_ahead[..5]), (3, b"first".as_slice()), "too late or too early");
    assert_eq!(
        path.metadata().unwrap().mtime_nsec(),
        i64::from(mtime.duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos())
    );
    Case::tick();
    let previous = Previous { tree: ahead.as_fd(), index: &index };
    let (copied, _) = tree::copy(source.as_fd(), copy.as_fd(), Some(previous), &|| false).unwrap();
    assert_eq!(copied.linked, 0);
    Listing::of(&case.base.join("copy")).assert_is(&Listing::of(&case.source()));
}

#[test]
fn what_is_shut_is_left_for_the_copy_afterwards() {
    as_root_and_user("tree::ahead::what_is_shut_is_left_for_the_copy_afterwards", || {
        let case = Case::new();
        if !case.links() {
            return;
        }
        case.run("mkdir -p a; chmod 000 a; echo x >file; chmod 000 file; echo y >other");
        let before = Listing::of(&case.source());
        fs::create_dir(case.base.join("ahead")).unwrap();
        let (source, ahead) =
            (File::open(case.source()).unwrap(), File::open(case.base.join("ahead")).unwrap());
        let canceled = tree::copy_ahead(source.as_fd(), ahead.as_fd(), None, &|| true);
        assert!(matches!(canceled, Err(CopyError::Canceled)));
        let (copied, _) = tree::copy_ahead(source.as_fd(), ahead.as_fd(), None, &|| false).unwrap();
        assert_eq!(copied.files, if is_root() { 2 } else { 1 }, "what is shut is left for later");
        Listing::of(&case.source()).assert_is(&before);
    });
}
