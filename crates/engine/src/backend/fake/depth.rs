//! Long chains of layers in memory, made short.

use super::{HostState, Kept};
use crate::backend::BackendError;
use atoll_api::id::{ID_BYTES, LayerId};
use std::collections::BTreeSet;
use std::io;

impl HostState {
    /// The shortest chain that is too long, and the last of it.
    pub(super) fn deep(
        &self,
        keep: &BTreeSet<LayerId>,
        most: usize,
    ) -> Option<(LayerId, Vec<LayerId>)> {
        let of_sandboxes = self.sandboxes.values().map(|parts| parts.kept.below.clone());
        let chains = of_sandboxes.chain(keep.iter().filter_map(|layer| self.onto(*layer).ok()));
        let deep = chains.filter(|chain| chain.len() > most).min_by_key(Vec::len)?;
        Some((*deep.last()?, deep))
    }

    /// Makes one layer of a chain, unless there is one.
    pub(super) fn make_flat(
        &mut self,
        last: LayerId,
        chain: &[LayerId],
    ) -> Result<LayerId, BackendError> {
        if let Some(flat) = self.flats.get(&last).filter(|flat| self.layers.contains_key(flat)) {
            return Ok(*flat);
        }
        let mut random = [0; ID_BYTES];
        let failed = |error| BackendError::Call { step: "name", source: io::Error::other(error) };
        getrandom::fill(&mut random).map_err(failed)?;
        let flat = LayerId::from_random(random);
        let layers = chain.iter().filter_map(|layer| self.layers.get(layer));
        let files = layers.flat_map(|layer| layer.files.clone()).collect();
        self.layers.insert(flat, Kept { below: Vec::new(), files });
        Ok(flat)
    }

    /// Puts it in the place of the chain wherever that is.
    pub(super) fn list_flat(&mut self, chain: &[LayerId], flat: LayerId) {
        if let Some(last) = chain.last() {
            self.flats.insert(*last, flat);
        }
        let of_sandboxes = self.sandboxes.values_mut().map(|parts| &mut parts.kept);
        for kept in of_sandboxes.chain(self.layers.values_mut()) {
            if let Some(rest) = kept.below.strip_prefix(chain) {
                kept.below = [&[flat], rest].concat();
            }
        }
    }
}
