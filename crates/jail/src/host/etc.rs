//! An `/etc` that holds what programs need and nothing that is secret.

use crate::spec::{Access, Entry, Kind, Source, What};
use rustix::fs::{AtFlags, FileType};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The one account inside.
#[derive(Debug, Clone)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// Absolute path of the home directory.
    pub home: PathBuf,
    pub shell: PathBuf,
}

/// Directories shown as they are. Certificates, alternatives, the loader's
/// cache, and the settings of languages and desktops' file types.
const DIRECTORIES: [&str; 22] = [
    "ssl",
    "alternatives",
    "ca-certificates",
    "pki",
    "crypto-policies",
    "fonts",
    "java",
    "java-17-openjdk",
    "java-21-openjdk",
    "maven",
    "perl",
    "php",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "profile.d",
    "terminfo",
    "xdg",
    "vim",
    "ImageMagick-6",
    "R",
];

/// Files shown as they are.
const FILES: [&str; 3] = ["ld.so.cache", "mime.types", "localtime"];

/// Small files whose content is copied, which is cheaper than a mount.
const COPIED: [&str; 19] = [
    "bash.bashrc",
    "ca-certificates.conf",
    "debian_version",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.conf",
    "locale.alias",
    "locale.conf",
    "lsb-release",
    "magic",
    "magic.mime",
    "networks",
    "os-release",
    "profile",
    "protocols",
    "shells",
    "timezone",
    "zshrc",
];
const COPIED_BYTES_MAX: u64 = 16 * 1024;

/// `services` is large and read by name look-ups only.
const BOUND_IF_LARGE: [&str; 2] = ["services", "gitconfig"];

/// Puts the `/etc` of the host image together: an allowlist of what is there,
/// and generated account, name service and host files.
#[must_use]
pub fn etc(account: &Account, hostname: &str) -> Vec<Entry> {
    let mut view = generated(account, hostname);
    let etc = Path::new("/etc");
    view.extend(DIRECTORIES.iter().filter_map(|name| bind(&etc.join(name), Kind::Directory)));
    view.extend(FILES.iter().filter_map(|name| bind(&etc.join(name), Kind::File)));
    view.extend(COPIED.iter().chain(&BOUND_IF_LARGE).filter_map(|name| copy(&etc.join(name))));
    view
}

fn generated(account: &Account, hostname: &str) -> Vec<Entry> {
    let Account { name, uid, gid, home, shell } = account;
    let (home, shell) = (home.display(), shell.display());
    let mut passwd = format!("{name}:x:{uid}:{gid}:{name}:{home}:{shell}\n");
    let mut group = format!("{name}:x:{gid}:\n");
    if *uid != 0 {
        passwd.insert_str(0, "root:x:0:0:root:/root:/bin/sh\n");
    }
    if *gid != 0 {
        group.insert_str(0, "root:x:0:\n");
    }
    passwd += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    group += "tty:x:5:\nnogroup:x:65534:\n";
    let hosts =
        format!("127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost ip6-loopback\n");
    let names = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
                 protocols: files\nservices: files\n";
    vec![
        Entry::file("/etc/passwd", passwd),
        Entry::file("/etc/group", group),
        Entry::file("/etc/hosts", hosts),
        Entry::file("/etc/hostname", format!("{hostname}\n")),
        Entry::file("/etc/nsswitch.conf", names),
        // Nobody answers there: a look-up fails at once instead of timing out.
        Entry::file("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
        Entry::link("/etc/mtab", "/proc/self/mounts"),
    ]
}

fn kind_of(path: &Path) -> Option<FileType> {
    let stat = rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

fn link_target(path: &Path) -> Option<PathBuf> {
    let target = rustix::fs::readlink(path, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// A read-only bind, or the link itself where there is one: its target lies in
/// `/usr` or is not for the sandbox.
fn bind(path: &Path, kind: Kind) -> Option<Entry> {
    match (kind_of(path)?, kind) {
        (FileType::Symlink, _) => Some(Entry::link(path, link_target(path)?)),
        (FileType::Directory, Kind::Directory) | (FileType::RegularFile, Kind::File) => {
            let source = Source::Path { path: path.to_owned(), expect: None };
            Some(Entry::new(path, What::Bind { source, kind, access: Access::ReadOnly }))
        }
        _ => None,
    }
}

fn copy(path: &Path) -> Option<Entry> {
    if kind_of(path)? != FileType::RegularFile {
        return bind(path, Kind::File);
    }
    let length = std::fs::metadata(path).ok()?.len();
    if length > COPIED_BYTES_MAX {
        return bind(path, Kind::File);
    }
    Some(Entry::file(path, std::fs::read(path).ok()?))
}
