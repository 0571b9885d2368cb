//! Memory that a burst needed goes back to the system; the allocator alone would keep most of it. The start is a burst as well.
//!
//! glibc keeps it in three places. Free pages within an arena are what `malloc_trim` gives back. The end of an arena is
//! given back for the first one only, so that there is one for each worker and the control thread has none of its own.
//! Every thread caches a few hundred free chunks, which after a burst lie on as many pages; only the thread's end empties
//! its cache.
//!
//! Most of an idle proxy's memory would be pages of its program: the kernel maps those around each page that is touched, and
//! the start touches far more than a call does. What is needed again comes back from the page cache.

use std::ops::Range;
use std::{fs, thread};

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

/// Gives back every page that holds no live allocation, and those of the program and its libraries.
pub(crate) fn trim() {
    trim_heap();
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    unchanged_file_pages(&smaps).for_each(let_go);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn trim_heap() {
    // SAFETY: malloc_trim(3) is safe to call from any thread at any time, and takes no pointer.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Unmaps pages that are as [`unchanged_file_pages`] says.
#[allow(unsafe_code)]
fn let_go(pages: Range<usize>) {
    // SAFETY: nobody can write to these pages and none of them differs from its file, from which the kernel has it again at the
    // next access. Nothing else can have come in their place: a running proxy unmaps none of its program and libraries.
    unsafe {
        libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_DONTNEED);
    }
}

/// The mappings in `/proc/PID/smaps` (proc(5)) that are the same as their file: code and constants, but neither what the
/// loader has relocated nor code into which a debugger or a tracer has put a breakpoint.
fn unchanged_file_pages(smaps: &str) -> impl Iterator<Item = Range<usize>> {
    let mut mapping = None;
    smaps.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        match words.next()? {
            "Anonymous:" if words.next() == Some("0") => mapping.take(),
            field if field.ends_with(':') => None,
            addresses => {
                mapping = read_only_file_mapping(addresses, words);
                None
            }
        }
    })
}

/// The addresses of a mapping whose first line goes on with `words`: permissions, offset, device, inode, path.
fn read_only_file_mapping<'a>(addresses: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Range<usize>> {
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let is_read_only = matches!(words.next()?, "r--p" | "r-xp");
    let is_file = words.nth(2)? != "0";
    (is_read_only && is_file).then_some(address(start)?..address(end)?)
}

/// Other C libraries have no such calls.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn limit_arenas(_count: usize) {}

/// Other C libraries have no such calls.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_heap() {}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
