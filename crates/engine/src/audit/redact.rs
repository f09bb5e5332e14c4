//! What is recorded of a command line: its words, without secrets, and not too many.

use atoll_store::secret::Secret;

/// Bytes of a command line that are recorded.
pub const ARGV_BYTES_MAX: usize = 8 * 1024;
/// Longest command line that is looked through for secrets; of longer ones the program is told.
const LOOKED_AT_BYTES_MAX: usize = 64 * 1024;
/// Values that are shorter are found everywhere, and guessed anyway.
const VALUE_BYTES_MIN: usize = 4;

/// The words of a command line as they are recorded, and whether there is more of it. Without
/// `secrets`, since they could not be read, only the program is told.
pub fn argv(words: &[&[u8]], secrets: Option<&[Secret]>) -> (Vec<String>, bool) {
    let total: usize = words.iter().map(|word| word.len() + 1).sum();
    let (words, mut is_cut, secrets) = match secrets {
        Some(secrets) if total <= LOOKED_AT_BYTES_MAX => (words, false, secrets),
        _ => (&words[..words.len().min(1)], words.len() > 1, secrets.unwrap_or_default()),
    };
    let mut found: Vec<&Secret> = secrets.iter().collect();
    // One within another is found by the longer.
    found.sort_by_key(|secret| std::cmp::Reverse(secret.value.as_bytes().len()));
    let mut recorded = Vec::new();
    let mut left = ARGV_BYTES_MAX;
    for word in words {
        let mut text = without(word, &found);
        if left == 0 {
            is_cut = true;
            break;
        }
        if text.len() > left {
            is_cut = true;
            let end = text.floor_char_boundary(left);
            text.truncate(end);
        }
        left -= text.len();
        recorded.push(text);
    }
    (recorded, is_cut)
}

/// A word without the values of secrets.
fn without(word: &[u8], secrets: &[&Secret]) -> String {
    // Pieces between secrets; what stands for one is never looked through again.
    let mut pieces: Vec<Result<Vec<u8>, String>> = vec![Ok(word.to_vec())];
    for secret in secrets {
        let value = secret.value.as_bytes();
        if value.len() < VALUE_BYTES_MIN {
            continue;
        }
        let mut next = Vec::new();
        for piece in pieces {
            match piece {
                Err(stands) => next.push(Err(stands)),
                Ok(bytes) => {
                    let mut rest = &bytes[..];
                    while let Some(place) = find(rest, value) {
                        next.push(Ok(rest[..place].to_vec()));
                        next.push(Err(format!("[secret {}]", secret.name)));
                        rest = &rest[place + value.len()..];
                    }
                    next.push(Ok(rest.to_vec()));
                }
            }
        }
        pieces = next;
    }
    let text = |piece: &Result<Vec<u8>, String>| match piece {
        Ok(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Err(stands) => stands.clone(),
    };
    pieces.iter().map(text).collect()
}

fn find(bytes: &[u8], value: &[u8]) -> Option<usize> {
    bytes.windows(value.len()).position(|part| part == value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_store::secret::Value;

    fn secret(name: &str, value: &str) -> Secret {
        let value = Value::new(value.as_bytes().to_vec()).unwrap();
        Secret { name: name.parse().unwrap(), created_us: 0, updated_us: 0, value }
    }

    #[test]
    fn secrets_are_replaced_wherever_they_are() {
        let secrets = [secret("SHORT", "abc"), secret("IN", "token"), secret("OUT", "token-long")];
        let words: [&[u8]; 4] = [b"curl", b"-Hx: token-long", b"tokentoken\xff", b"abc"];
        let (argv, is_cut) = argv(&words, Some(&secrets));
        assert_eq!(argv, ["curl", "-Hx: [secret OUT]", "[secret IN][secret IN]\u{fffd}", "abc"]);
        assert!(!is_cut);
    }

    #[test]
    fn long_lines_are_cut_and_nothing_is_told_that_was_not_looked_through() {
        let word = vec![b'x'; ARGV_BYTES_MAX - 2];
        let (cut, is_cut) = argv(&[b"a", &word, "éé".as_bytes(), b"z"], Some(&[]));
        assert_eq!((cut.len(), cut[2].as_str(), is_cut), (4, "", true));
        let long = vec![b'x'; LOOKED_AT_BYTES_MAX];
        assert_eq!(argv(&[b"a", &long], Some(&[])), (vec!["a".to_owned()], true));
        assert_eq!(argv(&[b"a", b"b"], None), (vec!["a".to_owned()], true));
        assert_eq!(argv(&[b"a"], None), (vec!["a".to_owned()], false));
    }
}
