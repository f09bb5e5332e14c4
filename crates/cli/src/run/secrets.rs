//! Secrets that a policy names: those that go along with requests, for the gateway; and those that
//! are shown as files.

use crate::error::CliError;
use crate::policy::network;
use crate::serve::places::Places;
use atoll_api::policy::{Network as Said, SECRET_FILES, SecretBinding, is_place_of_secrets};
use atoll_api::secret::SecretName;
use atoll_egress::control::Binding;
use atoll_egress::secret::{Secret, carried};
use atoll_engine::secrets::stored_name;
use atoll_store::secret::{Secrets, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Secrets that go along with requests, with the placeholders that the command gets.
pub(super) fn bindings(
    understood: &network::Network,
    said: &Said,
) -> Result<(Vec<Binding>, BTreeMap<String, String>), CliError> {
    let mut bindings = Vec::new();
    let mut placeholders = BTreeMap::new();
    for placed in &understood.secrets {
        let Some((name, secret)) =
            said.secrets.iter().find(|(name, _)| name.as_str() == placed.name)
        else {
            continue;
        };
        let SecretBinding::Injected { env, .. } = &secret.value else { continue };
        let failed = |why: String| unusable(name, why);
        let value = stored(name)?;
        // What the gateway would not take is told before anything runs.
        let value =
            carried(value.as_bytes(), &placed.form).map_err(|error| failed(error.to_string()))?;
        let placeholder =
            Secret::placeholder_for(name.as_str()).map_err(|error| failed(error.to_string()))?;
        if let Some(variable) = env {
            placeholders.insert(variable.clone(), placeholder.clone());
        }
        bindings.push(Binding {
            name: name.to_string(),
            value: value.to_owned().into(),
            placeholder,
            at: placed.at.iter().map(ToString::to_string).collect(),
            form: placed.form.to_string(),
        });
    }
    Ok((bindings, placeholders))
}

/// Secrets that are shown as files, each with its place.
pub(super) fn files(said: &Said) -> Result<Vec<(PathBuf, Value)>, CliError> {
    let mut files = Vec::new();
    for (name, secret) in &said.secrets {
        let SecretBinding::File(path) = &secret.value else { continue };
        if !is_place_of_secrets(path) {
            let why = format!("its file {} is not below {SECRET_FILES}", path.display());
            return Err(unusable(name, why));
        }
        files.push((path.clone(), stored(name)?));
    }
    Ok(files)
}

fn stored(name: &SecretName) -> Result<Value, CliError> {
    let stored = Secrets::of(Places::choose(None, None)?.state);
    let value =
        stored.get(&stored_name(name)).map_err(|error| unusable(name, error.to_string()))?;
    value.ok_or_else(|| unusable(name, "there is none of this name".to_owned()))
}

fn unusable(name: &SecretName, why: String) -> CliError {
    CliError::new(format!("the secret {name} cannot be used"))
        .hint(why)
        .hint(format!("`atoll secret set {name}` keeps one"))
}
