//! Reads the values of a file, each by what its key wants.

use super::super::{BuildTemplate, TemplateName, TemplateRef, TemplateStart, TemplateStep};
use super::{FileCopy, Reader, TemplateFile};
use crate::exec::{Stream, User};
use crate::image::ImagePull;
use crate::network::NetworkPolicy;
use crate::policy::{Bytes, Cpus, kind_of, parse_duration};
use crate::sandbox::{CreateSandbox, Env, Limits};
use crate::service::{Ready, ReadyLine};
use crate::wait::HttpAnswer;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use toml::de::{DeTable, DeValue};

const ROOT: &[&str] =
    &["name", "image", "pull", "template", "keep", "steps", "start", "network", "limits"];
const STEP: &[&str] = &["run", "copy", "env", "workdir", "user"];

/// A value with the key that it stands behind.
struct Item<'t> {
    key: String,
    line: u32,
    value: &'t DeValue<'t>,
}

impl Reader {
    /// The value behind a key, if it is there.
    fn item<'t>(&self, outer: &str, table: &'t DeTable<'t>, name: &str) -> Option<Item<'t>> {
        let (key, value) = table.iter().find(|(key, _)| key.get_ref().as_ref() == name)?;
        let line = self.lines.of(key.span().start);
        let key = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
        Some(Item { key, line, value: value.get_ref() })
    }

    fn wrong<T>(&mut self, item: &Item<'_>, expected: &str) -> Option<T> {
        let found = kind_of(item.value);
        self.fail(item.line, format!("{} must be {expected}, not {found}", item.key));
        None
    }

    fn text(&mut self, item: &Item<'_>) -> Option<String> {
        match item.value {
            DeValue::String(text) => Some(text.as_ref().to_owned()),
            _ => self.wrong(item, "a string"),
        }
    }

    fn table<'t>(&mut self, item: &Item<'t>, known: &[&str]) -> Option<&'t DeTable<'t>> {
        let DeValue::Table(table) = item.value else { return self.wrong(item, "a table") };
        self.known(&item.key, table, known);
        Some(table)
    }

    /// A text that means something.
    fn meant<T: FromStr<Err: fmt::Display>>(&mut self, item: &Item<'_>) -> Option<T> {
        let text = self.text(item)?;
        self.judged(item, text.parse())
    }

    fn judged<T, E: fmt::Display>(&mut self, item: &Item<'_>, read: Result<T, E>) -> Option<T> {
        read.map_err(|error| self.fail(item.line, format!("{}: {error}", item.key))).ok()
    }

    fn number<T: FromStr>(&mut self, item: &Item<'_>, range: &str) -> Option<T> {
        let DeValue::Integer(number) = item.value else {
            return self.wrong(item, "a whole number");
        };
        let read = (number.radix() == 10).then(|| number.as_str().parse().ok()).flatten();
        if read.is_none() {
            self.fail(item.line, format!("{} is {number}, and must be {range}", item.key));
        }
        read
    }

    /// One of a few words.
    fn word<T: Copy>(&mut self, item: &Item<'_>, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(item)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("{}: {text:?} is none of {}", item.key, all.join(", "));
            self.fail(item.line, message);
        }
        found.map(|(_, value)| *value)
    }

    pub(super) fn root(&mut self, root: &DeTable<'_>) -> Option<TemplateFile> {
        self.known("the file", root, ROOT);
        let name = match self.item("", root, "name") {
            Some(item) => self.meant::<TemplateName>(&item),
            None => {
                self.fail(1, "name is absent: write the template's name".to_owned());
                None
            }
        };
        let image = self.item("", root, "image").and_then(|item| self.text(&item));
        let pull = [
            ("missing", ImagePull::Missing),
            ("never", ImagePull::Never),
            ("always", ImagePull::Always),
        ];
        let image_pull = self.item("", root, "pull").and_then(|item| self.word(&item, &pull));
        let template = self.item("", root, "template");
        if let (Some(item), Some(_)) = (&template, &image) {
            self.fail(item.line, "template stands beside image: write one of them".to_owned());
        }
        let template = template.and_then(|item| self.meant::<TemplateRef>(&item));
        let keep = self.item("", root, "keep");
        let keep = keep.and_then(|item| self.number(&item, "1 to 1000"));
        let (steps, copies) =
            self.item("", root, "steps").and_then(|item| self.steps(&item)).unwrap_or_default();
        let start = self.item("", root, "start").and_then(|item| self.start(&item));
        let network = self.item("", root, "network").and_then(|item| self.reach(&item));
        let limits = self.item("", root, "limits").and_then(|item| self.limits(&item));
        let request = BuildTemplate {
            name: name?,
            image: image.unwrap_or_else(|| CreateSandbox::default().image),
            image_pull: image_pull.unwrap_or_default(),
            template,
            steps,
            start,
            network,
            limits: limits.unwrap_or_default(),
            keep,
            no_cache: false,
        };
        Some(TemplateFile { request, copies })
    }

    fn steps(&mut self, item: &Item<'_>) -> Option<(Vec<TemplateStep>, BTreeMap<usize, FileCopy>)> {
        let DeValue::Array(array) = item.value else {
            return self.wrong(item, "a list of tables, each written under [[steps]]");
        };
        let (mut steps, mut copies) = (Vec::new(), BTreeMap::new());
        for (place, value) in array.iter().enumerate() {
            let line = self.lines.of(value.span().start);
            let key = format!("steps, number {}", place + 1);
            let item = Item { key, line, value: value.get_ref() };
            let Some(table) = self.table(&item, STEP) else { continue };
            let mut known = STEP.iter().filter_map(|name| self.item("step", table, name));
            let (first, more) = (known.next(), known.next());
            drop(known);
            match (first, more) {
                (Some(what), None) => {
                    let Some(step) = self.step(&what, place, &mut copies) else { continue };
                    steps.push(step);
                }
                (Some(_), Some(more)) => self.fail(
                    more.line,
                    format!("{} stands beside another key: write a step for each", more.key),
                ),
                (None, _) if table.is_empty() => {
                    self.fail(line, format!("a step is empty: write one of {}", STEP.join(", ")));
                }
                (None, _) => {}
            }
        }
        Some((steps, copies))
    }

    fn step(
        &mut self,
        item: &Item<'_>,
        place: usize,
        copies: &mut BTreeMap<usize, FileCopy>,
    ) -> Option<TemplateStep> {
        Some(match item.key.as_str() {
            "step.run" => TemplateStep::Run(self.text(item)?),
            "step.workdir" => TemplateStep::Workdir(self.text(item)?),
            "step.user" => {
                let words = [("user", User::User), ("root", User::Root)];
                TemplateStep::User(self.word(item, &words)?)
            }
            "step.env" => TemplateStep::Env(self.env(item)?),
            _ => {
                let table = self.table(item, &["from", "to"])?;
                let from = self.needed(item, table, "from");
                let to = self.needed(item, table, "to");
                let (from, to) = (from?, to?);
                let from_text = self.text(&from)?;
                let is_outside = from_text.starts_with('/')
                    || from_text.split('/').any(|part| part == "..")
                    || from_text.is_empty();
                if is_outside {
                    let message = format!(
                        "{}: {from_text:?} is not below the directory of this file",
                        from.key
                    );
                    self.fail(from.line, message);
                    return None;
                }
                let to = self.text(&to)?;
                copies.insert(place, FileCopy { from: from_text, to: to.clone(), line: item.line });
                // Which files these are is known when they are packed; until then it stands here.
                let files = super::super::FilesDigest::from_bytes([0; 32]);
                TemplateStep::Copy(super::super::TemplateCopy { files, to })
            }
        })
    }

    fn needed<'t>(
        &mut self,
        item: &Item<'_>,
        table: &'t DeTable<'t>,
        name: &str,
    ) -> Option<Item<'t>> {
        let found = self.item(&item.key, table, name);
        if found.is_none() {
            self.fail(item.line, format!("{}.{name} is absent", item.key));
        }
        found
    }

    fn env(&mut self, item: &Item<'_>) -> Option<Env> {
        let DeValue::Table(table) = item.value else {
            return self.wrong(item, "a table of strings");
        };
        let mut env = Env::default();
        for (name, value) in table {
            let line = self.lines.of(name.span().start);
            let name = name.get_ref().as_ref();
            let item = Item { key: format!("{}.{name}", item.key), line, value: value.get_ref() };
            let text = self.text(&item)?;
            env.0.insert(name.to_owned(), text);
        }
        let checked = env.validate();
        self.judged(item, checked).map(|()| env)
    }

    fn start(&mut self, item: &Item<'_>) -> Option<TemplateStart> {
        let table = self.table(item, &["shell", "ready", "ready_timeout"])?;
        let shell = self.needed(item, table, "shell").and_then(|item| self.text(&item));
        let ready = self.item("start", table, "ready").and_then(|item| self.ready(&item));
        let time = self.item("start", table, "ready_timeout").and_then(|item| {
            let text = self.text(&item)?;
            self.judged(&item, parse_duration(&text))
        });
        let ready_timeout_ms = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Some(TemplateStart { shell: shell?, ready, ready_timeout_ms })
    }

    fn ready(&mut self, item: &Item<'_>) -> Option<Ready> {
        let table = self.table(item, &["port", "log", "http"])?;
        if table.len() != 1 {
            self.fail(item.line, format!("{} has one of port, log, http", item.key));
            return None;
        }
        let range = "1 to 65535";
        if let Some(port) = self.item(&item.key, table, "port") {
            return self.number(&port, range).map(Ready::Port);
        }
        if let Some(log) = self.item(&item.key, table, "log") {
            if let DeValue::String(pattern) = log.value {
                let pattern = pattern.as_ref().to_owned();
                return Some(Ready::Log(ReadyLine { stream: None, pattern }));
            }
            let table = self.table(&log, &["pattern", "stream"])?;
            let pattern = self.needed(&log, table, "pattern").and_then(|item| self.text(&item));
            let words = [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)];
            let stream = self.item(&log.key, table, "stream");
            let stream = stream.and_then(|item| self.word(&item, &words));
            return Some(Ready::Log(ReadyLine { stream, pattern: pattern? }));
        }
        let http = self.item(&item.key, table, "http")?;
        let table = self.table(&http, &["port", "path", "status"])?;
        let port = self.needed(&http, table, "port").and_then(|item| self.number(&item, range));
        let path = self.item(&http.key, table, "path").and_then(|item| self.text(&item));
        let status = self.item(&http.key, table, "status");
        let status = status.and_then(|item| self.number(&item, "200 to 599"));
        Some(Ready::Http(HttpAnswer { port: port?, path, status }))
    }

    fn reach(&mut self, item: &Item<'_>) -> Option<NetworkPolicy> {
        let table = self.table(item, &["allow", "ask", "deny", "presets"])?;
        let mut list = |name| {
            let item = self.item("network", table, name)?;
            let DeValue::Array(array) = item.value else {
                return self.wrong(&item, "a list of strings");
            };
            let mut texts = Vec::new();
            for value in array {
                let line = self.lines.of(value.span().start);
                let item = Item { key: item.key.clone(), line, value: value.get_ref() };
                texts.extend(self.text(&item));
            }
            Some(texts)
        };
        let mut list = |name| list(name).unwrap_or_default();
        let (allow, ask, deny) = (list("allow"), list("ask"), list("deny"));
        let presets = list("presets");
        Some(NetworkPolicy { allow, ask, deny, presets, ..NetworkPolicy::default() })
    }

    fn limits(&mut self, item: &Item<'_>) -> Option<Limits> {
        let table = self.table(item, &["memory", "cpus", "pids", "disk"])?;
        let mut size = |name| {
            let item = self.item("limits", table, name)?;
            self.meant::<Bytes>(&item).map(|bytes| bytes.0)
        };
        let (memory_bytes, disk_bytes) = (size("memory"), size("disk"));
        let cpus = self.item("limits", table, "cpus").and_then(|item| {
            let text = match item.value {
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.as_str().to_owned(),
                _ => return self.wrong(&item, "a number, as in 1.5"),
            };
            self.judged(&item, text.parse::<Cpus>())
        });
        let pids = self.item("limits", table, "pids");
        let pids = pids.and_then(|item| self.number(&item, "at least 1"));
        let cpus_milli = cpus.map(|cpus| u64::from(cpus.milli));
        Some(Limits { memory_bytes, cpus_milli, pids, disk_bytes })
    }
}
