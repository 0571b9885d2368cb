use super::*;

fn is_fault_of_endpoint(code: i32, address: [u8; 4]) -> bool {
    let error = io::Error::from_raw_os_error(code);
    match cannot_open(&error, SocketAddr::from((address, 80))) {
        ConnectionFailure::Connect { .. } => true,
        ConnectionFailure::NoSocket { error } => {
            assert!(error.starts_with("this ") && error.contains("; "), "it names the lack and the remedy: {error}");
            false
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_endpoint_is_not_blamed_for_what_this_machine_lacks() {
    let here = [127, 0, 0, 1];
    for code in [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL, libc::ENOBUFS, libc::ENOMEM, libc::ENOSPC] {
        assert!(!is_fault_of_endpoint(code, here), "{code}");
    }
    for code in [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::ETIMEDOUT] {
        assert!(is_fault_of_endpoint(code, here), "{code}");
    }
    // The kernel has no source address for a broadcast address, so no port would help.
    assert!(is_fault_of_endpoint(libc::EADDRNOTAVAIL, [255; 4]));
}
