//! Lists of hosts that are often allowed together, for people and for programs.

use super::show::to_line;
use crate::error::CliError;
use atoll_api::policy::nearest;
use atoll_egress::policy::{PRESETS, Preset, preset};
use serde::Serialize;

#[derive(Serialize)]
struct Listed {
    presets: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    name: &'static str,
    about: String,
    allow: Vec<String>,
}

/// The preset whose name is nearest, if one is near enough to be a slip.
pub(super) fn near(name: &str) -> Option<&'static str> {
    nearest(name, PRESETS.iter().map(|preset| preset.name))
}

/// All of them with what they are for, or the file of one.
pub(crate) fn print(name: Option<&str>, is_json: bool) -> Result<String, CliError> {
    let Some(name) = name else {
        if is_json {
            return Ok(to_line(&Listed { presets: PRESETS.iter().copied().map(shown).collect() }));
        }
        let line = |preset: &Preset| format!("{:12} {}\n", preset.name, preset.about());
        return Ok(PRESETS.iter().map(line).collect());
    };
    let Some(preset) = preset(name) else {
        let error = CliError::new(format!("there is no preset {name:?}"));
        return Err(match near(name) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint("`atoll policy presets` lists them"),
        });
    };
    Ok(if is_json { to_line(&shown(preset)) } else { preset.text.to_owned() })
}

fn shown(preset: Preset) -> Shown {
    let allow = preset.rules().iter().map(ToString::to_string).collect();
    Shown { name: preset.name, about: preset.about(), allow }
}
