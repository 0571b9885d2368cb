use super::*;

#[test]
fn sizes_are_hexadecimal_in_either_case() {
    for (line, size) in [("0", 0), ("000", 0), ("a", 10), ("FfFf", 65_535), ("ffffffffffffffff", u64::MAX)] {
        let read = parse_line(format!("{line}\r\n").as_bytes());
        assert_eq!(read, Ok(ChunkLine { size, extension_bytes: 0 }), "{line}");
    }
}

#[test]
fn extensions_are_counted_and_dropped() {
    for (line, extension_bytes) in [("5;a", 2), ("5 ; a=b", 6), ("5\t;a=\"x;y\"", 9)] {
        let read = parse_line(format!("{line}\r\n").as_bytes());
        assert_eq!(read, Ok(ChunkLine { size: 5, extension_bytes }), "{line}");
    }
}

#[test]
fn what_another_program_might_read_as_another_size_is_refused() {
    let lines = [
        "",
        " 5",
        "5 ",
        "+5",
        "-5",
        "0x5",
        "5_0",
        "5g",
        "5,5",
        "5\r",
        "5;a\rb",
        "5;a\0",
        "5;\u{b}",
        "10000000000000000",
        "00000000000000005",
    ];
    for line in lines {
        assert!(parse_line(format!("{line}\r\n").as_bytes()).is_err(), "{line:?}");
    }
    assert!(parse_line(b"5\n").is_err());
    assert!(parse_line(b"5").is_err());
}
