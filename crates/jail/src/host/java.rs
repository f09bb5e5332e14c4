//! The stores of certificates that runtimes of Java have: they ask no variable where to look.

use super::keystore;
use super::seen::Seen;
use super::trust::Trusted;
use crate::spec::{Entry, What};
use std::path::{Path, PathBuf};

/// Stores that systems keep for all runtimes.
const STORES: [&str; 3] = [
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/ca-trust/extracted/java/cacerts",
    "/var/lib/ca-certificates/java-cacerts",
];

/// Directories that have a directory of each runtime.
const RUNTIMES: [&str; 6] =
    ["/usr/lib/jvm", "/usr/lib64/jvm", "/usr/java", "/usr/local", "/opt", "/opt/java"];

/// The same, below HOME.
const RUNTIMES_OF_USER: [&str; 3] =
    [".asdf/installs/java", ".local/share/mise/installs/java", ".sdkman/candidates/java"];

/// Where a runtime has its store; the second is Java 8's.
const STORES_OF_RUNTIME: [&str; 2] = ["lib/security/cacerts", "jre/lib/security/cacerts"];

/// Stores that are looked for, at most.
const STORES_MAX: usize = 64;
/// Most bytes of all stores together.
const BYTES_MAX: usize = 32 << 20;

/// What comes to a view for each store in it to be another.
pub(super) fn stores(seen: Seen<'_>, home: &Path, trusted: &Trusted<'_>) -> Vec<Entry> {
    let of_user = RUNTIMES_OF_USER.iter().map(|below| home.join(below));
    let directories = RUNTIMES.iter().map(PathBuf::from).chain(of_user);
    let runtimes = directories.flat_map(|directory| seen.names(&directory));
    let theirs = runtimes.flat_map(|runtime| STORES_OF_RUNTIME.map(|store| runtime.join(store)));
    let known = STORES.iter().map(PathBuf::from);
    let mut bytes = 0;
    let found = known.chain(theirs).filter_map(|at| {
        let kept = seen.read(&at)?;
        bytes += kept.len();
        let is_room = bytes <= BYTES_MAX;
        let other = || keystore::store(&kept, trusted.named.as_deref(), trusted.certificate);
        is_room.then(other).flatten().map(|other| (other, at))
    });
    let entries = found.take(STORES_MAX).enumerate().flat_map(|(number, (store, at))| {
        let of = PathBuf::from(format!("/run/atoll-trust/java-{number}.jks"));
        [Entry::file(&of, store), Entry::new(at, What::Twin { of })]
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::keystore::tests::{bags, pem};
    use crate::spec::{Access, Kind, Source};
    use std::os::unix::fs::symlink;

    fn bind(at: &str, path: &Path) -> Entry {
        let source = Source::Path { path: path.to_owned(), expect: None };
        Entry::new(at, What::Bind { source, kind: Kind::Directory, access: Access::ReadOnly })
    }

    #[test]
    fn each_store_of_the_view_is_another_and_links_are_left() {
        let base = tempfile::tempdir().unwrap();
        let store = |below: &str| {
            let path = base.path().join(below);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bags(&[below.as_bytes()])).unwrap();
        };
        store("usr/lib/jvm/a/lib/security/cacerts");
        store("usr/lib/jvm/b/jre/lib/security/cacerts");
        store("etc/ssl/certs/java/cacerts");
        store("hidden/c/lib/security/cacerts");
        store("home/.sdkman/candidates/java/21/lib/security/cacerts");
        symlink("a", base.path().join("usr/lib/jvm/link")).unwrap();
        let view = [
            bind("/etc", &base.path().join("etc")),
            bind("/usr", &base.path().join("usr")),
            Entry::private("/opt", 0o755),
            bind("/h/.sdkman", &base.path().join("home/.sdkman")),
        ];
        let home = Path::new("/h");
        let own = pem(b"own");
        let seen = Seen { view: &view, stacks: &[] };
        let made = stores(seen, home, &Trusted { named: None, certificate: &own });
        let twins = made.iter().filter(|entry| matches!(entry.what, What::Twin { .. }));
        let places: Vec<&str> = twins.map(|entry| entry.at.to_str().unwrap()).collect();
        let expected = [
            "/etc/ssl/certs/java/cacerts",
            "/usr/lib/jvm/a/lib/security/cacerts",
            "/usr/lib/jvm/b/jre/lib/security/cacerts",
            "/h/.sdkman/candidates/java/21/lib/security/cacerts",
        ];
        assert_eq!(places, expected);
        let first = made.iter().find_map(|entry| match &entry.what {
            What::File { content, .. } => Some(content.as_slice()),
            _ => None,
        });
        let kept = bags(&[b"etc/ssl/certs/java/cacerts"]);
        assert_eq!(first.map(<[u8]>::to_vec), keystore::store(&kept, None, &own));
    }
}
