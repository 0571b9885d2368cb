//! Memory that a burst needed goes back to the system; the allocator alone would keep most of it.
//!
//! glibc keeps it in three places. Free pages within an arena are what `malloc_trim` gives back. The end of an arena is
//! given back for the first one only, so that there is one for each worker and the control thread has none of its own.
//! Every thread caches a few hundred free chunks, which after a burst lie on as many pages; only the thread's end empties
//! its cache.

use std::thread;

/// Sizes that glibc caches, in bytes that the owner may use: 64 of them, this far apart.
const CACHED_SIZES: std::ops::RangeInclusive<usize> = 24..=1_032;
const CACHED_SIZES_STEP: usize = 16;
/// Chunks of each size that a thread caches.
const CACHED_PER_SIZE: usize = 7;

/// Lets so many arenas exist, to be called before that many workers run.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(super) fn limit_arenas(count: usize) {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: mallopt(3) is safe to call from any thread at any time, and takes no pointer.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, count);
    }
}

/// Makes the free chunks in this thread's cache free for all: another thread frees them in this one's stead, and ends.
/// Soon afterwards [`trim`] finds them.
pub(super) fn empty_cache() {
    let sizes = CACHED_SIZES.step_by(CACHED_SIZES_STEP).flat_map(|size| [size; CACHED_PER_SIZE]);
    let chunks: Vec<Vec<u8>> = sizes.map(Vec::with_capacity).collect();
    // Without a thread they go back to the cache, and nothing is lost but some memory.
    let _ = thread::Builder::new().name("memory".to_owned()).spawn(move || drop(chunks));
}

/// Gives back every page that holds no live allocation.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(super) fn trim() {
    // SAFETY: malloc_trim(3) is safe to call from any thread at any time, and takes no pointer.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other C libraries have no such calls.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn limit_arenas(_count: usize) {}

/// Other C libraries have no such calls.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn trim() {}
