//! Single values: sizes, times, shares, and the words a key may hold.

use crate::secret::SecretNameError;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Why a value cannot be what its key asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not a number with one of the units.
    #[error("{text:?} is not a size; write bytes or a unit, as in \"512MiB\" or \"4GiB\"")]
    Size {
        /// What was written.
        text: String,
    },
    /// Not a number with one of the units, or no unit at all.
    #[error("{text:?} is not a time; write it with its unit, as in \"90s\", \"10m\" or \"1h30m\"")]
    Time {
        /// What was written.
        text: String,
    },
    /// Not a share of processors that the kernel can give.
    #[error("{text} is not a number of processors; write one from 0.01 to 10000, as in 1.5")]
    Cpus {
        /// What was written.
        text: String,
    },
    /// Not one of the words that the key knows.
    #[error("{text:?} is not one of {known}{}", suggest(.did_you_mean.as_deref()))]
    Word {
        /// What was written.
        text: String,
        /// The words that are known, for people.
        known: String,
        /// The known word that is nearest, if one is near.
        did_you_mean: Option<String>,
    },
    /// A number out of range.
    #[error("{text} is out of range; write a number from {least} to {most}")]
    Range {
        /// What was written.
        text: String,
        /// Least that is accepted.
        least: u64,
        /// Most that is accepted.
        most: u64,
    },
    /// A path that depends on where somebody stands.
    #[error("{text:?} is not absolute; write it from / or from ~/")]
    RelativePath {
        /// What was written.
        text: String,
    },
    /// A path that climbs, so that its meaning depends on links.
    #[error("{text:?} contains \"..\"; write the path that is meant")]
    ClimbingPath {
        /// What was written.
        text: String,
    },
    /// No path or value can hold a NUL byte.
    #[error("a value cannot contain a NUL byte")]
    Nul,
    /// A file name was asked for, a path or nothing was given.
    #[error("{text:?} is not the name of a file; write a name without a slash")]
    FileName {
        /// What was written.
        text: String,
    },
    /// No place in a request.
    #[error(
        "{text:?} is no place in a request; write \"bearer\", \"basic:USER\", \"header:NAME\" or \"query:NAME\""
    )]
    SecretUse {
        /// What was written.
        text: String,
    },
    /// No proxy. What was written may hold a password, so it is not repeated.
    #[error("write a proxy as \"http://HOST:PORT\" or \"socks5://HOST:PORT\", or \"none\"")]
    Proxy,
    /// A name that no stored secret has.
    #[error(transparent)]
    SecretName(#[from] SecretNameError),
    /// Nothing says where a secret may go.
    #[error(
        "it has no {missing}; write at = [\"https://HOST\"] and as = \"bearer\", or file = \"/PATH\""
    )]
    SecretIncomplete {
        /// The key that is missing.
        missing: &'static str,
    },
    /// A secret is a file, or it goes into requests.
    #[error("file is instead of {other}; a secret that is inside needs no placeholder")]
    SecretTwice {
        /// The key that does not go with it.
        other: &'static str,
    },
    /// A path inside that is not one.
    #[error("{text:?} is no path of a file inside; write it from /")]
    PathInside {
        /// What was written.
        text: String,
    },
    /// An environment variable's name that no environment can hold.
    #[error("{text:?} is not the name of an environment variable")]
    EnvName {
        /// What was written.
        text: String,
    },
}

pub(super) fn suggest(did_you_mean: Option<&str>) -> String {
    did_you_mean.map(|word| format!("; did you mean {word:?}?")).unwrap_or_default()
}

/// The candidate nearest to `word`, if one is near enough to be a slip.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Anything longer is no slip of the keyboard, and the distance is quadratic.
    if word.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), candidate), candidate))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

pub(super) fn word_error<'a>(
    text: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> ValueError {
    ValueError::Word {
        text: text.to_owned(),
        known: known.clone().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "),
        did_you_mean: nearest(text, known).map(str::to_owned),
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` times 1024 squared.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` times 1024 cubed.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

/// Single letters are powers of 1024, as systemd.resource-control(5) has them.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("B", 1),
    ("", 1),
];

impl FromStr for Bytes {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let error = || ValueError::Size { text: text.to_owned() };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| error())?;
        let unit = unit.trim_start();
        let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
        number.checked_mul(*factor).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Bytes {
    /// The largest binary unit that says it exactly; it parses back to the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = SIZE_UNITS[..4]
            .iter()
            .find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor));
        match exact {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

const TIME_UNITS_MS: &[(&str, u64)] =
    &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a time such as `90s`, `10m` or `1h30m`. A unit is required.
///
/// # Errors
/// When the text is not of this form or does not fit into 64 bits of milliseconds.
pub fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    let error = || ValueError::Time { text: text.to_owned() };
    let mut rest = text;
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let number: u64 = number.parse().map_err(|_| error())?;
        let (_, factor) = TIME_UNITS_MS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
        let part = number.checked_mul(*factor).ok_or_else(error)?;
        total_ms = total_ms.checked_add(part).ok_or_else(error)?;
        rest = tail;
    }
    if text.is_empty() { Err(error()) } else { Ok(Duration::from_millis(total_ms)) }
}

/// Writes a time so that [`parse_duration`] reads it back.
pub(super) fn format_duration(time: Duration) -> String {
    let mut rest = time.as_millis();
    let mut text = String::new();
    for (unit, factor) in TIME_UNITS_MS {
        let count = rest / u128::from(*factor);
        rest %= u128::from(*factor);
        if count > 0 {
            text += &format!("{count}{unit}");
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A share of processors in thousandths: 1500 is one and a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpus {
    /// Thousandths of one processor, 10 to 10,000,000.
    pub milli: u32,
}

impl Cpus {
    /// From a number as people write it.
    ///
    /// # Errors
    /// Outside 0.01 to 10000: a quota below one millisecond in the kernel's
    /// period of 100 is refused by the kernel too.
    pub fn new(cpus: f64) -> Result<Self, ValueError> {
        if !(0.01..=10_000.0).contains(&cpus) {
            return Err(ValueError::Cpus { text: cpus.to_string() });
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked just above"
        )]
        let milli = (cpus * 1000.0).round() as u32;
        Ok(Self { milli })
    }
}

impl FromStr for Cpus {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let number = text.parse().map_err(|_| ValueError::Cpus { text: text.to_owned() })?;
        Self::new(number)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.milli) / 1000.0)
    }
}

/// A limit that may be lifted: `"none"` takes back what a lower level set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit<T> {
    /// At most this.
    AtMost(T),
    /// Not limited.
    Unlimited,
}

impl<T> Limit<T> {
    /// The most, or nothing when it is not limited.
    pub fn most(self) -> Option<T> {
        match self {
            Self::AtMost(most) => Some(most),
            Self::Unlimited => None,
        }
    }
}

impl<T: FromStr> FromStr for Limit<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "none" { Ok(Self::Unlimited) } else { text.parse().map(Self::AtMost) }
    }
}

/// How the project is shown inside. The order is from widest to strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkspaceMode {
    /// The project itself; protected names are guarded.
    Live,
    /// A copy on write; nothing reaches the project before `atoll apply`.
    Review,
    /// No project inside, only an empty private directory.
    None,
}

impl WorkspaceMode {
    const ALL: [Self; 3] = [Self::Live, Self::Review, Self::None];

    /// The word for it in documents and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Review => "review",
            Self::None => "none",
        }
    }
}

impl FromStr for WorkspaceMode {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| word_error(text, Self::ALL.into_iter().map(Self::as_str)))
    }
}

impl fmt::Display for WorkspaceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What it takes for a review to be applied. The order is from widest to strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplyMode {
    /// Risky files are confirmed, by a person or a flag.
    Confirm,
    /// A person approves all of it, and no flag does.
    Ask,
}

impl ApplyMode {
    const ALL: [Self; 2] = [Self::Confirm, Self::Ask];

    /// The word for it in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Ask => "ask",
        }
    }
}

impl FromStr for ApplyMode {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| word_error(text, Self::ALL.into_iter().map(Self::as_str)))
    }
}

impl fmt::Display for ApplyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How strongly a sandbox is isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// WebAssembly.
    Wasm,
    /// Namespaces, seccomp and Landlock over the shared kernel.
    Container,
    /// A kernel in user space.
    Gvisor,
    /// A virtual machine of its own.
    Microvm,
    /// Whatever fits the need.
    Auto,
}

impl Isolation {
    const ALL: [Self; 5] = [Self::Wasm, Self::Container, Self::Gvisor, Self::Microvm, Self::Auto];

    /// The word for it in documents and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::Microvm => "microvm",
            Self::Auto => "auto",
        }
    }
}

impl FromStr for Isolation {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::ALL
            .into_iter()
            .find(|tier| tier.as_str() == text)
            .ok_or_else(|| word_error(text, Self::ALL.into_iter().map(Self::as_str)))
    }
}

/// The root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// What is installed on this machine, read-only.
    Host,
    /// A directory or a root file system tarball.
    Path(PathBuf),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        let check = |text: &str, bytes: u64| assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        check("0", 0);
        check("512MiB", 512 << 20);
        check("512 MiB", 512 << 20);
        check("4G", 4 << 30);
        check("4GB", 4_000_000_000);
        check("1kB", 1000);
        check("7B", 7);
        for text in
            ["", "MiB", "-1", "1.5GiB", "1 mib", "99999999999TiB", "1MiBx", "18446744073709551616"]
        {
            assert!(text.parse::<Bytes>().is_err(), "{text:?} must not be a size");
        }
    }

    #[test]
    fn times() {
        let check = |text: &str, ms: u64| {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}")
        };
        check("90s", 90_000);
        check("10m", 600_000);
        check("1h30m", 5_400_000);
        check("250ms", 250);
        check("0s", 0);
        for text in ["", "90", "s", "1x", "1h30", "-1s", "1.5h", "999999999999999999d", "1s "] {
            assert!(parse_duration(text).is_err(), "{text:?} must not be a time");
        }
    }

    #[test]
    fn processors() {
        assert_eq!(Cpus::new(1.5), Ok(Cpus { milli: 1500 }));
        assert_eq!(Cpus { milli: 1500 }.to_string(), "1.5");
        for bad in [0.0, 0.009, -1.0, f64::NAN, f64::INFINITY, 10_000.1] {
            assert!(Cpus::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_slip_is_named() {
        let error = "revew".parse::<WorkspaceMode>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""revew" is not one of "live", "review", "none"; did you mean "review"?"#
        );
    }

    proptest! {
        #[test]
        fn a_size_reads_back(bytes: u64) {
            prop_assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }

        #[test]
        fn a_time_reads_back(ms in 0..u64::MAX) {
            let time = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(time)), Ok(time));
        }
    }
}
