//! The root file system of a machine whose first process is the program that this is in.

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};

/// Writes a `newc` cpio archive that holds this program as `/init`.
///
/// Source: the kernel's driver-api/early-userspace/buffer-format.rst.
pub(crate) fn archive(modules: &[String]) -> Result<(), Box<dyn Error>> {
    let mut files = vec![("init".to_owned(), 0o100_755, fs::read("/proc/self/exe")?)];
    for (count, module) in modules.iter().enumerate() {
        files.push((format!("{count}.ko"), 0o100_644, fs::read(module)?));
    }
    files.push(("TRAILER!!!".to_owned(), 0, Vec::new()));
    let mut archive = Vec::new();
    for (number, (name, mode, content)) in files.iter().enumerate() {
        let size = content.len();
        let name_size = name.len() + 1;
        write!(archive, "070701{number:08X}{mode:08X}{0:08X}{0:08X}{1:08X}{0:08X}", 0, 1)?;
        write!(archive, "{size:08X}{0:08X}{0:08X}{0:08X}{0:08X}{name_size:08X}{0:08X}", 0)?;
        archive.extend_from_slice(name.as_bytes());
        archive.push(0);
        pad(&mut archive);
        archive.extend_from_slice(content.as_slice());
        pad(&mut archive);
    }
    Ok(io::stdout().write_all(&archive)?)
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}
