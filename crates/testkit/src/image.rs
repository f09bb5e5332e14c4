//! Root file systems from this machine's own programs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies programs of this machine and the libraries that they are linked with below `root`:
/// the programs into `bin`, the rest to where they look for it.
pub fn copy_programs(root: &Path, programs: &[&str]) {
    std::fs::create_dir_all(root.join("bin")).unwrap();
    for name in programs {
        let program = find(name);
        std::fs::copy(&program, root.join("bin").join(name)).unwrap();
        let listed = Command::new("ldd").arg(&program).output().unwrap();
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        for path in text.split_whitespace().filter(|word| word.starts_with('/')) {
            let place = root.join(&path[1..]);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            if !place.exists() {
                std::fs::copy(path, place).unwrap();
            }
        }
    }
}

fn find(program: &str) -> PathBuf {
    let directories = ["/bin", "/usr/bin", "/sbin", "/usr/sbin"];
    let found = directories.map(|directory| Path::new(directory).join(program));
    let found = found.into_iter().find(|path| path.exists()).expect("the program");
    found.canonicalize().unwrap()
}
