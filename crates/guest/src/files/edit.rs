//! Replacing text in a file.

use super::problem::Asked;
use super::read::not_regular;
use super::root::{Root, is_regular};
use super::staged::{Staged, Taken};
use super::stat;
use super::write::{mode_after_giving, place};
use atoll_protocol::files::{EDIT_BYTES_MAX, Edit, Expected, Replacement};
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use memchr::memmem;
use rustix::fs::{OFlags, Stat};
use std::io::{Read as _, Write as _};

pub(super) fn edit(root: &Root, request: &Edit) -> Result<Reply, Problem> {
    let asked = Asked::new("edit", &request.path)?;
    let fail = |errno| asked.errno(errno);
    let place = place(root, false, &asked)?;
    let handle = place.handle().map_err(fail)?;
    if !is_regular(&handle).map_err(fail)? {
        return Err(not_regular(&handle, &asked));
    }
    let file = root.open(&handle, OFlags::RDONLY).map_err(fail)?;
    let before = rustix::fs::fstat(&file).map_err(fail)?;
    let mut content = Vec::new();
    file.take(EDIT_BYTES_MAX + 1).read_to_end(&mut content).map_err(|error| asked.io(&error))?;
    let (content, replaced) = replace_all(content, &request.replacements, &asked)?;

    let staged = Staged::new(root, &place).map_err(fail)?;
    staged.file().write_all(&content).map_err(|error| asked.io(&error))?;
    root.chmod(staged.file(), mode_after_giving(staged.file(), &before)).map_err(fail)?;
    let stat = stat::of(staged.file(), &request.path).map_err(fail)?;
    if state(&place.stat().map_err(fail)?) != state(&before) {
        return Err(asked.problem(Code::Conflict, "it was changed meanwhile"));
    }
    staged.publish(Taken::Replace).map_err(fail)?;
    Ok(Reply::Edited { stat, replaced })
}

/// What differs when somebody has written or exchanged a file.
fn state(stat: &Stat) -> impl PartialEq + use<> {
    (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

/// The content with everything replaced, and how often each was there.
fn replace_all(
    mut content: Vec<u8>,
    replacements: &[Replacement],
    asked: &Asked<'_>,
) -> Result<(Vec<u8>, Vec<u32>), Problem> {
    let mut replaced = Vec::new();
    let limit = usize::try_from(EDIT_BYTES_MAX).unwrap_or(usize::MAX);
    let too_long = || asked.problem(Code::Limit, format!("more than {EDIT_BYTES_MAX} bytes"));
    if content.len() > limit {
        return Err(too_long());
    }
    for (number, Replacement { old, new, expected }) in (1..).zip(replacements) {
        if old.is_empty() {
            let why = format!("the old text of replacement {number} is empty");
            return Err(asked.problem(Code::Invalid, why));
        }
        let count = memmem::find_iter(&content, old).count();
        let is_expected = match *expected {
            Expected::Exactly(expected) => count == expected as usize,
            Expected::Any => count > 0,
        };
        if !is_expected {
            let expected = match *expected {
                Expected::Exactly(expected) => format!("{expected} times"),
                Expected::Any => "at least once".to_owned(),
            };
            let why = format!(
                "the old text of replacement {number} is there {count} times, not {expected}"
            );
            return Err(asked.problem(Code::Conflict, why));
        }
        let length =
            (new.len().saturating_mul(count)).saturating_add(content.len() - old.len() * count);
        if length > limit {
            return Err(too_long());
        }
        let mut edited = Vec::with_capacity(length);
        let mut rest = 0;
        for at in memmem::find_iter(&content, old) {
            edited.extend(&content[rest..at]);
            edited.extend(new.as_bytes());
            rest = at + old.len();
        }
        edited.extend(&content[rest..]);
        content = edited;
        replaced.push(u32::try_from(count).unwrap_or(u32::MAX));
    }
    Ok((content, replaced))
}
