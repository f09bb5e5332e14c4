//! The home directory of the caller.

use crate::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The home directory, links resolved: `HOME`, else what `/etc/passwd` says.
///
/// The file is read by hand because a static program cannot use the name service
/// switch; users that only a directory service knows have `HOME` set.
pub(super) fn home() -> Option<PathBuf> {
    let named = env::HOME.path().or_else(|| {
        let passwd = std::fs::read("/etc/passwd").ok()?;
        from_passwd(&passwd, rustix::process::getuid().as_raw())
    })?;
    Some(std::fs::canonicalize(&named).unwrap_or(named))
}

/// passwd(5): the third field is the user id, the sixth the directory.
fn from_passwd(passwd: &[u8], uid: u32) -> Option<PathBuf> {
    let uid = uid.to_string();
    passwd
        .split(|byte| *byte == b'\n')
        .map(|line| line.split(|byte| *byte == b':').collect::<Vec<_>>())
        .find(|fields| fields.get(2).is_some_and(|field| *field == uid.as_bytes()))
        .and_then(|fields| fields.get(5).map(|home| PathBuf::from(OsStr::from_bytes(home))))
        .filter(|home| home.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_user_counts() {
        let passwd = b"root:x:0:0:root:/root:/bin/sh\n+\nu:x:1000:1000::/home/u:\nnohome:x:7\n";
        assert_eq!(from_passwd(passwd, 1000), Some("/home/u".into()));
        assert_eq!(from_passwd(passwd, 7), None);
        assert_eq!(from_passwd(passwd, 8), None);
    }
}
