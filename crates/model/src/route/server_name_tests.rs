use super::ServerName;

fn is_match(wanted: &str, name: &str) -> bool {
    ServerName::parse(wanted).expect("a name").is_match(name)
}

#[test]
fn a_name_is_the_whole_of_it_in_any_case() {
    assert!(is_match("cart.example.org", "cart.example.org"));
    assert!(is_match("cart.example.org", "Cart.EXAMPLE.org"));
    for other in ["cart.example.or", "cart.example.orgs", "a.cart.example.org", "example.org", ""] {
        assert!(!is_match("cart.example.org", other), "{other}");
    }
}

#[test]
fn a_wildcard_is_for_all_that_is_below() {
    for below in ["a.example.org", "a.b.example.org", "A.Example.ORG"] {
        assert!(is_match("*.example.org", below), "{below}");
    }
    for other in ["example.org", ".example.org", "aexample.org", "a.example.com", "", "\u{e9}xample.org"] {
        assert!(!is_match("*.example.org", other), "{other}");
    }
}

#[test]
fn what_is_no_name_is_not_read() {
    let long = format!("{}.org", "a.".repeat(125));
    for odd in [
        "", "*", "*.", "a.*.org", "*a.org", "a..org", ".org", "org.", "A.org", "a_b.org", "-a.org", "a-.org",
        "10.0.0.1", &long,
    ] {
        assert_eq!(ServerName::parse(odd), None, "{odd}");
    }
    for name in ["org", "*.org", "a-b.example.org", "1.example.org", "10.0.0.1.example.org"] {
        assert_eq!(ServerName::parse(name).expect("a name").to_string(), name);
    }
}
