//! Layers that somebody reads, or is about to mount: they stay, whether anything else needs them
//! or not.

use atoll_api::id::LayerId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many read each layer.
type Readers = BTreeMap<LayerId, usize>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<Readers>);

/// Keeps layers for as long as it is there.
#[derive(Debug)]
pub(super) struct Held<'r> {
    reading: &'r Reading,
    /// Those layers, in the order that they were found in.
    pub(super) layers: Vec<LayerId>,
}

impl Reading {
    /// Finds layers and keeps them. None goes away between both.
    pub(super) fn hold<E>(
        &self,
        find: impl FnOnce() -> Result<Vec<LayerId>, E>,
    ) -> Result<Held<'_>, E> {
        let mut readers = self.lock();
        let layers = find()?;
        for layer in &layers {
            *readers.entry(*layer).or_default() += 1;
        }
        Ok(Held { reading: self, layers })
    }

    /// Those that are kept. Nobody begins to read while this is borrowed.
    pub(super) fn lock(&self) -> MutexGuard<'_, Readers> {
        // A count that a panic left too high keeps a layer until the next start.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut readers = self.reading.lock();
        for layer in &self.layers {
            if let Some(count) = readers.get_mut(layer) {
                *count -= 1;
                if *count == 0 {
                    readers.remove(layer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_kept_until_the_last_reader_is_gone() {
        let reading = Reading::default();
        let layer = |number| LayerId::from_random([number; 10]);
        let hold = |numbers: &[u8]| {
            let found = numbers.iter().copied().map(layer).collect();
            reading.hold(|| Ok::<_, ()>(found)).unwrap()
        };
        let kept = || reading.lock().keys().copied().collect::<Vec<_>>();
        let first = hold(&[1, 2]);
        let second = hold(&[2, 3]);
        assert_eq!(kept(), [1, 2, 3].map(layer));
        drop(first);
        assert_eq!(kept(), [2, 3].map(layer));
        assert!(reading.hold(|| Err::<Vec<LayerId>, _>(())).is_err());
        drop(second);
        assert!(kept().is_empty());
    }
}
