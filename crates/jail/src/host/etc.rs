//! An `/etc` that holds what programs need and nothing that is secret.
//!
//! It is put together once and kept in a cache directory: thirty mounts and
//! copies at every start would cost more than the rest of the view. A manifest
//! beside it names every file and directory that was looked at, so that a
//! change on the host is seen at the next start.

use super::names::{Made, Names};
use rustix::fs::{AtFlags, FileType, Stat};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
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

/// Directories and files of the host's `/etc` that are shown as they are:
/// certificates, alternatives, the loader's cache, settings of languages,
/// shells and file types. Everything else is left out.
const SHOWN: [&str; 73] = [
    "ImageMagick-6",
    "ImageMagick-7",
    "OpenCL",
    "R",
    "alternatives",
    "apache-maven",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "chromium",
    "chromium.d",
    "crypto-policies",
    "debian_version",
    "emacs",
    "fish",
    "fonts",
    "gai.conf",
    "ghostscript",
    "gitconfig",
    "glvnd",
    "groff",
    "gtk-3.0",
    "host.conf",
    "inputrc",
    "java",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "java-8-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "maven",
    "mime.types",
    "mono",
    "networks",
    "openmpi",
    "os-release",
    "papersize",
    "perl",
    "php",
    "pki",
    "postgresql-common",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "redhat-release",
    "rpc",
    "services",
    "sgml",
    "shells",
    "ssl",
    "terminfo",
    "texmf",
    "timezone",
    "vim",
    "vulkan",
    "xdg",
    "xml",
    "zsh",
];

/// What is made for the sandbox.
const MADE: [&str; 7] =
    ["passwd", "group", "hosts", "hostname", "nsswitch.conf", "resolv.conf", "mtab"];

/// Below a shown directory these stay out whoever may read them on the host.
const LEFT_OUT: [&str; 2] = ["ssl/private", "pki/tls/private"];

/// Bounds of the copy; a host whose `/etc` is larger has it cut there.
const ENTRIES_MAX: usize = 20_000;
const FILE_BYTES_MAX: u64 = 8 << 20;

/// One thing that was looked at, and how it looked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    /// Inode, size, and modification time; all zero for what is not there.
    stamp: [u64; 4],
}

const ABSENT: [u64; 4] = [0; 4];

fn stamp(stat: &Stat) -> [u64; 4] {
    let seconds = u64::from_ne_bytes(stat.st_mtime.to_ne_bytes());
    let size = u64::from_ne_bytes(stat.st_size.to_ne_bytes());
    [stat.st_ino, size, seconds, stat.st_mtime_nsec]
}

fn look(path: &Path) -> Seen {
    let stat = rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    Seen { path: path.to_owned(), stamp: stat.map_or(ABSENT, |stat| stamp(&stat)) }
}

/// Gives a directory below `base` that holds the `/etc` for `account`, making
/// it anew when what it is made from has changed: the host's, or that of the
/// root file system at `image`, which is shown whole.
///
/// # Errors
///
/// `base` cannot be written, or is not the caller's own.
pub fn etc(
    base: &Path,
    account: &Account,
    names: Names<'_>,
    image: Option<&Path>,
) -> io::Result<PathBuf> {
    let generated = generated(account, names);
    let from = image.map_or_else(|| PathBuf::from("/etc"), |image| image.join("etc"));
    let name = directory_name(&generated, &from);
    let directory = base.join(&name);
    let manifest = base.join(format!("{name}.manifest"));
    if is_current(&manifest) && directory.is_dir() {
        return Ok(directory);
    }
    let names = match image {
        None => SHOWN.map(OsString::from).to_vec(),
        // A link leads from the image's root, which is not ours.
        Some(_) if from.is_symlink() => Vec::new(),
        Some(_) => names_in(&from)?,
    };
    make(base, &directory, &manifest, &generated, (&from, &names))?;
    Ok(directory)
}

/// What the `/etc` of a root file system needs for `account` where it is shown as it is: names of
/// files and what they are made of. Its own accounts stay, as `read` gives its files.
#[must_use]
pub fn etc_additions(
    read: impl Fn(&Path) -> Option<String>,
    account: &Account,
    names: Names<'_>,
) -> Vec<(&'static str, Made)> {
    let read = |name: &str| read(&Path::new("etc").join(name)).unwrap_or_default();
    let merged = |(name, made): (&'static str, Made)| match (name, made) {
        ("passwd" | "group", Made::Text(ours)) => {
            Some((name, Made::Text(merged(&read(name), &ours, &account.name))))
        }
        ("nsswitch.conf", made) => read(name).is_empty().then_some((name, made)),
        (_, made) => Some((name, made)),
    };
    generated(account, names).into_iter().filter_map(merged).collect()
}

/// Lines of passwd(5) or group(5): those of the image, with those of ours whose names it
/// lacks, and in place of its own the line of `name`, before any other of the same number.
fn merged(image: &str, ours: &str, name: &str) -> String {
    let name_of = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let number_of = |line: &str| line.split(':').nth(2).unwrap_or_default().to_owned();
    let mut lines: Vec<&str> = image.lines().filter(|line| name_of(line) != name).collect();
    for line in ours.lines() {
        let at = if name_of(line) == name {
            lines.iter().position(|other| number_of(other) == number_of(line))
        } else if lines.iter().any(|other| name_of(other) == name_of(line)) {
            continue;
        } else {
            None
        };
        lines.insert(at.unwrap_or(lines.len()), line);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The generated files decide the name, another account is another directory; so
/// does what this version shows.
fn directory_name(generated: &[(&str, Made)], from: &Path) -> String {
    use std::hash::{Hash, Hasher};
    // A name, not a proof: the directory is the caller's own.
    let mut hasher = std::hash::DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), SHOWN, LEFT_OUT, generated, from).hash(&mut hasher);
    format!("etc-{:016x}", hasher.finish())
}

/// Whether everything looks as it did. The first line is the directory that all is
/// from: while it is the same, no name has come, and those that were absent need no
/// look.
fn is_current(manifest: &Path) -> bool {
    let Ok(bytes) = std::fs::read(manifest) else { return false };
    let mut seen = parse_manifest(&bytes);
    let Some(Some(from)) = seen.next() else { return false };
    let is_same = look(&from.path) == from;
    seen.all(|entry| {
        entry.is_some_and(|entry| {
            let is_known_absent = is_same && entry.stamp == ABSENT;
            is_known_absent || look(&entry.path) == entry
        })
    }) && (is_same || is_chosen(&from.path))
}

/// Of the host's own `/etc` just [`SHOWN`] is chosen, by name: another name may come
/// and go.
fn is_chosen(from: &Path) -> bool {
    from == Path::new("/etc")
}

/// Lines of four numbers and a path.
fn parse_manifest(bytes: &[u8]) -> impl Iterator<Item = Option<Seen>> + '_ {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let mut fields = line.splitn(5, |byte| *byte == b' ');
        let mut stamp = [0; 4];
        for number in &mut stamp {
            *number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        }
        Some(Seen { path: Path::new(OsStr::from_bytes(fields.next()?)).to_owned(), stamp })
    })
}

fn write_manifest(seen: &[Seen]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Seen { path, stamp: [a, b, c, d] } in seen {
        bytes.extend(format!("{a} {b} {c} {d} ").into_bytes());
        bytes.extend(path.as_os_str().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// Makes the directory whole under another name, then exchanges the names.
fn make(
    base: &Path,
    directory: &Path,
    manifest: &Path,
    generated: &[(&str, Made)],
    (from, names): (&Path, &[OsString]),
) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(base)?;
    let staged = base.join(format!(".etc-{}", rustix::process::getpid().as_raw_nonzero()));
    std::fs::remove_dir_all(&staged).or_else(absent_is_fine)?;
    make_directory(&staged)?;
    let mut copier = Copier { from, seen: vec![look(from)] };
    for name in names {
        if name != "mtab" && !generated.iter().any(|(generated, _)| name == generated) {
            copier.copy(from, Path::new(name), &staged)?;
        }
    }
    for (name, made) in generated {
        let path = staged.join(name);
        match made {
            Made::Text(content) => write_file(&path, content.as_bytes())?,
            Made::Link(to) => std::os::unix::fs::symlink(to, path)?,
        }
    }
    std::os::unix::fs::symlink("/proc/self/mounts", staged.join("mtab"))?;
    // A run that has the old one mounted keeps it: it is only unnamed.
    let old = base.join(format!(".old-{}", rustix::process::getpid().as_raw_nonzero()));
    std::fs::rename(directory, &old).or_else(absent_is_fine)?;
    std::fs::rename(&staged, directory)?;
    std::fs::remove_dir_all(&old).or_else(absent_is_fine)?;
    let staged_manifest =
        base.join(format!(".manifest-{}", rustix::process::getpid().as_raw_nonzero()));
    std::fs::write(&staged_manifest, write_manifest(&copier.seen))?;
    std::fs::rename(&staged_manifest, manifest)
}

/// What an image has in its `/etc`; one without any has nothing.
fn names_in(directory: &Path) -> io::Result<Vec<OsString>> {
    match std::fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.file_name())).collect(),
        Err(error) => absent_is_fine(error).map(|()| Vec::new()),
    }
}

fn absent_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// World-readable whatever the caller's umask is: the workload may be another
/// user.
fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o755).create(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    io::Write::write_all(&mut file, content)
}

/// Copies what everybody may read; links stay links.
struct Copier<'a> {
    from: &'a Path,
    seen: Vec<Seen>,
}

impl Copier<'_> {
    fn copy(&mut self, from: &Path, name: &Path, to: &Path) -> io::Result<()> {
        let source = from.join(name);
        if self.seen.len() >= ENTRIES_MAX || LEFT_OUT.iter().any(|out| source.ends_with(out)) {
            return Ok(());
        }
        let target = to.join(name.file_name().unwrap_or(name.as_os_str()));
        let stat = rustix::fs::statat(rustix::fs::CWD, &source, AtFlags::SYMLINK_NOFOLLOW);
        let Ok(stat) = stat else {
            self.seen.push(Seen { path: source, stamp: ABSENT });
            return Ok(());
        };
        if !is_copied(&stat) {
            return Ok(());
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                self.note_file(&source, &stat);
                std::os::unix::fs::symlink(std::fs::read_link(&source)?, target)
            }
            FileType::Directory => {
                self.seen.push(Seen { path: source.clone(), stamp: stamp(&stat) });
                self.copy_directory(&source, &target)
            }
            _ => {
                self.note_file(&source, &stat);
                write_file(&target, &std::fs::read(&source)?)
            }
        }
    }

    /// A file's own change shows in its directory when it is replaced, as
    /// package managers do; those directly in `from` are edited by hand and
    /// looked at one by one.
    fn note_file(&mut self, source: &Path, stat: &Stat) {
        if source.parent() == Some(self.from) {
            self.seen.push(Seen { path: source.to_owned(), stamp: stamp(stat) });
        }
    }

    fn copy_directory(&mut self, source: &Path, target: &Path) -> io::Result<()> {
        make_directory(target)?;
        for entry in std::fs::read_dir(source)? {
            self.copy(source, Path::new(&entry?.file_name()), target)?;
        }
        Ok(())
    }
}

/// What the `/etc` inside has at a place of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InEtc {
    /// The same as the host.
    Copied,
    /// Something of the sandbox's own.
    Made,
    Absent,
}

/// Says what [`etc`] puts at `path`, an absolute one without links, which need not
/// exist.
#[must_use]
pub fn in_etc(path: &Path) -> InEtc {
    let Ok(below) = path.strip_prefix("/etc") else { return InEtc::Absent };
    let Some(first) = below.components().next() else { return InEtc::Made };
    if MADE.iter().any(|made| below == Path::new(made)) {
        return InEtc::Made;
    }
    let is_left_out =
        || path.ancestors().any(|above| LEFT_OUT.iter().any(|out| above.ends_with(out)));
    let is_named = SHOWN.iter().any(|shown| first.as_os_str() == *shown);
    if !is_named || is_left_out() {
        return InEtc::Absent;
    }
    // From the top down, as it is copied.
    let mut at = PathBuf::from("/etc");
    for part in below.components() {
        at.push(part);
        let found = rustix::fs::statat(rustix::fs::CWD, &at, AtFlags::SYMLINK_NOFOLLOW);
        if !found.is_ok_and(|stat| is_copied(&stat)) {
            return InEtc::Absent;
        }
    }
    InEtc::Copied
}

/// Whether the copy has a file like this: what everybody may read.
fn is_copied(stat: &Stat) -> bool {
    let readable = stat.st_mode & 0o004 != 0;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => true,
        FileType::Directory => readable,
        FileType::RegularFile => readable && is_small(stat),
        _ => false,
    }
}

fn is_small(stat: &Stat) -> bool {
    u64::try_from(stat.st_size).is_ok_and(|size| size <= FILE_BYTES_MAX)
}

fn generated(account: &Account, machine: Names<'_>) -> Vec<(&'static str, Made)> {
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
    let names = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
                 protocols: files\nservices: files\n";
    // Nobody answers there: a look-up fails at once instead of timing out.
    let resolver = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
    let texts = [
        ("passwd", passwd),
        ("group", group),
        ("nsswitch.conf", names.to_owned()),
        ("resolv.conf", resolver.to_owned()),
    ];
    let texts = texts.map(|(name, text)| (name, Made::Text(text)));
    texts.into_iter().chain(machine.files()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn account() -> Account {
        Account {
            name: "ada".to_owned(),
            uid: 1000,
            gid: 1000,
            home: "/home/ada".into(),
            shell: "/bin/sh".into(),
        }
    }

    #[test]
    fn accounts_are_generated_and_secrets_are_not_there() {
        let base = tempfile::tempdir().unwrap();
        let etc = etc(base.path(), &account(), Names::Fixed("box"), None).unwrap();
        let passwd = std::fs::read_to_string(etc.join("passwd")).unwrap();
        assert!(passwd.contains("ada:x:1000:1000:ada:/home/ada:/bin/sh\n"), "{passwd}");
        for secret in ["shadow", "gshadow", "sudoers", "ssh", "ssl/private", "machine-id"] {
            assert!(!etc.join(secret).exists(), "{secret}");
        }
        // The control: the host has at least the first of them.
        assert!(Path::new("/etc/shadow").exists());
        assert_eq!(std::fs::metadata(&etc).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn it_is_kept_until_the_host_changes() {
        let base = tempfile::tempdir().unwrap();
        let first = etc(base.path(), &account(), Names::Fixed("box"), None).unwrap();
        std::fs::write(first.join("mark"), "").unwrap();
        assert_eq!(etc(base.path(), &account(), Names::Fixed("box"), None).unwrap(), first);
        assert!(first.join("mark").exists(), "it was made anew without a reason");
        let name = format!("{}.manifest", first.file_name().unwrap().to_str().unwrap());
        let manifest = base.path().join(name);
        let mut seen = std::fs::read(&manifest).unwrap();
        seen.extend(b"1 2 3 4 /etc/hostname\n");
        std::fs::write(&manifest, seen).unwrap();
        etc(base.path(), &account(), Names::Fixed("box"), None).unwrap();
        assert!(!first.join("mark").exists(), "a change was not seen");
    }

    #[test]
    fn manifests_with_garbage_are_not_current() {
        let base = tempfile::tempdir().unwrap();
        let manifest = base.path().join("m");
        for text in ["", "\n", "1 2 3\n", "a b c d /etc\n"] {
            std::fs::write(&manifest, text).unwrap();
            assert!(!is_current(&manifest), "{text:?}");
        }
        std::fs::write(&manifest, write_manifest(&[look(Path::new("/usr"))])).unwrap();
        assert!(is_current(&manifest));
    }

    #[test]
    fn accounts_of_an_image_stay_and_ours_comes_first() {
        let image = tempfile::tempdir().unwrap();
        let added = |name: &str| {
            let read = |path: &Path| std::fs::read_to_string(image.path().join(path)).ok();
            let all = etc_additions(read, &account(), Names::Fixed("box"));
            all.into_iter().find(|(own, _)| *own == name).map(|(_, made)| match made {
                Made::Text(text) => text,
                Made::Link(to) => panic!("{name} leads to {to:?}"),
            })
        };
        assert!(added("passwd").unwrap().contains("ada:x:1000:"));
        let etc = image.path().join("etc");
        std::fs::create_dir(&etc).unwrap();
        std::fs::write(
            etc.join("passwd"),
            "root:x:0:0:r:/root:/bin/bash\nada:x:7:7::/:/x\nnode:x:1000:1000::/srv/node:/x\n",
        )
        .unwrap();
        std::fs::write(etc.join("nsswitch.conf"), "passwd: files\n").unwrap();
        let passwd = added("passwd").unwrap();
        let lines: Vec<&str> = passwd.lines().collect();
        assert_eq!(lines[0], "root:x:0:0:r:/root:/bin/bash");
        assert_eq!(lines[1], "ada:x:1000:1000:ada:/home/ada:/bin/sh");
        assert_eq!(lines[2], "node:x:1000:1000::/srv/node:/x");
        assert!(lines[3].starts_with("nobody:") && lines.len() == 4, "{passwd}");
        assert_eq!(added("nsswitch.conf"), None);
    }

    #[test]
    fn an_image_whose_etc_is_a_link_shows_nothing_of_what_it_leads_to() {
        let (base, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = tempfile::tempdir().unwrap();
        std::fs::write(secret.path().join("open.txt"), "words").unwrap();
        std::os::unix::fs::symlink(secret.path(), image.path().join("etc")).unwrap();
        let etc = etc(base.path(), &account(), Names::Fixed("box"), Some(image.path())).unwrap();
        assert!(!etc.join("open.txt").exists());
        assert!(image.path().join("etc/open.txt").exists(), "the control");
    }

    #[test]
    fn an_images_is_shown_whole_but_for_accounts_and_secrets() {
        let (base, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made =
            || etc(base.path(), &account(), Names::Fixed("box"), Some(image.path())).unwrap();
        assert!(made().join("passwd").exists(), "an image without any /etc has one inside");
        let from = image.path().join("etc");
        std::fs::create_dir(&from).unwrap();
        for name in ["own.conf", "passwd", "shadow", "mtab"] {
            std::fs::write(from.join(name), "the image's").unwrap();
        }
        let mode = std::fs::Permissions::from_mode;
        std::fs::set_permissions(from.join("own.conf"), mode(0o644)).unwrap();
        std::fs::set_permissions(from.join("shadow"), mode(0o640)).unwrap();
        let etc = made();
        assert_eq!(std::fs::read_to_string(etc.join("own.conf")).unwrap(), "the image's");
        assert!(std::fs::read_to_string(etc.join("passwd")).unwrap().contains("ada"));
        assert!(!etc.join("shadow").exists());
        assert!(!etc.join("shells").exists(), "the host's is not the image's");
    }
}
