use super::*;

const SMAPS: &str = "\
7f0000000000-7f00001ea000 r--p 00000000 fe:00 6513379                    /usr/bin/with space
Size:               1960 kB
Rss:                 960 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
7f00001ea000-7f0000980000 r-xp 001e9000 fe:00 6513379                    /usr/bin/with space
Rss:                4056 kB
Anonymous:             0 kB
7f0000980000-7f00009b2000 r--p 0097e000 fe:00 6513379                    /usr/bin/with space
Rss:                 200 kB
Anonymous:           200 kB
7f00009b2000-7f00009b8000 rw-p 009af000 fe:00 6513379                    /usr/bin/with space
Rss:                   0 kB
Anonymous:             0 kB
7f00009b8000-7f00009c1000 r--p 00000000 00:00 0
Rss:                   0 kB
Anonymous:             0 kB
7f00009c1000-7f00009c2000 r--s 00000000 fe:00 77                         /var/cache/shared
Rss:                   4 kB
Anonymous:             0 kB
7f00009de000-7f00009e0000 r-xp 00000000 00:00 0                          [vdso]
Rss:                   4 kB
Anonymous:             0 kB
";

#[test]
fn only_private_pages_that_cannot_differ_from_their_file_are_let_go() {
    let let_go: Vec<_> = unchanged_file_pages(SMAPS).collect();
    assert_eq!(let_go, [0x7f00_0000_0000..0x7f00_001e_a000, 0x7f00_001e_a000..0x7f00_0098_0000]);
}

#[test]
fn what_is_not_understood_is_kept() {
    for smaps in
        ["", "Anonymous: 0 kB", "zz-7f r--p 0 fe:00 7 /x\nAnonymous: 0 kB", "1000 r--p 0 fe:00 7 /x\nAnonymous: 0 kB"]
    {
        assert_eq!(unchanged_file_pages(smaps).count(), 0, "{smaps}");
    }
}

#[test]
fn a_program_goes_on_without_the_pages_that_it_has_let_go() {
    let resident_pages_of_files = || {
        let statm = fs::read_to_string("/proc/self/statm").expect("it is there");
        statm.split(' ').nth(2).and_then(|pages| pages.parse::<u64>().ok()).expect("a number")
    };
    let before = resident_pages_of_files();
    trim();
    let after = resident_pages_of_files();
    assert!(after < before, "{before} pages, {after} after");
    assert_eq!(format!("{:?}", [1.5, 2.0]), "[1.5, 2.0]");
}
