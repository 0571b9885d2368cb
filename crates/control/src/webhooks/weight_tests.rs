use super::*;

#[test]
fn many_small_maps_and_arrays_weigh_many_times_their_text() {
    for text in [r#"{"":0},"#, "{},", "[0],"] {
        let json = text.repeat(1_000);
        assert!(weight(json.as_bytes()) > 50 * json.len(), "{text}: {}", weight(json.as_bytes()));
    }
}

#[test]
fn what_stands_in_a_text_weighs_its_bytes() {
    let text = r#"{\"a\":[{},{},\\"#.repeat(1_000);
    let json = format!(r#"{{"notes":"{text}"}}"#);
    assert!(weight(json.as_bytes()) < json.len() + 1_000, "{}", weight(json.as_bytes()));
}
