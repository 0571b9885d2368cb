use super::*;

#[test]
fn a_port_is_named_from_the_first_connection_that_the_application_takes() {
    let mut ports = Ports::default();
    ports.name(8080);
    assert!(ports.is_named(8080), "it is one of the first that are asked for");
    ports.serve(8080);
    assert!(ports.is_named(8080));
}

#[test]
fn ports_that_nobody_serves_count_together_once_there_are_many() {
    let mut ports = Ports::default();
    (20_000..60_000).for_each(|port| ports.name(port));
    let named = (20_000..60_000).filter(|port| ports.is_named(*port)).count();
    assert_eq!(named, UNPROVEN_MAX);
    ports.name(8080);
    assert!(!ports.is_named(8080), "there is no room before it is served");
    ports.serve(8080);
    assert!(ports.is_named(8080), "from now on its series have its number");
}

#[test]
fn an_application_that_serves_every_port_has_a_bounded_number_of_names() {
    let mut ports = Ports::default();
    for port in 1..10_000 {
        ports.name(port);
        ports.serve(port);
    }
    let named = (1..10_000).filter(|port| ports.is_named(*port)).count();
    assert!(named <= SERVED_MAX + UNPROVEN_MAX, "{named}");
}
