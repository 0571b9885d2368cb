use super::*;

#[test]
fn a_place_names_the_namespace_of_its_object() {
    let of = |object: &str| {
        let object = object.to_owned();
        let place = Place { file: "".into(), mark: Mark::default(), field: String::new(), object };
        place.namespace().map(str::to_owned)
    };
    assert_eq!(of("Service default/echo").as_deref(), Some("default"));
    for without in ["", "Service"] {
        assert_eq!(of(without), None);
    }
}
