//! The usual latency of each method, so that latencies of slow and fast methods can be compared.
//!
//! An endpoint that happens to get calls of slow methods must not look slow. Therefore, each latency is compared with
//! the usual latency of its method in this cluster. Three times the usual latency is equally bad for a method of 1 ms
//! and for a method of 200 ms. The usual latency is the geometric mean, which a few slow answers hardly change.

use std::hash::Hasher;

use rustc_hash::FxHasher;

/// Number of sets in the table of methods. Each set has `WAYS` entries (`Place`), and an entry has the usual latency of
/// one method. All methods without an entry use one further entry, which they share.
const SETS: usize = 16;
const WAYS: usize = 4;
/// Index of the entry that all methods without an entry of their own share.
const OTHERS: usize = SETS * WAYS;
/// Number of answers over which a running mean is taken.
const MEMORY: u32 = 256;
/// Number of answers after which the usual latency is known well enough to detect outliers.
const ENOUGH: u32 = 16;
/// Lower bound for latencies, because zero has no logarithm.
const MIN_MS: f64 = 0.001;

/// The method of a call, for the comparison of latencies.
///
/// The default value stands for all calls whose method is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Method(u32);

impl Method {
    /// Computes the method from a call's `:path`. In gRPC, the path is `/package.Service/Method`.
    pub fn of_path(path: &[u8]) -> Self {
        let mut hasher = FxHasher::default();
        hasher.write(path);
        // Methods with equal hashes share one usual latency, and the percentiles of latencies that hedges and taps use.
        // All of these are then less accurate; nothing else depends on the hash.
        Self((hasher.finish() >> 32) as u32)
    }
}

/// The usual latencies of a cluster's methods.
#[derive(Debug, Clone, Default)]
pub(super) struct Methods {
    /// The usual latency over the calls of all methods.
    all: Usual,
    /// The entries of the table: first all sets, then the shared entry. Empty until the first answer.
    places: Vec<Place>,
}

/// A usual latency, stored as the running mean of the logarithms of latencies.
#[derive(Debug, Clone, Copy, Default)]
struct Usual {
    ln_ms: f64,
    answers: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    method: Method,
    /// Rises with each answer of the entry's method, and falls with each answer of another method of the same set that
    /// has no entry. At 0, such a method may take over the entry.
    claim: u32,
    usual: Usual,
}

impl Usual {
    fn observe(&mut self, ln_ms: f64) {
        self.answers = (self.answers + 1).min(MEMORY);
        self.ln_ms += (ln_ms - self.ln_ms) / f64::from(self.answers);
    }
}

impl Methods {
    /// Records that a call of `method` took `latency_ms`, and converts this latency to that of the average method. The
    /// result is `latency_ms`, multiplied by the usual latency of all calls and divided by the usual latency of
    /// `method`.
    pub(super) fn observe(&mut self, method: Method, latency_ms: f64) -> f64 {
        if self.places.is_empty() {
            self.places = vec![Place::default(); OTHERS + 1];
        }
        let ln_ms = latency_ms.max(MIN_MS).ln();
        self.all.observe(ln_ms);
        let usual = &mut self.place(method).usual;
        usual.observe(ln_ms);
        let usual_ln_ms = usual.ln_ms;
        self.compared(latency_ms, usual_ln_ms)
    }

    /// Returns the usual latency of all calls; `None` until [`ENOUGH`] calls have been answered.
    pub(super) fn usual_ms(&self) -> Option<f64> {
        (self.all.answers >= ENOUGH).then(|| self.all.ln_ms.exp())
    }

    /// Converts a wait of `at_least_ms` in a call of `method` to the equivalent wait in a call of the average method.
    /// Records nothing.
    pub(super) fn normalised(&self, method: Method, at_least_ms: f64) -> f64 {
        let of = |place: &&Place| place.method == method && place.usual.answers > 0;
        let set = self.places.get(set(method)).unwrap_or_default();
        let place = set.iter().find(of).or_else(|| self.places.last().filter(|place| place.usual.answers > 0));
        place.map_or(at_least_ms, |place| self.compared(at_least_ms, place.usual.ln_ms))
    }

    /// Converts a wait of `at_least_ms` in a call of an unknown method to the equivalent wait in a call of the average
    /// method. Assumes the method with the highest usual latency, so that a wait that is normal for this method does
    /// not look slow.
    pub(super) fn normalised_at_least(&self, at_least_ms: f64) -> f64 {
        let known = self.places.iter().filter(|place| place.usual.answers > 0);
        let slowest = known.map(|place| place.usual.ln_ms).fold(self.all.ln_ms, f64::max);
        self.compared(at_least_ms, slowest)
    }

    fn compared(&self, latency_ms: f64, usual_ln_ms: f64) -> f64 {
        // If there is only one method, return the latency unchanged, to avoid rounding errors.
        if usual_ln_ms == self.all.ln_ms { latency_ms } else { latency_ms * (self.all.ln_ms - usual_ln_ms).exp() }
    }

    /// Returns the entry for a method: its own entry, an entry that it takes over from a method with few calls, or the
    /// shared entry.
    fn place(&mut self, method: Method) -> &mut Place {
        let range = set(method);
        let set = &mut self.places[range.clone()];
        if let Some(found) = set.iter().position(|place| place.method == method && place.claim > 0) {
            set[found].claim = set[found].claim.saturating_add(1);
            return &mut self.places[range.start + found];
        }
        let weakest = (0..WAYS).min_by_key(|way| set[*way].claim).unwrap_or_default();
        if set[weakest].claim == 0 {
            set[weakest] = Place { method, claim: 1, usual: Usual::default() };
            return &mut self.places[range.start + weakest];
        }
        set[weakest].claim -= 1;
        &mut self.places[OTHERS]
    }
}

fn set(method: Method) -> std::ops::Range<usize> {
    let first = (method.0 as usize % SETS) * WAYS;
    first..first + WAYS
}

#[cfg(test)]
#[path = "methods_tests.rs"]
mod tests;
