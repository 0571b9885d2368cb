//! Returns unused memory to the system after a burst of traffic, and after the start of the process. The allocator
//! alone would keep most of this memory.
//!
//! glibc keeps free memory in three places:
//!
//! - Free pages within an arena: `malloc_trim` returns them.
//! - The free end of an arena: glibc returns it for the first arena only. So there is one arena for each worker, and
//!   the control thread has none of its own.
//! - Each thread's cache: a few hundred free chunks, which lie on as many pages after a burst. Only the thread's end
//!   empties the cache.
//!
//! Pages of the program and its libraries are returned, too: otherwise they would be most of an idle proxy's memory.
//! The start touches far more of these pages than a call does, and for each touched page the kernel also maps the pages
//! around it. If such a page is needed again, the kernel maps it from the page cache.

use std::ops::Range;
use std::{fs, thread};

/// The 64 chunk sizes that glibc caches, in usable bytes, [`CACHED_SIZES_STEP`] apart.
const CACHED_SIZES: std::ops::RangeInclusive<usize> = 24..=1_032;
const CACHED_SIZES_STEP: usize = 16;
/// Maximum number of chunks of one size that a thread caches.
const CACHED_PER_SIZE: usize = 7;

/// Limits glibc to `count` arenas. Call this with `index + 1` before the worker with that `index` starts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(super) fn limit_arenas(count: usize) {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: mallopt(3) is safe to call from any thread at any time, and takes no pointer.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, count);
    }
}

/// Empties this thread's cache of free chunks. Allocates the cached chunks and moves them to a new thread, which frees
/// them and ends. After the end of the new thread, [`trim`] can return the chunks to the system.
pub(super) fn empty_cache() {
    let sizes = CACHED_SIZES.step_by(CACHED_SIZES_STEP).flat_map(|size| [size; CACHED_PER_SIZE]);
    let chunks: Vec<Vec<u8>> = sizes.map(Vec::with_capacity).collect();
    // If no thread can be started, the chunks go back to this thread's cache. That only costs some memory.
    let _ = thread::Builder::new().name("memory".to_owned()).spawn(move || drop(chunks));
}

/// Returns to the system every page without a live allocation, and the unchanged pages of the program and its
/// libraries.
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

/// Drops `pages` from this process's memory. The pages must come from [`unchanged_file_pages`].
#[allow(unsafe_code)]
fn let_go(pages: Range<usize>) {
    // SAFETY: these pages are read-only and equal to their file, so at the next access the kernel reads them from the
    // file again. The addresses still belong to the same mappings: a running proxy does not unmap its program or
    // libraries.
    unsafe {
        libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_DONTNEED);
    }
}

/// Finds the mappings that are equal to their file (code and constants), in the text of `/proc/PID/smaps` (proc(5)).
/// Pages that the loader has relocated differ from the file, and so does code in which a debugger or a tracer has put
/// a breakpoint.
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

/// Returns the addresses of a mapping if it is a private and read-only mapping of a file. `words` is the rest of the
/// mapping's first line: permissions, offset, device, inode, path.
fn read_only_file_mapping<'a>(addresses: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Range<usize>> {
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let is_read_only = matches!(words.next()?, "r--p" | "r-xp");
    let is_file = words.nth(2)? != "0";
    (is_read_only && is_file).then_some(address(start)?..address(end)?)
}

/// Does nothing: other C libraries have no such call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn limit_arenas(_count: usize) {}

/// Does nothing: other C libraries have no such call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_heap() {}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
