//! Seeds of random tests.

use std::ops::Range;
use std::thread;

/// The environment variable with the seed of every random test: a number from 0 to 2^64-1.
const VARIABLE: &str = "LENO_SEED";

/// Returns the seed of a test that runs once: `LENO_SEED`, or else a random number. A test that fails shows the seed.
///
/// # Panics
/// If `LENO_SEED` is not a number.
pub fn seed() -> u64 {
    let seed = chosen().unwrap_or_else(|| fastrand::u64(..));
    // The test harness shows this line if the test fails.
    println!("{}", hint(seed));
    seed
}

/// Returns the seeds of a test that runs many times: all numbers of `range`, or `LENO_SEED` alone. A test that fails
/// shows the seed with which it failed.
///
/// # Panics
/// If `LENO_SEED` is not a number.
pub fn seeds(range: Range<u64>) -> Seeds {
    match chosen() {
        Some(seed) => Seeds { only: Some(seed), rest: 0..0, current: None },
        None => Seeds { only: None, rest: range, current: None },
    }
}

/// Returns whether `LENO_SEED` is set. With `LENO_SEED`, a test runs with one seed, and must not expect everything that
/// a whole range of seeds would show.
pub fn is_repeated() -> bool {
    chosen().is_some()
}

/// Iterates over seeds, and shows the last seed when a test panics.
#[derive(Debug)]
pub struct Seeds {
    only: Option<u64>,
    rest: Range<u64>,
    current: Option<u64>,
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.current = self.only.take().or_else(|| self.rest.next());
        self.current
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        if let Some(seed) = self.current.filter(|_| thread::panicking()) {
            println!("{}", hint(seed));
        }
    }
}

fn chosen() -> Option<u64> {
    let text = std::env::var_os(VARIABLE)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{VARIABLE} is {text:?}; set it to a number from 0 to 2^64-1")))
}

fn hint(seed: u64) -> String {
    format!("seed {seed}; repeat it with {VARIABLE}={seed}")
}
