//! The secrets of a server, in the API's words. They lie beside the records.

use crate::engine::Engine;
use crate::error::{hopeless, plain};
use crate::oversight::Oversight;
use crate::owner::Command;
use atoll_api::audit::AuditKind;
use atoll_api::error::{ApiError, ErrorCode};
use atoll_api::secret::{Secret, SecretName};
use atoll_api::time::Timestamp;
pub use atoll_store::secret::Value;
use atoll_store::secret::{SECRETS_COUNT_MAX, SecretError, Secrets, Was};
use tokio::task::spawn_blocking;

/// Why secrets could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SecretsError(#[from] SecretError);

impl SecretsError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        let limit = |limit: &str, value: usize, next_step: &str| {
            let mut answer = hopeless(ErrorCode::Capacity, self, next_step);
            answer.details.limit = Some(limit.to_owned());
            answer.details.limit_value = u64::try_from(value).ok();
            answer
        };
        match &self.0 {
            SecretError::NotFound { .. } => {
                plain(ErrorCode::NotFound, self, "list the secrets that there are")
            }
            SecretError::TooMany => {
                limit("secrets_count_max", SECRETS_COUNT_MAX, "delete a secret that is not needed")
            }
            SecretError::Full => {
                let most = atoll_store::secret::ALL_BYTES_MAX;
                limit("secrets_bytes_max", most, "delete a secret that is not needed")
            }
            SecretError::Empty | SecretError::TooLarge => {
                let mut answer = hopeless(ErrorCode::Invalid, self, "set another value");
                answer.details.field = Some("value".to_owned());
                answer
            }
            SecretError::File { .. }
            | SecretError::NotPrivate { .. }
            | SecretError::KeyMissing { .. }
            | SecretError::KeyDamaged { .. }
            | SecretError::WrongKey { .. }
            | SecretError::Damaged { .. }
            | SecretError::TooNew { .. }
            | SecretError::Cipher { .. } => {
                let next_step = "see the server's log; secrets are as they were";
                let mut answer = hopeless(ErrorCode::Internal, self, next_step);
                // Paths of the host are the operator's business.
                answer.message = "the secrets could not be used".to_owned();
                answer
            }
        }
    }
}

/// A secret as the API shows it.
pub fn view(secret: &atoll_store::secret::Secret) -> Secret {
    let time = |us| Timestamp::from_unix_us(us).unwrap_or(Timestamp::UNIX_EPOCH);
    Secret {
        name: secret.name.as_str().parse().expect("names are the same here and there"),
        created_at: time(secret.created_us),
        updated_at: time(secret.updated_us),
    }
}

/// A name as the store has it.
pub fn stored_name(name: &SecretName) -> atoll_store::secret::SecretName {
    name.as_str().parse().expect("names are the same here and there")
}

impl Engine {
    /// All secrets by name, also those that another program has set.
    ///
    /// # Errors
    /// See [`SecretsError`].
    pub async fn secrets(&self) -> Result<Vec<Secret>, SecretsError> {
        let all = self.blocking(|oversight| oversight.secrets_now()).await?;
        Ok(all.iter().map(view).collect())
    }

    /// The value of one, for who puts it into what leaves a sandbox.
    ///
    /// # Errors
    /// See [`SecretsError`].
    pub async fn secret(&self, name: &SecretName) -> Result<Option<Value>, SecretsError> {
        let name = stored_name(name);
        let all = self.blocking(|oversight| oversight.secrets_now()).await?;
        Ok(all.iter().find(|secret| secret.name == name).map(|secret| secret.value.clone()))
    }

    /// Sets a secret for `by`, and gives it and whether it is a new one.
    ///
    /// # Errors
    /// See [`SecretsError`]; all are as they were then.
    pub async fn set_secret(
        &self,
        name: &SecretName,
        value: Vec<u8>,
        by: String,
    ) -> Result<(Secret, bool), SecretsError> {
        let now = self.shared().clock.now();
        let (name, stored) = (name.clone(), stored_name(name));
        // Somebody may delete it as soon as it is set.
        let unseen = Secret { name: name.clone(), created_at: now, updated_at: now };
        self.blocking(move |oversight| {
            let value = Value::new(value)?;
            let set = |secrets: &Secrets| {
                let is_new = secrets.set(&stored, &value, now.unix_us())? == Was::New;
                let all = secrets.all()?;
                let found = all.iter().find(|secret| secret.name == stored).map(view);
                Ok((found.unwrap_or(unseen), is_new))
            };
            let what = |set: &(Secret, bool)| AuditKind::SecretSet { name, is_new: set.1, by };
            oversight.change_secrets(set, what)
        })
        .await
        .inspect(|_| self.secrets_changed())
    }

    /// Deletes a secret for `by`.
    ///
    /// # Errors
    /// See [`SecretsError`].
    pub async fn delete_secret(&self, name: &SecretName, by: String) -> Result<(), SecretsError> {
        let (name, stored) = (name.clone(), stored_name(name));
        self.blocking(move |oversight| {
            let what = |(): &()| AuditKind::SecretDeleted { name, by };
            oversight.change_secrets(|secrets| secrets.delete(&stored), what)
        })
        .await
        .inspect(|()| self.secrets_changed())
    }

    /// Does something with secrets that may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Oversight) -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, SecretsError> {
        let oversight = self.shared().oversight.clone();
        Ok(spawn_blocking(move || work(&oversight)).await.expect("it does not panic")?)
    }

    /// Has every sandbox that runs use the secrets as they are now. One that has too much to do
    /// learns of it when it runs the next time.
    fn secrets_changed(&self) {
        for handle in self.shared().directory().handles() {
            handle.mailbox.try_send(Command::SecretsChanged).ok();
        }
    }
}
