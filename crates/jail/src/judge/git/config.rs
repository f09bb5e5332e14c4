//! A strict reader of git's configuration files (git-config(1), "Syntax").
//!
//! It accepts less than git does: where git and a reader could disagree about
//! what a line means, the file is refused. The judge compares and writes only
//! what was accepted here, so a disagreement can never favour the writer.

/// Git's own files are far smaller.
pub(in super::super) const MAX_BYTES: usize = 1 << 20;

/// One setting, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Lower case.
    pub section: String,
    pub subsection: Option<Vec<u8>>,
    /// Lower case.
    pub key: String,
    /// `None` for a key without `=`, which git reads as true.
    pub value: Option<Vec<u8>>,
}

impl Entry {
    /// The name as git writes it: `section.subsection.key`.
    pub fn name(&self) -> Vec<u8> {
        let mut name = self.section.clone().into_bytes();
        if let Some(subsection) = &self.subsection {
            name.push(b'.');
            name.extend_from_slice(subsection);
        }
        name.push(b'.');
        name.extend_from_slice(self.key.as_bytes());
        name
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("the file is larger than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("line {line}: {what}")]
    Syntax { line: usize, what: &'static str },
}

/// Reads a whole file.
///
/// # Errors
///
/// For anything odd, with the line.
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry>, ParseError> {
    if bytes.len() > MAX_BYTES {
        return Err(ParseError::TooLarge);
    }
    Reader { bytes, at: 0, line: 1, is_over: false }.file()
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
    /// The end was handed out as a line end.
    is_over: bool,
}

type Read<T> = Result<T, ParseError>;

impl Reader<'_> {
    fn error(&self, what: &'static str) -> ParseError {
        ParseError::Syntax { line: self.line, what }
    }

    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b'\n')
    }

    /// Gives the next character; CR LF is one line end, and so is the file's end.
    fn next(&mut self) -> Read<u8> {
        let Some(&byte) = self.bytes.get(self.at) else {
            self.is_over = true;
            return Ok(b'\n');
        };
        self.at += 1;
        match byte {
            0 => Err(self.error("a NUL byte")),
            b'\r' if self.bytes.get(self.at) == Some(&b'\n') => {
                self.at += 1;
                self.line += 1;
                Ok(b'\n')
            }
            b'\r' => Err(self.error("a carriage return within a line")),
            b'\n' => {
                self.line += 1;
                Ok(b'\n')
            }
            other => Ok(other),
        }
    }

    fn file(mut self) -> Read<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut place: Option<(String, Option<Vec<u8>>)> = None;
        while !self.is_over {
            match self.next()? {
                b'\n' | b' ' | b'\t' => {}
                b'#' | b';' => self.comment()?,
                b'[' => place = Some(self.header()?),
                first if first.is_ascii_alphabetic() => {
                    let Some((section, subsection)) = place.clone() else {
                        return Err(self.error("a key before the first section"));
                    };
                    let (key, value) = self.setting(first)?;
                    entries.push(Entry { section, subsection, key, value });
                }
                _ => return Err(self.error("neither a section nor a key")),
            }
        }
        Ok(entries)
    }

    fn comment(&mut self) -> Read<()> {
        while self.next()? != b'\n' {}
        Ok(())
    }

    fn header(&mut self) -> Read<(String, Option<Vec<u8>>)> {
        let mut section = String::new();
        loop {
            match self.next()? {
                b']' if !section.is_empty() => return Ok((section, None)),
                b' ' | b'\t' if !section.is_empty() => break,
                b'.' => return Err(self.error("a section in the old dotted form")),
                byte if is_key_byte(byte) => section.push(char::from(byte.to_ascii_lowercase())),
                _ => return Err(self.error("a broken section header")),
            }
        }
        while matches!(self.peek(), b' ' | b'\t') {
            self.next()?;
        }
        if self.next()? != b'"' {
            return Err(self.error("a subsection without quotes"));
        }
        let mut subsection = Vec::new();
        loop {
            match self.next()? {
                b'\n' => return Err(self.error("a subsection over two lines")),
                b'"' => break,
                b'\\' => match self.next()? {
                    escaped @ (b'"' | b'\\') => subsection.push(escaped),
                    _ => return Err(self.error("an unneeded escape in a subsection")),
                },
                byte => subsection.push(byte),
            }
        }
        if self.next()? != b']' {
            return Err(self.error("something between a subsection and its bracket"));
        }
        Ok((section, Some(subsection)))
    }

    fn setting(&mut self, first: u8) -> Read<(String, Option<Vec<u8>>)> {
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        while is_key_byte(self.peek()) {
            key.push(char::from(self.next()?.to_ascii_lowercase()));
        }
        loop {
            match self.next()? {
                b' ' | b'\t' => {}
                b'\n' => return Ok((key, None)),
                b'=' => return Ok((key, Some(self.value()?))),
                _ => return Err(self.error("something between a key and its value")),
            }
        }
    }

    fn value(&mut self) -> Read<Vec<u8>> {
        let mut value = Vec::new();
        let mut is_quoted = false;
        // Where the value ends if only blanks follow.
        let mut trimmed: Option<usize> = None;
        loop {
            match self.next()? {
                b'\n' if is_quoted => return Err(self.error("a quote over two lines")),
                b'\n' => break,
                blank @ (b' ' | b'\t') if !is_quoted => {
                    trimmed.get_or_insert(value.len());
                    if blank == b'\t' && !value.is_empty() && !self.only_blanks_follow() {
                        return Err(self.error("a tab within a value without quotes"));
                    }
                    if !value.is_empty() {
                        value.push(blank);
                    }
                }
                b'#' | b';' if !is_quoted => {
                    self.comment()?;
                    break;
                }
                b'"' => {
                    is_quoted = !is_quoted;
                    trimmed = None;
                }
                b'\\' => {
                    trimmed = None;
                    match self.next()? {
                        b'\n' => {
                            if self.is_over {
                                return Err(self.error("a continuation of the last line"));
                            }
                        }
                        b't' => value.push(b'\t'),
                        b'b' => value.push(8),
                        b'n' => value.push(b'\n'),
                        escaped @ (b'"' | b'\\') => value.push(escaped),
                        _ => return Err(self.error("an unknown escape")),
                    }
                }
                byte => {
                    trimmed = None;
                    value.push(byte);
                }
            }
        }
        if let Some(end) = trimmed {
            value.truncate(end);
        }
        Ok(value)
    }

    /// Blanks, then a comment or the line's end.
    fn only_blanks_follow(&self) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let next = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
        matches!(next, None | Some(b'\n' | b'\r' | b'#' | b';'))
    }
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, Option<&str>)]) {
        let entries = parse(text.as_bytes()).unwrap();
        let got: Vec<_> = entries
            .iter()
            .map(|e| {
                let value = e.value.as_ref().map(|v| String::from_utf8(v.clone()).unwrap());
                (String::from_utf8(e.name()).unwrap(), value)
            })
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(k, v)| ((*k).to_owned(), v.map(str::to_owned))).collect();
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn what_git_writes() {
        check(
            "[core]\n\trepositoryformatversion = 0\n\tfileMode = true\n[remote \"origin\"]\n\turl = \
             https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            &[
                ("core.repositoryformatversion", Some("0")),
                ("core.filemode", Some("true")),
                ("remote.origin.url", Some("https://example.com/x.git")),
                ("remote.origin.fetch", Some("+refs/heads/*:refs/remotes/origin/*")),
            ],
        );
    }

    #[test]
    fn values() {
        check("[a]b", &[("a.b", None)]);
        check("[a]b=", &[("a.b", Some(""))]);
        check("[a] b = c ; d\n", &[("a.b", Some("c"))]);
        check("[a] b = c;d\n", &[("a.b", Some("c"))]);
        check("[a] b = \"c;d \" \n", &[("a.b", Some("c;d "))]);
        check("[a] b = c\\\n  d\n", &[("a.b", Some("c  d"))]);
        check("[a] b = \\t\\n\\\"\\\\\n", &[("a.b", Some("\t\n\"\\"))]);
        check("[a] b = x\t\t# c\r\n", &[("a.b", Some("x"))]);
        check("[A \"B\\\"c\"] D=e\n", &[("a.B\"c.d", Some("e"))]);
        check("# x\n; y\n\n[a]\n", &[]);
    }

    #[test]
    fn what_is_odd_is_refused() {
        for text in [
            "a = b\n",
            "[a.b]\nc = d\n",
            "[a]\nb = \"c\n",
            "[a]\nb = \\x\n",
            "[a]\nb = c\td\n",
            "[a]\nb = c\rd\n",
            "[a]\nb = c\0d\n",
            "[a]\nb c\n",
            "[a]\nb # c\n",
            "[a]\n1 = c\n",
            "[]\nb = c\n",
            "[a b]\nc = d\n",
            "[a \"b\" ]\nc = d\n",
            "[a \"b\n\"]\nc = d\n",
            "[a \"\\b\"]\nc = d\n",
            "\u{feff}[a]\nb = c\n",
            "[a]\nb = c\\",
        ] {
            assert!(matches!(parse(text.as_bytes()), Err(ParseError::Syntax { .. })), "{text:?}");
        }
        assert_eq!(parse(&vec![b'\n'; MAX_BYTES + 1]), Err(ParseError::TooLarge));
    }

    #[test]
    fn errors_name_the_line() {
        let error = parse(b"[a]\nb = c\n!\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3: neither a section nor a key");
    }
}
