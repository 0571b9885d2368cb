use super::*;

#[test]
fn every_page_has_the_same_sections_and_fits_a_terminal() {
    for kind in TargetKind::ALL {
        let page = kind.page();
        let mut rest = page;
        for heading in ["Data plane\n", "\nSettings\n", "\nNot shown\n"] {
            let (_, after) = rest.split_once(heading).unwrap_or_else(|| panic!("{kind} has no {heading:?} in order"));
            rest = after;
        }
        assert!(page.lines().all(|line| line.chars().count() <= 110), "{kind} has a line of over 110 characters");
        assert!(page.ends_with('\n'), "{kind}");
    }
}

#[test]
fn a_published_condition_names_the_source_of_its_settings() {
    for kind in TargetKind::ALL.into_iter().filter(|kind| kind.is_published_condition()) {
        let page = kind.page();
        assert!(page.contains("github.com/") || page.contains("https://"), "{kind} names no public document");
    }
}
