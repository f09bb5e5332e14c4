//! Why a well-known program fails in every sandbox, where nothing was seen to be
//! refused: guessed from the command's own name, and told as a guess.

use super::refusal::Refusal;
use std::ffi::OsString;
use std::path::Path;

/// Programs that cannot do their work inside.
struct Kind {
    rule: &'static str,
    programs: &'static [&'static str],
    advice: &'static str,
}

const KINDS: [Kind; 10] = [
    Kind {
        rule: "network.ping",
        programs: &["fping", "mtr", "ping", "ping6", "tracepath", "traceroute"],
        advice: "nothing but TCP leaves a sandbox; whether a host is reached is told by a request, \
                 as with curl -I https://HOST",
    },
    Kind {
        rule: "system.containers",
        programs: &[
            "buildah",
            "crictl",
            "ctr",
            "docker",
            "docker-compose",
            "nerdctl",
            "podman",
            "virsh",
        ],
        advice: "no container engine is reachable inside; it is used outside the sandbox",
    },
    Kind {
        rule: "system.packages",
        programs: &[
            "apk", "apt", "apt-get", "dnf", "dpkg", "flatpak", "pacman", "snap", "yum", "zypper",
        ],
        advice: "the system is read-only inside; the user installs it outside, or it goes into \
                 the project",
    },
    Kind {
        rule: "system.privileges",
        programs: &["doas", "pkexec", "runuser", "su", "sudo"],
        advice: "no program gains rights inside; what needs root is run outside the sandbox",
    },
    Kind {
        rule: "system.owners",
        programs: &["chgrp", "chown"],
        advice: "there is one user and one group inside; files are given away outside",
    },
    Kind {
        rule: "system.services",
        programs: &[
            "busctl",
            "dbus-send",
            "gdbus",
            "journalctl",
            "loginctl",
            "machinectl",
            "service",
            "systemctl",
            "systemd-run",
        ],
        advice: "no service manager is reachable inside; the program itself can be started",
    },
    Kind {
        rule: "system.sessions",
        programs: &["screen", "tmux", "zellij"],
        advice: "sessions of the user's multiplexer are not reachable inside; one that is \
                 started inside is the sandbox's own",
    },
    Kind {
        rule: "system.watchers",
        programs: &["watchman"],
        advice: "the user's watcher is not reachable inside; one that is started inside ends with \
                 the sandbox",
    },
    Kind {
        rule: "system.keys",
        programs: &["gpg", "gpg2", "pass", "secret-tool", "ssh-add"],
        advice: "keys and their agents stay outside; the user signs and decrypts there",
    },
    Kind {
        rule: "system.desktop",
        programs: &[
            "code",
            "notify-send",
            "open",
            "pbcopy",
            "sensible-browser",
            "wl-copy",
            "x-www-browser",
            "xclip",
            "xdg-open",
            "xsel",
        ],
        advice: "there is no desktop inside; the user opens it outside the sandbox",
    },
];

/// What to ask for where a guess has this rule.
pub(super) fn advice(rule: &str) -> Option<&'static str> {
    KINDS.iter().find(|kind| kind.rule == rule).map(|kind| kind.advice)
}

/// The guess for a command that failed, if its name is a known one.
pub(super) fn guess(command: &[OsString]) -> Option<Refusal> {
    let words: Vec<String> = match shell_script(command) {
        Some(script) => script.split_whitespace().map(str::to_owned).collect(),
        None => command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let name = Path::new(words.first()?).file_name()?.to_str()?;
    // Whoever signs is git's helper, which the command does not name.
    let asked = if signs(name, &words) { "gpg" } else { name };
    let kind = KINDS.iter().find(|kind| kind.programs.contains(&asked))?;
    Some(Refusal {
        rule: kind.rule.to_owned(),
        operation: name.to_owned(),
        path: None,
        // A page that was to be opened can be opened by whoever reads this.
        detail: words.iter().skip(1).find(|word| word.contains("://")).cloned(),
        suggestion: None,
        pid: 0,
        exact: false,
    })
}

/// Whether the words ask git for a signature.
fn signs(name: &str, words: &[String]) -> bool {
    let asks = |word: &String| word.starts_with("-S") || word.starts_with("--gpg-sign");
    name == "git" && words.iter().any(|word| word == "commit") && words.iter().any(asks)
}

/// The script of `sh -c SCRIPT` and its like.
fn shell_script(command: &[OsString]) -> Option<String> {
    let [shell, flag, script, ..] = command else { return None };
    let shell = Path::new(shell).file_name()?.to_str()?;
    let flag = flag.to_str()?;
    let is_script = flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('c');
    let is_shell = ["sh", "bash", "dash", "ksh", "zsh"].contains(&shell);
    (is_shell && is_script).then(|| script.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str]) -> Option<(String, Option<String>)> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        guess(&words).map(|refusal| {
            assert!(!refusal.exact);
            assert!(advice(&refusal.rule).is_some());
            (refusal.operation, refusal.detail)
        })
    }

    #[test]
    fn known_names_are_guessed_and_others_are_not() {
        let plain = |name: &str| Some((name.to_owned(), None));
        assert_eq!(check(&["docker", "ps"]), plain("docker"));
        assert_eq!(check(&["/usr/bin/apt-get", "update"]), plain("apt-get"));
        assert_eq!(check(&["bash", "-lc", "sudo make install"]), plain("sudo"));
        assert_eq!(check(&["sh", "-c", "make; docker ps"]), None);
        assert_eq!(check(&["tmux", "run-shell", "true"]), plain("tmux"));
        assert_eq!(check(&["git", "commit", "-S", "-m", "x"]), plain("git"));
        assert_eq!(check(&["git", "commit", "-m", "x"]), None);
        assert_eq!(check(&["ping", "-c", "1", "a.test"]), plain("ping"));
        assert_eq!(check(&["sh", "docker"]), None);
        assert_eq!(check(&["make", "docker"]), None);
        assert_eq!(check(&[]), None);
    }

    #[test]
    fn a_page_to_open_is_named() {
        let page = "https://example.org/login?code=1";
        let opened = Some(("xdg-open".to_owned(), Some(page.to_owned())));
        assert_eq!(check(&["xdg-open", page]), opened);
    }
}
