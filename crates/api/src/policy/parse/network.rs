//! Reads `[network]`.

use super::error::ParseErrorKind;
use super::item::{env_name, plain};
use super::{Item, ParseError, Reader};
use crate::policy::document::{List, Located};
use crate::policy::network::{NetworkSection, SecretBinding, SecretUse};
use crate::policy::value::{ValueError, nearest};
use crate::secret::SecretName;
use std::path::PathBuf;
use toml::de::{DeTable, DeValue};

/// Keys of `[network.secret.NAME]`.
const SECRET_KEYS: [&str; 4] = ["at", "as", "env", "file"];

/// `[network.secret.NAME]` as it stands there.
#[derive(Default)]
struct SecretTable {
    at: Option<List<String>>,
    used_as: Option<Located<SecretUse>>,
    env: Option<Located<String>>,
    file: Option<Located<PathBuf>>,
}

impl Reader {
    pub(super) fn network(&mut self, name: &str, item: &Item<'_>, section: &mut NetworkSection) {
        match name {
            "mode" => section.mode = self.word(item),
            "presets" => section.presets = self.list(item, "a list of names", plain),
            "allow" => section.allow = self.list(item, "a list of rules", plain),
            "ask" => section.ask = self.list(item, "a list of rules", plain),
            "deny" => section.deny = self.list(item, "a list of rules", plain),
            "explain" => section.explain = self.boolean(item),
            "proxy_variables" => section.proxy_variables = self.boolean(item),
            "stand_in" => section.stand_in = self.text(item, "a network, as in \"11.0.0.0/15\""),
            "ipv6" => section.ipv6 = self.boolean(item),
            "upstream_proxy" => {
                let text = self.string(item, "a URL, or \"none\"");
                section.upstream_proxy = text.and_then(|text| match text {
                    "none" => Some(Located::new(None, item.place())),
                    url => self.located(item, url.parse().map(Some)),
                });
            }
            "requests_max" => section.budgets.requests_max = self.wide_count(item),
            "bytes_max" => section.budgets.bytes_max = self.size(item),
            "requests_per_host_max" => {
                section.budgets.requests_per_host_max = self.wide_count(item)
            }
            "bytes_per_host_max" => section.budgets.bytes_per_host_max = self.size(item),
            "secret" => self.secrets(item, section),
            name => unreachable!("network.{name} is in the table of keys but not read"),
        }
    }

    fn text(&mut self, item: &Item<'_>, expected: &'static str) -> Option<Located<String>> {
        let text = self.string(item, expected)?;
        Some(Located::new(text.to_owned(), item.place()))
    }

    fn secrets(&mut self, item: &Item<'_>, section: &mut NetworkSection) {
        let DeValue::Table(table) = item.value else {
            self.wrong_type(item, "tables by name, as in [network.secret.GITHUB]");
            return;
        };
        for (name, value) in table {
            let line = self.lines.of(name.span().start);
            let name = name.get_ref().as_ref();
            let item = Item { key: format!("network.secret.{name}"), line, value: value.get_ref() };
            let name = match name.parse::<SecretName>() {
                Ok(name) => name,
                Err(problem) => {
                    let (key, problem) = ("network.secret".to_owned(), problem.into());
                    self.fail(line, ParseErrorKind::Value { key, problem });
                    continue;
                }
            };
            let DeValue::Table(table) = item.value else {
                self.wrong_type(&item, "a table");
                continue;
            };
            let errors_count = self.errors.len();
            let written = self.secret(&item.key, table);
            // What is missing may be what was not understood.
            if self.errors.len() == errors_count
                && let Some(binding) = self.located(&item, written.binding())
            {
                section.secrets.push((name, binding));
            }
        }
    }

    fn secret(&mut self, section: &str, table: &DeTable<'_>) -> SecretTable {
        let mut written = SecretTable::default();
        for (name, value) in table {
            let line = self.lines.of(name.span().start);
            let name = name.get_ref().as_ref();
            let item = Item { key: format!("{section}.{name}"), line, value: value.get_ref() };
            match name {
                "at" => written.at = self.list(&item, "a list of rules", plain),
                "as" => written.used_as = self.word(&item),
                "env" => {
                    let text = self.string(&item, "a string");
                    written.env = text.and_then(|text| self.located(&item, env_name(text)));
                }
                "file" => {
                    let text = self.string(&item, "a path");
                    written.file = text.and_then(|text| self.located(&item, path_inside(text)));
                }
                name => {
                    let did_you_mean = nearest(name, SECRET_KEYS).map(str::to_owned);
                    let (section, name) = (section.to_owned(), name.to_owned());
                    let kind = ParseErrorKind::UnknownKey { section, name, did_you_mean };
                    self.errors.push(ParseError { line, kind });
                }
            }
        }
        written
    }
}

impl SecretTable {
    fn binding(self) -> Result<SecretBinding, ValueError> {
        let Self { at, used_as, env, file } = self;
        if let Some(file) = file {
            let others = [("at", at.is_some()), ("as", used_as.is_some()), ("env", env.is_some())];
            return match others.into_iter().find(|(_, is_there)| *is_there) {
                Some((other, _)) => Err(ValueError::SecretTwice { other }),
                None => Ok(SecretBinding::File(file.value)),
            };
        }
        let at = at.map(|list| list.items).filter(|items| !items.is_empty());
        let at = at.ok_or(ValueError::SecretIncomplete { missing: "at" })?;
        let used_as = used_as.ok_or(ValueError::SecretIncomplete { missing: "as" })?.value;
        Ok(SecretBinding::Injected { at, used_as, env: env.map(|env| env.value) })
    }
}

/// Where a file may be put: it has a name, and no path that means something else.
fn path_inside(text: &str) -> Result<PathBuf, ValueError> {
    let parts = text.strip_prefix('/').map(|rest| rest.split('/'));
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_path = parts.is_some_and(|mut parts| parts.all(is_plain)) && !text.contains('\0');
    let path = || is_path.then(|| PathBuf::from(text));
    path().ok_or_else(|| ValueError::PathInside { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use crate::policy::{Place, SecretBinding, SecretUse, parse};

    fn errors(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_key_has_its_place() {
        let text = "[network]\nmode = 'rules'\npresets = ['python']\nallow = ['a.example',\n'b.example']\nask = ['*']\n\
                    deny = ['c.example']\nexplain = false\nstand_in = '11.0.0.0/15'\nupstream_proxy = 'none'\n\
                    requests_max = 5000000000\nbytes_max = '2GiB'\nrequests_per_host_max = 'none'\n\
                    [network.secret.B]\nat = ['https://a.example']\nas = 'bearer'\nenv = 'TOKEN'\n\
                    [network.secret.A]\nfile = '/run/x'\n";
        let network = parse(text.as_bytes()).unwrap().network;
        let allow: Vec<_> =
            network.allow.unwrap().items.into_iter().map(|item| (item.value, item.place)).collect();
        let line = |text: &str, line| (text.to_owned(), Place::Line(line));
        assert_eq!(allow, [line("a.example", 4), line("b.example", 5)]);
        assert_eq!(network.upstream_proxy.unwrap().value, None);
        assert_eq!(network.budgets.requests_max.unwrap().value.most(), Some(5_000_000_000));
        assert_eq!(network.budgets.requests_per_host_max.unwrap().value.most(), None);
        let [(first, a), (second, b)] = &network.secrets[..] else { panic!() };
        assert_eq!((first.as_str(), second.as_str()), ("A", "B"));
        assert_eq!((a.place, &a.value), (Place::Line(18), &SecretBinding::File("/run/x".into())));
        let SecretBinding::Injected { at, used_as, env } = &b.value else { panic!() };
        assert_eq!((at[0].value.as_str(), at[0].place), ("https://a.example", Place::Line(15)));
        assert_eq!((used_as, env.as_deref()), (&SecretUse::Bearer, Some("TOKEN")));
    }

    /// A list that is not one is never taken for "all".
    #[test]
    fn what_is_not_a_list_of_strings_is_refused() {
        for key in ["presets", "allow", "ask", "deny"] {
            for value in ["'*'", "true", "{}", "1", "[1]", "[['*']]", "[{}]", "['a', true]"] {
                let message = errors(&format!("[network]\n{key} = {value}\n"));
                assert!(
                    message.starts_with(&format!("line 2: network.{key} must be a list")),
                    "{message}"
                );
            }
            let empty = parse(format!("[network]\n{key} = []\n").as_bytes()).unwrap().network;
            assert_eq!(empty.lists().map(|(_, list)| list.items.len()).collect::<Vec<_>>(), [0]);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let text = "[network]\nmode = 'rule'\nalow = []\nexplain = 'no'\nbytes_max = '1 mib'\n\
                    [network.secret.A]\nat = []\nas = 'bearer'\n[network.secret.B]\nat = ['https://x']\n\
                    [network.secret.C]\nfile = '/x'\nenv = 'X'\n[network.secret.D]\nfile = '../x'\n\
                    [network.secret.E]\nas = 'cookie'\nenv = 'A=B'\nto = 1\n[network.secret.'a b']\n\
                    [network.secret]\nF = 'value'\n";
        insta::assert_snapshot!(errors(text), @r#"
        line 2: network.mode: "rule" is not one of "none", "rules"; did you mean "rules"?
        line 3: unknown key "alow" in [network]; did you mean "allow"?
        line 4: network.explain must be true or false, not a string
        line 5: network.bytes_max: "1 mib" is not a size; write bytes or a unit, as in "512MiB" or "4GiB"
        line 6: network.secret.A: it has no at; write at = ["https://HOST"] and as = "bearer", or file = "/PATH"
        line 9: network.secret.B: it has no as; write at = ["https://HOST"] and as = "bearer", or file = "/PATH"
        line 11: network.secret.C: file is instead of env; a secret that is inside needs no placeholder
        line 15: network.secret.D.file: "../x" is no path of a file inside; write it from /
        line 17: network.secret.E.as: "cookie" is no place in a request; write "bearer", "basic:USER", "header:NAME" or "query:NAME"
        line 18: network.secret.E.env: "A=B" is not the name of an environment variable
        line 19: unknown key "to" in [network.secret.E]
        line 20: network.secret: "a b" cannot name a secret: write 1 to 64 letters, digits, dots, dashes and underscores, and not dots alone
        line 22: network.secret.F must be a table, not a string
        "#);
    }
}
