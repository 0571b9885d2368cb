use super::*;

#[test]
fn a_field_is_found_among_lines_with_tabs() {
    let text = "processor\t: 0\nmodel name\t: A CPU: fast\nmodel name\t: another\n";
    assert_eq!(field(text, "model name").as_deref(), Some("A CPU: fast"));
    assert_eq!(field(text, "model"), None);
}

#[test]
fn memory_is_read_in_bytes() {
    assert_eq!(kib("2048 kB"), Some(2 << 20));
    assert_eq!(kib("2048"), None);
}

#[test]
fn this_machine_has_a_cpu_memory_and_a_kernel() {
    let machine = Machine::here();
    assert!(machine.cpus > 0 && machine.memory_bytes > 1 << 20 && !machine.kernel.is_empty(), "{machine:?}");
}
