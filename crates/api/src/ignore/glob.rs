//! Shell patterns over bytes, with git's meaning of `**`.

/// What a slash is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The subject has none: one component.
    Name,
    /// Only `**` and a literal slash match one.
    Path,
}

/// A compiled pattern: a literal start, then tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    /// Up to the first special byte. git compares it apart, and takes what follows as
    /// a pattern of its own; so does this, because `**` asks what stands before it.
    prefix: Vec<u8>,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// Any byte but a slash.
    Any,
    /// One byte of a set; never a slash.
    Set(Box<ByteSet>),
    /// Any run without a slash.
    Star,
    /// Any run.
    DeepStar,
    /// Nothing, or any run up to and with a slash. Stands before its [`Token::DeepRun`].
    DeepStart,
    /// The run of the token before: ends after any slash.
    DeepRun,
    /// Matches nothing: the pattern is broken.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }
}

impl Glob {
    pub(super) fn new(pattern: &[u8], mode: Mode) -> Self {
        let literal =
            pattern.iter().take_while(|byte| !matches!(byte, b'*' | b'?' | b'[' | b'\\')).count();
        let (prefix, rest) = pattern.split_at(literal);
        Self { prefix: prefix.to_vec(), tokens: tokens(rest, mode) }
    }

    pub(super) fn matches(&self, subject: &[u8]) -> bool {
        let Some(rest) = subject.strip_prefix(self.prefix.as_slice()) else { return false };
        if self.tokens.is_empty() {
            return rest.is_empty();
        }
        let mut states = States::new(self.tokens.len());
        states.enter(&self.tokens, 0);
        for byte in rest {
            let mut next = States::new(self.tokens.len());
            for at in states.iter() {
                step(&self.tokens, at, *byte, &mut next);
            }
            states = next;
        }
        states.contains(self.tokens.len())
    }
}

/// Where `at` can go on `byte`.
fn step(tokens: &[Token], at: usize, byte: u8, next: &mut States) {
    // The state after the last token accepts, and goes nowhere.
    let Some(token) = tokens.get(at) else { return };
    match token {
        Token::Byte(own) if *own == byte => next.enter(tokens, at + 1),
        Token::Any if byte != b'/' => next.enter(tokens, at + 1),
        Token::Set(set) if byte != b'/' && set.contains(byte) => next.enter(tokens, at + 1),
        Token::Star if byte != b'/' => next.enter(tokens, at),
        Token::DeepStar => next.enter(tokens, at),
        Token::DeepRun => {
            next.enter(tokens, at);
            if byte == b'/' {
                next.enter(tokens, at + 1);
            }
        }
        // `DeepStart` is left on entering; it never waits for a byte.
        Token::Byte(_)
        | Token::Any
        | Token::Set(_)
        | Token::Star
        | Token::DeepStart
        | Token::Never => {}
    }
}

/// The set of positions that are alive.
struct States(Vec<u64>);

impl States {
    fn new(tokens: usize) -> Self {
        Self(vec![0; tokens / 64 + 1])
    }

    fn contains(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = usize::try_from(word.trailing_zeros()).ok().filter(|bit| *bit < 64)?;
                word &= word - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// Adds a position and those that need no byte to reach.
    fn enter(&mut self, tokens: &[Token], mut at: usize) {
        loop {
            if self.contains(at) {
                return;
            }
            self.0[at / 64] |= 1 << (at % 64);
            match tokens.get(at) {
                Some(Token::Star | Token::DeepStar) => at += 1,
                Some(Token::DeepStart) => {
                    self.enter(tokens, at + 1);
                    at += 2;
                }
                Some(_) | None => return,
            }
        }
    }
}

fn tokens(pattern: &[u8], mode: Mode) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            b'?' => {
                tokens.push(Token::Any);
                at += 1;
            }
            b'\\' => {
                // A backslash at the end escapes nothing.
                tokens.push(pattern.get(at + 1).map_or(Token::Never, |byte| Token::Byte(*byte)));
                at += 2;
            }
            b'[' => {
                let (token, end) = set(pattern, at + 1);
                tokens.push(token);
                at = end;
            }
            b'*' => at = star(pattern, at, mode, &mut tokens),
            byte => {
                tokens.push(Token::Byte(byte));
                at += 1;
            }
        }
    }
    tokens
}

/// One star or more from `start`; gives where they end. Two or more reach over
/// slashes only when they fill a component.
fn star(pattern: &[u8], start: usize, mode: Mode, tokens: &mut Vec<Token>) -> usize {
    let count = pattern[start..].iter().take_while(|byte| **byte == b'*').count();
    let end = start + count;
    let opens = start == 0 || pattern[start - 1] == b'/';
    let rest = &pattern[end..];
    if count == 1 || mode == Mode::Name || !opens {
        tokens.push(Token::Star);
    } else if rest.first() == Some(&b'/') {
        tokens.extend([Token::DeepStart, Token::DeepRun]);
        return end + 1;
    } else if rest.is_empty() || rest.starts_with(b"\\/") {
        tokens.push(Token::DeepStar);
    } else {
        tokens.push(Token::Star);
    }
    end
}

/// A set, from after its bracket; gives where it ends. One that is not closed, or
/// that names a class that does not exist, breaks the pattern.
fn set(pattern: &[u8], start: usize) -> (Token, usize) {
    let never = (Token::Never, pattern.len());
    let negated = matches!(pattern.get(start), Some(b'!' | b'^'));
    let mut at = start + usize::from(negated);
    let mut set = ByteSet([0; 4]);
    // The start of a range, when the byte before can be one.
    let mut previous: Option<u8> = None;
    let first = at;
    loop {
        let Some(byte) = pattern.get(at).copied() else { return never };
        match byte {
            b']' if at > first => break,
            b'\\' => {
                let Some(escaped) = pattern.get(at + 1).copied() else { return never };
                set.add(escaped);
                previous = Some(escaped);
                at += 2;
            }
            b'-' if previous.is_some() && pattern.get(at + 1).is_some_and(|next| *next != b']') => {
                let is_escaped = pattern[at + 1] == b'\\';
                let last_at = at + 1 + usize::from(is_escaped);
                let Some(last) = pattern.get(last_at).copied() else { return never };
                (previous.unwrap_or(last)..=last).for_each(|byte| set.add(byte));
                previous = None;
                at = last_at + 1;
            }
            b'[' if pattern.get(at + 1) == Some(&b':') => match class(pattern, at + 2) {
                Class::Bytes(is_in, end) => {
                    (0..=u8::MAX).filter(|byte| is_in(*byte)).for_each(|byte| set.add(byte));
                    previous = None;
                    at = end;
                }
                Class::NotOne => {
                    set.add(b'[');
                    previous = Some(b'[');
                    at += 1;
                }
                Class::Broken => return never,
            },
            byte => {
                set.add(byte);
                previous = Some(byte);
                at += 1;
            }
        }
    }
    if negated {
        set.0 = set.0.map(|word| !word);
    }
    (Token::Set(Box::new(set)), at + 1)
}

enum Class {
    /// A class and where its text ends.
    Bytes(fn(u8) -> bool, usize),
    /// `[:` that no `:]` closes: two ordinary bytes.
    NotOne,
    /// A name that does not exist, or nothing that closes the set.
    Broken,
}

/// `[:name:]` from after its colon. Classes are those of the C locale.
fn class(pattern: &[u8], start: usize) -> Class {
    let Some(length) = pattern[start..].iter().position(|byte| *byte == b']') else {
        return Class::Broken;
    };
    let Some(name) = pattern[start..start + length].strip_suffix(b":") else {
        return Class::NotOne;
    };
    let is_in: fn(u8) -> bool = match name {
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"print" => |byte| byte.is_ascii_graphic() || byte == b' ',
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"space" => |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c),
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        _ => return Class::Broken,
    };
    Class::Bytes(is_in, start + length + 1)
}
