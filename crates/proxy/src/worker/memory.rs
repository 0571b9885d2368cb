//! Memory that a burst needed goes back to the system; the allocator alone would keep most of it.

/// Gives back every page that holds no live allocation.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(super) fn trim() {
    // SAFETY: malloc_trim(3) is safe to call from any thread at any time, and takes no pointer.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other C libraries have no such call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn trim() {}
