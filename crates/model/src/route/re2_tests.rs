use super::difference;

#[test]
fn what_all_engines_read_alike_is_accepted() {
    for text in [
        "",
        "v2|canary",
        "/api/v[0-9]+/.*",
        r"[A-Za-z0-9_\-]{1,64}",
        r"\d{4}-\d{2}-\d{2}",
        "(?i)mozilla.*",
        "(?i:a)b",
        "(?im-sU)a",
        "(?:a*)*",
        "(a|b+)?",
        "a*?b+?c??d{2}?",
        "a{2}b{2,}c{0,5}d{0}",
        "(?P<name_1>a)",
        r"\*\+\?\{\}\.\_",
        r"[\]\[^-]",
        "[]a]",
        "[^]a]",
        "[-a]",
        "[a-]",
        "[^-a]",
        "[-]*",
        "[[:alpha:]_-]+",
        "[^[:^digit:]]*",
        r"\x41\x{1F600}*",
        r"[\x{41}-\x5A]",
        r"^\Aa\bb\Bc\z$",
        "(a{10}){100}",
        "(?:a{100}|b{10}){10}",
        "}]",
        "ä+[ö-ü]",
    ] {
        assert!(regex_lite::Regex::new(text).is_ok(), "{text}");
        assert_eq!(difference(text), None, "{text}");
    }
}

#[test]
fn what_re2_refuses_or_reads_differently_is_found() {
    for (text, word) in [
        ("a**", "repetition of a repetition"),
        ("a+*", "repetition of a repetition"),
        ("a*{2}", "repetition of a repetition"),
        ("a{2}{3}", "repetition of a repetition"),
        ("a*?+", "repetition of a repetition"),
        ("(?:a**)", "repetition of a repetition"),
        ("[a]**", "repetition of a repetition"),
        (r"[\]]**", "repetition of a repetition"),
        ("[[:alpha:]]**", "repetition of a repetition"),
        ("[]]**", "repetition of a repetition"),
        (r"\x{41}**", "repetition of a repetition"),
        ("(?:){1001}", "1000 repetitions"),
        ("(?:(?:){40}a?){26}", "1000 repetitions"),
        ("(?:(?:){1,}){1001,}", "1000 repetitions"),
        ("a{ 2 }", "leading zero"),
        ("a{2, 3}", "leading zero"),
        ("a{02}", "leading zero"),
        ("a(?i)*", "repetition of flags"),
        ("a*(?i){2}", "repetition of flags"),
        ("(?x)a b", "flags other than"),
        ("(?R)a$", "flags other than"),
        ("(?u:a)", "flags other than"),
        ("(?i-x)a", "flags other than"),
        ("(?<name>a)", "(?<name>"),
        ("(?P<a.b>a)", "name"),
        ("(?P<ä>a)", "name"),
        (r"\u0041", r"\x{"),
        (r"\U00000041", r"\x{"),
        (r"\u{41}", r"\x{"),
        (r"[\u0041]", r"\x{"),
        (r"\<a\>", r"write \b"),
        (r"a\>", r"write \b"),
        (r"\b{start}a", r"write \b"),
        ("[--a]", r"write \-"),
        ("[^--a]", r"write \-"),
        ("[+-[:]**", "-["),
    ] {
        assert!(regex_lite::Regex::new(text).is_ok(), "{text}");
        assert!(difference(text).is_some_and(|why| why.contains(word)), "{text}: {:?}", difference(text));
    }
}
