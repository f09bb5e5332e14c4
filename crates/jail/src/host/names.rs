//! How a machine is called inside: by one name everywhere, or each sandbox by its own.
//!
//! Where an `/etc` is shared by many, or is part of files that others begin with, the names are not
//! in it: there are links to files that every sandbox has for itself.

use crate::spec::Entry;
use std::path::{Path, PathBuf};

/// Where a sandbox has the files for itself.
const OWN: &str = "/run/atoll-names";

/// What the `/etc` of a sandbox says of the machine's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names<'a> {
    /// This.
    Fixed(&'a str),
    /// What [`own_names`] of each sandbox says.
    OfEach,
}

/// What a file in `/etc` is made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Made {
    /// This.
    Text(String),
    /// What lies there.
    Link(PathBuf),
}

impl Names<'_> {
    /// The files, by their names in `/etc`.
    pub(super) fn files(self) -> Vec<(&'static str, Made)> {
        match self {
            Names::Fixed(name) => {
                let text = |(file, text)| (file, Made::Text(text));
                vec![text(hosts(name)), text(hostname(name))]
            }
            Names::OfEach => {
                let link = |file| (file, Made::Link(Path::new(OWN).join(file)));
                ["hosts", "hostname", "machine-id"].map(link).into()
            }
        }
    }
}

/// The files to which [`Names::OfEach`] leads, for a machine of that name and id
/// (machine-id(5): 32 lower-case hexadecimal digits). Whoever may write in `/run` may exchange
/// them: they are the sandbox's own.
#[must_use]
pub fn own_names(name: &str, machine_id: &str) -> Vec<Entry> {
    let files = [hosts(name), hostname(name), ("machine-id", format!("{machine_id}\n"))];
    files.map(|(file, text)| Entry::file(Path::new(OWN).join(file), text)).into()
}

fn hosts(name: &str) -> (&'static str, String) {
    let text = format!("127.0.0.1 localhost {name}\n::1 localhost ip6-localhost ip6-loopback\n");
    ("hosts", text)
}

fn hostname(name: &str) -> (&'static str, String) {
    ("hostname", format!("{name}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::What;

    /// Every link leads to a file that each sandbox has, with what would be in its place else.
    #[test]
    fn links_lead_to_what_each_has() {
        let own = own_names("box", "00112233445566778899aabbccddeeff");
        let text = |path: &Path| {
            let entry = own.iter().find(|entry| entry.at == path).expect("it is there");
            let What::File { content, .. } = &entry.what else { panic!("{entry:?}") };
            String::from_utf8(content.clone()).unwrap()
        };
        for (file, made) in Names::OfEach.files() {
            let Made::Link(to) = made else { panic!("{file}: {made:?}") };
            let fixed = Names::Fixed("box").files().into_iter().find(|(name, _)| *name == file);
            match fixed {
                Some((_, fixed)) => assert_eq!(fixed, Made::Text(text(&to))),
                None => assert_eq!(text(&to).len(), 33, "{file}"),
            }
        }
    }
}
