//! Git in a sandbox: run inside, as its user, and never on the host, where the
//! repository's own settings would decide what else is run.

mod ask;
mod porcelain;

use super::translate::to_guest;
use super::{Inside, InsideError};
use ask::{Asked, Said, argument};
use atoll_api::error::ErrorCode;
use atoll_api::git::{
    Checkout, CloneRepository, Compare, Diff, GitStatus, REVISION_BYTES_MAX, URL_BYTES_MAX,
};
use atoll_api::octets::Octets;
use std::time::Duration;

/// Most of a difference that is told, in bytes.
const DIFF_BYTES_MAX: usize = 1 << 20;
/// Most of a status that is read, in bytes.
const STATUS_BYTES_MAX: usize = 4 << 20;
/// Most that git may print where nothing is expected, in bytes.
const TALK_BYTES_MAX: usize = 64 << 10;
/// How long git may take for what is there.
const LOCAL: Duration = Duration::from_secs(120);
/// How long it may take to fetch something.
const FETCH: Duration = Duration::from_secs(1800);

/// What git can reach from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nothing but the sandbox's own files.
    Files,
    /// What the gateway lets it.
    #[cfg_attr(not(test), expect(dead_code, reason = "only execs go through the gateway"))]
    Network,
}

/// What is elsewhere is fetched by an exec, which may take as long as it likes and is seen.
const REACH: Reach = Reach::Files;

impl Reach {
    /// The transports that git may use (git(1), `GIT_ALLOW_PROTOCOL`).
    fn transports(self) -> &'static str {
        match self {
            Self::Files => "file",
            Self::Network => "file:git:http:https:ssh",
        }
    }
}

impl Inside {
    /// Clones a repository.
    ///
    /// # Errors
    /// [`InsideError::Git`] with git's own words; or a URL that leads out of the sandbox.
    pub async fn clone_repository(
        &self,
        request: CloneRepository,
    ) -> Result<GitStatus, InsideError> {
        self.clone_only(&request).await?;
        self.git_status(request.path).await
    }

    /// The same without a look at what came of it.
    ///
    /// # Errors
    /// The same.
    pub(crate) async fn clone_only(&self, request: &CloneRepository) -> Result<(), InsideError> {
        let git = cloning(request)?;
        self.git(&git, TALK_BYTES_MAX, FETCH).await.map(drop)
    }

    /// How a repository is.
    ///
    /// # Errors
    /// [`InsideError::Git`].
    pub async fn git_status(&self, path: Octets) -> Result<GitStatus, InsideError> {
        let git = Asked::new("status", Some(&path))?
            .with("--porcelain=v2")
            .with("--branch")
            .with("-z")
            .with("--untracked-files=normal");
        let Said { text, is_cut } = self.git(&git, STATUS_BYTES_MAX, LOCAL).await?;
        Ok(porcelain::parse(&text, is_cut))
    }

    /// What differs.
    ///
    /// # Errors
    /// [`InsideError::Git`].
    pub async fn git_diff(&self, request: Compare) -> Result<Diff, InsideError> {
        let git = comparing(&request)?;
        let Said { text, is_cut } = self.git(&git, DIFF_BYTES_MAX, LOCAL).await?;
        Ok(Diff { text: String::from_utf8_lossy(&text).into_owned(), is_cut })
    }

    /// Checks something out.
    ///
    /// # Errors
    /// [`InsideError::Git`].
    pub async fn git_checkout(&self, request: Checkout) -> Result<GitStatus, InsideError> {
        let Checkout { path, target, create } = request;
        let target = revision("target", &target)?;
        let git = Asked::new("checkout", Some(&path))?.with("--quiet");
        let git = if create { git.with("-b") } else { git };
        self.git(&git.with(target).with("--"), TALK_BYTES_MAX, LOCAL).await?;
        self.git_status(path).await
    }
}

/// Checks what can be known of a clone before there is a sandbox.
///
/// # Errors
/// As for [`Inside::clone_repository`].
pub(crate) fn check_clone(request: &CloneRepository) -> Result<(), InsideError> {
    cloning(request).map(drop)
}

fn cloning(request: &CloneRepository) -> Result<Asked, InsideError> {
    source(&request.url, REACH)?;
    let mut git = Asked::new("clone", None)?.with("--quiet");
    if let Some(branch) = &request.branch {
        git = git.with(&format!("--branch={}", revision("branch", branch)?));
    }
    if let Some(depth) = request.depth {
        if depth == 0 {
            return Err(invalid("depth", "is 0"));
        }
        git = git.with(&format!("--depth={depth}"));
        // Git ignores the depth of a path, and takes it of the URL of one.
    }
    let url = match request.depth {
        Some(_) if request.url.starts_with('/') => format!("file://{}", request.url),
        _ => request.url.clone(),
    };
    ask::absolute(&request.path)?;
    Ok(git.with("--").with(&url).with_octets(to_guest(request.path.clone())))
}

fn comparing(request: &Compare) -> Result<Asked, InsideError> {
    let git = Asked::new("diff", Some(&request.path))?
        .with("--no-ext-diff")
        .with("--no-textconv")
        .with("--no-color");
    let mut git = if request.is_staged { git.with("--cached") } else { git };
    match (&request.from, &request.to) {
        (None, Some(_)) => return Err(invalid("to", "needs a from")),
        (Some(_), Some(_)) if request.is_staged => {
            return Err(invalid("to", "is not compared with what is staged"));
        }
        (from, to) => {
            for (field, name) in [("from", from), ("to", to)] {
                if let Some(name) = name {
                    git = git.with(revision(field, name)?);
                }
            }
        }
    }
    Ok(git.with("--"))
}

fn invalid(field: &'static str, reason: &str) -> InsideError {
    InsideError::Invalid { field, reason: reason.to_owned() }
}

/// A name of a revision that git takes for nothing else.
fn revision<'a>(field: &'static str, name: &'a str) -> Result<&'a str, InsideError> {
    argument(field, name, REVISION_BYTES_MAX)?;
    Ok(name)
}

/// Checks where a repository is cloned from.
fn source(url: &str, reach: Reach) -> Result<(), InsideError> {
    argument("url", url, URL_BYTES_MAX)?;
    let is_inside = url.starts_with('/') || url.starts_with("file:///");
    // Such a name runs a program: git-remote-NAME.
    let is_helper = url.split_once("::").is_some_and(|(name, _)| !name.contains('/'));
    if is_inside && !is_helper {
        return Ok(());
    }
    let is_remote = match url.split_once("://") {
        Some((scheme, _)) => matches!(scheme, "git" | "http" | "https" | "ssh"),
        // As scp(1) writes it.
        None => url.split('/').next().is_some_and(|host| host.contains(':')),
    };
    if is_helper || !is_remote {
        return Err(invalid("url", "is neither an absolute path nor a URL that git may use"));
    }
    match reach {
        Reach::Network => Ok(()),
        Reach::Files => Err(InsideError::Git {
            code: ErrorCode::RefusedByPolicy,
            message: "only what is in the sandbox is cloned, and this is elsewhere".to_owned(),
            next_step: "run `git clone` in the sandbox if its network may reach that; or copy it in \
                        with `atoll cp`, or upload a bundle (`git bundle create`) and clone that \
                        by its path",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(url: &str) -> CloneRepository {
        let path = "/home/user/app".try_into().unwrap();
        CloneRepository { url: url.to_owned(), path, branch: None, depth: None }
    }

    #[test]
    fn what_leads_out_is_refused_and_what_runs_a_program_too() {
        for url in ["/srv/repository", "/home/user/app.bundle", "file:///srv/a::b", "/a:b"] {
            assert!(source(url, REACH).is_ok(), "{url}");
        }
        for url in ["https://example.com/a", "ssh://git@example.com/a", "git@example.com:a/b"] {
            let refused = source(url, REACH).unwrap_err();
            let code = refused.to_api().code;
            assert_eq!(code, ErrorCode::RefusedByPolicy, "{url}: {refused}");
            assert!(source(url, Reach::Network).is_ok(), "{url}");
        }
        for url in
            ["", "-u/bin/sh", "ext::sh -c id", "fd::17", "a", "../b", "file://host/a", "ftp://a/b"]
        {
            for reach in [Reach::Files, Reach::Network] {
                let refused = source(url, reach).unwrap_err();
                assert_eq!(refused.to_api().code, ErrorCode::Invalid, "{url}: {refused}");
            }
        }
    }

    #[test]
    fn what_is_run() {
        let mut clone = request("/srv/repository");
        (clone.branch, clone.depth) = (Some("main".to_owned()), Some(1));
        insta::assert_snapshot!(
            cloning(&clone).unwrap().line(),
            @"clone --quiet --branch=main --depth=1 -- file:///srv/repository /home/user/app"
        );
        let compare = Compare {
            path: "/a".try_into().unwrap(),
            is_staged: true,
            from: Some("HEAD~1".to_owned()),
            to: None,
        };
        insta::assert_snapshot!(
            comparing(&compare).unwrap().line(),
            @"-C /a diff --no-ext-diff --no-textconv --no-color --cached HEAD~1 --"
        );
    }

    proptest! {
        #[test]
        fn nothing_that_is_asked_becomes_an_option(name in "-?-?[a-z=/~^. \\x00\n-]{0,12}") {
            let compare = Compare {
                path: "/a".try_into().unwrap(),
                is_staged: false,
                from: Some(name.clone()),
                to: None,
            };
            if let Ok(git) = comparing(&compare) {
                let line = git.arguments();
                let at = line.iter().position(|one| one.as_bytes() == name.as_bytes()).unwrap();
                prop_assert!(!name.starts_with('-') && at + 2 == line.len());
            }
            let mut clone = request("/srv/repository");
            clone.branch = Some(name.clone());
            if let Ok(git) = cloning(&clone) {
                let value = format!("--branch={name}");
                prop_assert!(git.arguments().iter().any(|one| one.as_bytes() == value.as_bytes()));
            }
            if source(&name, Reach::Network).is_ok() {
                prop_assert!(!name.starts_with('-'));
            }
        }
    }
}
