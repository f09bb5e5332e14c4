//! The workspace of a new sandbox: a directory of this machine, sent along, or a repository.

use crate::error::CliError;
use crate::policy::{PolicyFlags, load};
use atoll_api::sandbox::{Workspace, WorkspaceGit};
use atoll_client::Upload;
use atoll_engine::pieces::Pieces;
use atoll_store::pack::{LeftOut, PackError, pack};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

/// What `--workspace` names.
#[derive(Debug)]
pub(crate) enum Source {
    /// A directory here.
    Directory(PathBuf),
    /// A repository that is cloned inside.
    Git(WorkspaceGit),
}

impl Source {
    /// What a text names: a directory if there is one, else a URL.
    pub(crate) fn parse(text: &str, branch: Option<&str>) -> Result<Self, CliError> {
        let path = Path::new(text);
        // As git tells them apart: `host:path` has no slash before its colon.
        let is_url =
            text.contains("://") || text.split('/').next().is_some_and(|first| first.contains(':'));
        if is_url && !path.exists() {
            let (url, branch) = (text.to_owned(), branch.map(str::to_owned));
            return Ok(Self::Git(WorkspaceGit { url, branch, depth: None }));
        }
        if branch.is_some() {
            return Err(CliError::new("--branch is for a workspace that is cloned")
                .because(format!("{text} is a directory, which is sent as it is")));
        }
        match path.canonicalize() {
            Ok(path) if path.is_dir() => Ok(Self::Directory(path)),
            Ok(_) => Err(CliError::new(format!("the workspace {text} is not a directory"))),
            Err(error) => {
                Err(CliError::new(format!("cannot use the workspace {text}")).because(error))
            }
        }
    }

    /// What the request says of it.
    pub(crate) fn wanted(&self) -> Workspace {
        match self {
            Self::Directory(_) => Workspace::default(),
            Self::Git(git) => Workspace { git: Some(git.clone()), ..Workspace::default() },
        }
    }
}

/// A directory that is being packed while it is sent.
pub(crate) struct Packing {
    pub(crate) upload: Upload,
    packer: JoinHandle<Result<LeftOut, PackError>>,
}

impl Packing {
    /// Begins to pack a directory, without what its ignore files and the policy hide.
    pub(crate) fn begin(directory: &Path) -> Result<Self, CliError> {
        let mut flags = PolicyFlags::default();
        flags.project = Some(directory.to_owned());
        let loaded = load(&flags)?;
        // A mode that shows no project says nothing of one that is sent.
        let (hidden, _) = loaded.scan()?;
        let root = loaded.project.root.clone();
        let (sender, upload) = Upload::pieces(None);
        let packer = thread::spawn(move || {
            let mut pieces = Pieces::new(sender);
            let is_hidden = |path: &Path, is_dir| hidden.is_hidden(path, is_dir).is_some();
            let packed = pack(&root, &is_hidden, &mut pieces)
                .and_then(|left_out| pieces.flush().map_err(PackError::Write).map(|()| left_out));
            if packed.is_err() {
                pieces.break_off(io::Error::other("the directory could not be packed"));
            }
            packed
        });
        Ok(Self { upload, packer })
    }

    /// The upload, and what tells how packing went.
    pub(crate) fn split(self) -> (Upload, impl FnOnce() -> Result<LeftOut, PackError>) {
        let packer = self.packer;
        (self.upload, move || packer.join().expect("it does not panic"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_sent_and_a_url_is_cloned() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().to_str().unwrap();
        assert!(matches!(Source::parse(text, None), Ok(Source::Directory(_))));
        assert!(Source::parse(text, Some("main")).is_err());
        for url in ["https://example.com/a", "git@example.com:a/b", "file:///srv/a"] {
            let Ok(Source::Git(git)) = Source::parse(url, Some("main")) else { panic!("{url}") };
            assert_eq!((git.url.as_str(), git.branch.as_deref()), (url, Some("main")));
        }
        let file = dir.path().join("a:b");
        std::fs::write(&file, "").unwrap();
        for text in ["/not/there", file.to_str().unwrap()] {
            assert!(Source::parse(text, None).is_err(), "{text}");
        }
    }
}
