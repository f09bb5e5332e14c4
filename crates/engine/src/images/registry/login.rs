//! Names and passwords for registries, from a file as `docker login` writes it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

/// Most bytes of such a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Who we are at a registry.
pub(super) struct Login {
    user: String,
    password: Zeroizing<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    /// The header that says so.
    pub(super) fn basic(&self) -> String {
        let both = Zeroizing::new(format!("{}:{}", self.user, self.password.as_str()));
        format!("Basic {}", STANDARD.encode(both.as_bytes()))
    }
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// Who we are at this registry, if the file says so.
pub(super) fn find(path: &Path, registry: &str) -> Result<Option<Login>, String> {
    use std::io::Read as _;
    let read = || {
        let mut bytes = Zeroizing::new(Vec::new());
        std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let bytes = read().map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    parse(&bytes, registry)
        .ok_or_else(|| format!("{} is not as `docker login` writes it", path.display()))
}

/// The outer option is empty where the file is not understood.
#[expect(clippy::option_option, reason = "no login is not the same as no file")]
fn parse(bytes: &[u8], registry: &str) -> Option<Option<Login>> {
    let config: Config = serde_json::from_slice(bytes).ok()?;
    let is_meant = |key: &str| {
        let host = key.split_once("://").map_or(key, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        host == registry || (registry == "docker.io" && host == "index.docker.io")
    };
    let Some((_, auth)) = config.auths.into_iter().find(|(key, _)| is_meant(key)) else {
        return Some(None);
    };
    if let (Some(user), Some(password)) = (auth.username, auth.password) {
        return Some(Some(Login { user, password: Zeroizing::new(password) }));
    }
    let Some(packed) = auth.auth.map(Zeroizing::new).filter(|packed| !packed.is_empty()) else {
        return Some(None);
    };
    let plain = STANDARD.decode(packed.trim()).or_else(|_| STANDARD_NO_PAD.decode(packed.trim()));
    let plain = Zeroizing::new(String::from_utf8(plain.ok()?).ok()?);
    let (user, password) = plain.split_once(':')?;
    let password = Zeroizing::new(password.trim_end_matches('\0').to_owned());
    Some(Some(Login { user: user.to_owned(), password }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_found_by_their_registry() {
        let packed = STANDARD.encode("ada:pass:word");
        let text = format!(
            r#"{{"auths":{{"r.example:5000":{{"auth":"{packed}"}},"https://index.docker.io/v1/":{{"username":"u","password":"p"}},
                "empty.example":{{}}}},"credsStore":"desktop"}}"#
        );
        let basic = |registry| parse(text.as_bytes(), registry).unwrap().map(|login| login.basic());
        assert_eq!(basic("r.example:5000"), Some(format!("Basic {packed}")));
        assert_eq!(basic("docker.io"), Some(format!("Basic {}", STANDARD.encode("u:p"))));
        for registry in ["r.example", "empty.example", "example:5000"] {
            assert_eq!(basic(registry), None, "{registry}");
        }
        assert!(parse(b"{", "a").is_none());
        assert!(parse(br#"{"auths":{"a":{"auth":"!"}}}"#, "a").is_none());
        assert!(!format!("{:?}", parse(text.as_bytes(), "docker.io")).contains("\"p\""));
    }
}
