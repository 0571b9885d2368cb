use super::*;

#[test]
fn loads_are_read_as_they_are_written() {
    for text in ["closed:200", "open:60%", "open:2000/s", "open:0.5/s"] {
        let spec: LoadSpec = text.parse().expect(text);
        assert_eq!(spec.to_string(), text);
    }
}

#[test]
fn impossible_loads_are_refused() {
    for text in ["", "200", "closed:0", "closed:-1", "open:0%", "open:100%", "open:60", "open:nan/s", "open:inf/s"] {
        assert!(text.parse::<LoadSpec>().is_err(), "{text:?}");
    }
}

#[test]
fn callers_of_a_closed_loop_find_room_on_the_healthy_servers() {
    let spec = LoadSpec::Closed { callers: 200 };
    for healthy in [4, 49] {
        assert!(spec.workers(healthy) * healthy >= 250);
    }
}
