//! The project's own file: it may narrow, never widen.
//!
//! A project is content: it may have been cloned a minute ago, and what ran inside
//! last time could write to it. So nothing in it may give what the user did not.

use super::grants::Access;
use super::{Layer, MergeErrorKind, Merger, covering, one_item_list, quoted};
use crate::policy::document::{List, Located};
use crate::policy::effective::{Level, Origin, Sourced, Verdict};
use crate::policy::value::{Image, Limit, format_duration};

impl Merger<'_> {
    pub(super) fn narrow(&mut self, layer: &Layer) {
        self.narrow_switches(layer);
        self.narrow_limits(layer);
        self.narrow_grants(layer, Access::Read);
        self.narrow_grants(layer, Access::Write);
        self.narrow_hide(layer);
        self.narrow_protect(layer);
        self.narrow_env(layer);
        self.narrow_network(layer);
        self.narrow_image(layer);
        // The tier has one legal value; `check_available` has seen to it.
    }

    pub(super) fn widens(
        &mut self,
        origin: Origin,
        key: &'static str,
        why: String,
        user_line: Option<String>,
    ) {
        self.error(origin, key, MergeErrorKind::Widens { why, user_line });
    }

    fn narrow_switches(&mut self, layer: &Layer) {
        let document = &layer.document;
        if let Some(mode) = &document.workspace.mode {
            let base = &self.policy.workspace.mode;
            if mode.value < base.value {
                let why =
                    format!("{} shows more than {} ({})", mode.value, base.value, base.origin);
                let line = format!("mode = {}", quoted(mode.value));
                self.widens(layer.origin(mode), "workspace.mode", why, Some(line));
            } else if mode.value > base.value {
                self.policy.workspace.mode = layer.sourced(mode);
            }
        }
        if let Some(strict) = &document.workspace.strict_ignore {
            let base = &self.policy.workspace.strict_ignore;
            if base.value && !strict.value {
                let why = format!("every open is judged ({})", base.origin);
                let line = "strict_ignore = false".to_owned();
                self.widens(layer.origin(strict), "workspace.strict_ignore", why, Some(line));
            } else if strict.value != base.value {
                self.policy.workspace.strict_ignore = layer.sourced(strict);
            }
        }
        if let Some(apply) = &document.workspace.apply {
            let base = &self.policy.workspace.apply;
            if apply.value < base.value {
                let why = format!("a person approves what is applied ({})", base.origin);
                let line = format!("apply = {}", quoted(apply.value));
                self.widens(layer.origin(apply), "workspace.apply", why, Some(line));
            } else if apply.value > base.value {
                self.policy.workspace.apply = layer.sourced(apply);
            }
        }
        let kernel = &mut self.policy.kernel;
        let written = &document.kernel;
        let ptrace = narrow_permission(&mut kernel.ptrace, layer, written.ptrace.as_ref());
        let nested =
            narrow_permission(&mut kernel.nested_userns, layer, written.nested_userns.as_ref());
        for (refused, key, name) in
            [(ptrace, "kernel.ptrace", "ptrace"), (nested, "kernel.nested_userns", "nested_userns")]
        {
            if let Some(origin) = refused {
                let why = format!("{name} is off");
                self.widens(origin, key, why, Some(format!("{name} = true")));
            }
        }
    }

    fn narrow_limits(&mut self, layer: &Layer) {
        let written = &layer.document.limits;
        let limits = &mut self.policy.limits;
        let results = [
            narrow_limit(
                &mut limits.memory,
                layer,
                "limits.memory",
                written.memory.as_ref(),
                quoted,
            ),
            narrow_limit(&mut limits.disk, layer, "limits.disk", written.disk.as_ref(), quoted),
            narrow_limit(&mut limits.pids, layer, "limits.pids", written.pids.as_ref(), |n| {
                n.to_string()
            }),
            narrow_limit(&mut limits.cpus, layer, "limits.cpus", written.cpus.as_ref(), |n| {
                n.to_string()
            }),
            narrow_limit(
                &mut limits.open_files,
                layer,
                "limits.open_files",
                written.open_files.as_ref(),
                |n| n.to_string(),
            ),
            narrow_limit(&mut limits.time, layer, "limits.time", written.time.as_ref(), |t| {
                quoted(format_duration(t))
            }),
        ];
        for refused in results.into_iter().flatten() {
            self.widens(refused.origin, refused.key, refused.why, Some(refused.user_line));
        }
    }

    /// The list names what is kept; each entry must lie in what the user granted.
    /// Both are real paths, so a link in the project gains nothing.
    fn narrow_grants(&mut self, layer: &Layer, access: Access) {
        let files = &layer.document.files;
        let list = match access {
            Access::Read => &files.read,
            Access::Write => &files.write,
        };
        let Some(list) = list else { return };
        let mut kept = Vec::new();
        for grant in self.found_grants(layer, access, Some(list)) {
            let path = &grant.value.path;
            let is_given = path.starts_with(&self.host.project)
                || covering(&self.policy.files.write, path).is_some()
                || (access == Access::Read && covering(&self.policy.files.read, path).is_some());
            if is_given {
                kept.push(grant);
                continue;
            }
            let (name, verb) = match access {
                Access::Read => ("read", "readable"),
                Access::Write => ("write", "writable"),
            };
            let why = format!("{} is not {verb} by what the user granted", path.display());
            let line = format!("{name} = {}", one_item_list(grant.value.spelled.display()));
            self.widens(grant.origin, access.key(), why, Some(line));
        }
        // What the user lets be read stays readable when only `write` is narrowed:
        // dropping a write grant must not hide files that `read` shows too.
        *self.grants(access) = kept;
    }

    fn narrow_hide(&mut self, layer: &Layer) {
        let files = &layer.document.files;
        for item in layer.sourced_list(files.hide.as_ref()) {
            if item.value.starts_with('!') {
                let why = format!("{:?} takes back what others hide", item.value);
                let line = format!("hide = {}", one_item_list(&item.value));
                self.widens(item.origin, "files.hide", why, Some(line));
            } else {
                self.policy.files.hide.push(item);
            }
        }
        for item in layer.sourced_list(files.ignore_files.as_ref()) {
            let names = &mut self.policy.files.ignore_files;
            if !names.iter().any(|name| name.value == item.value) {
                names.push(item);
            }
        }
    }

    /// Rules are ordered and the last that matches decides, so the project's own
    /// denials come after everything the user has said so far. Its `allow` names
    /// which of the user's exceptions are kept: the others are dropped.
    fn narrow_protect(&mut self, layer: &Layer) {
        let protect = &layer.document.protect;
        if let Some(allow) = &protect.allow {
            for item in &allow.items {
                let is_given = self.policy.protect.iter().any(|rule| {
                    rule.value.verdict == Verdict::Allow && rule.value.pattern == item.value
                });
                if !is_given {
                    let why = format!(
                        "{:?} is not among the exceptions of the user",
                        item.value.as_str()
                    );
                    let line = format!("allow = {}", one_item_list(&item.value));
                    self.widens(layer.origin(item), "protect.allow", why, Some(line));
                }
            }
            self.policy.protect.retain(|rule| {
                rule.value.verdict == Verdict::Deny
                    || keeps(allow, |pattern| *pattern == rule.value.pattern)
            });
        }
        self.policy.protect.extend(layer.rules(protect.deny.as_ref(), Verdict::Deny));
        // More questions are never wider.
        self.policy.exec_ask.extend(layer.sourced_list(layer.document.exec.ask.as_ref()));
    }

    fn narrow_env(&mut self, layer: &Layer) {
        if let Some(pass) = &layer.document.env.pass {
            for item in &pass.items {
                if !self.policy.env.pass.iter().any(|base| base.value.covers(&item.value)) {
                    let why = format!("{} is not passed by the user's policy", item.value);
                    let line = format!("pass = {}", one_item_list(&item.value));
                    self.widens(layer.origin(item), "env.pass", why, Some(line));
                }
            }
            self.policy.env.pass = layer.sourced_list(Some(pass));
        }
        for (name, value) in &layer.document.env.set {
            let is_given =
                self.policy.env.set.get(name).is_some_and(|base| base.value == value.value);
            if !is_given {
                // A base URL or a loader variable would send the user's own keys astray.
                let why = format!("{name} would steer programs that hold the user's keys");
                let line =
                    format!("set = {{ {name:?} = {} }}", quoted(value.value.to_string_lossy()));
                self.widens(layer.origin(value), "env.set", why, Some(line));
            }
        }
    }

    fn narrow_image(&mut self, layer: &Layer) {
        let Some(image) = &layer.document.root.image else { return };
        let value = match &image.value {
            Image::Host => Image::Host,
            Image::Path(path) => Image::Path(
                layer
                    .paths
                    .get(path)
                    .and_then(|found| found.real.clone())
                    .unwrap_or_else(|| path.clone()),
            ),
        };
        if value != self.policy.image.value {
            let why = "another root shows other files".to_owned();
            let line = match &image.value {
                Image::Host => "image = \"host\"".to_owned(),
                Image::Path(path) => format!("image = {}", quoted(path.display())),
            };
            self.widens(layer.origin(image), "root.image", why, Some(line));
        }
    }
}

fn keeps<T>(list: &List<T>, is_it: impl Fn(&T) -> bool) -> bool {
    list.items.iter().any(|item| is_it(&item.value))
}

/// Switches a permission off, or gives the place where it would be switched on.
pub(super) fn narrow_permission(
    base: &mut Sourced<bool>,
    layer: &Layer,
    written: Option<&Located<bool>>,
) -> Option<Origin> {
    let written = written?;
    match (base.value, written.value) {
        (false, true) => return Some(layer.origin(written)),
        (true, false) => *base = layer.sourced(written),
        (true, true) | (false, false) => {}
    }
    None
}

pub(super) struct RefusedLimit {
    pub(super) origin: Origin,
    pub(super) key: &'static str,
    pub(super) why: String,
    pub(super) user_line: String,
}

pub(super) fn narrow_limit<T: Copy + PartialOrd>(
    base: &mut Sourced<Option<T>>,
    layer: &Layer,
    key: &'static str,
    written: Option<&Located<Limit<T>>>,
    show: fn(T) -> String,
) -> Option<RefusedLimit> {
    let written = written?;
    let most = written.value.most();
    let is_wider = match (base.value, most) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(base), Some(most)) => most > base,
    };
    if !is_wider {
        if base.value != most {
            *base = Sourced { value: most, origin: layer.origin(written) };
        }
        return None;
    }
    debug_assert!(layer.level == Level::Project);
    let shown = most.map_or_else(|| "\"none\"".to_owned(), show);
    let limit = base.value.map_or_else(|| "none".to_owned(), show);
    let name = key.rsplit('.').next().unwrap_or(key);
    Some(RefusedLimit {
        origin: layer.origin(written),
        key,
        why: format!("{shown} is more than {limit} ({})", base.origin),
        user_line: format!("{name} = {shown}"),
    })
}
