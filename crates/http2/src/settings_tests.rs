use super::*;

fn payload(values: &[(u16, u32)]) -> Vec<u8> {
    values.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect()
}

#[test]
fn the_last_value_of_a_setting_counts() {
    let mut peer = PeerSettings::default();
    peer.apply(&payload(&[(4, 1), (0xffff, 7), (4, 2), (4, 3)]), false).expect("valid settings");
    assert_eq!(peer, PeerSettings { initial_window_bytes: 3, ..PeerSettings::default() });
}

#[test]
fn the_extreme_values_that_are_allowed_are_taken() {
    let mut peer = PeerSettings::default();
    for (id, value) in [(1, 0), (1, u32::MAX), (3, 0), (4, 0), (4, MAX_31_BITS), (5, 16_384), (5, 16_777_215), (6, 0)] {
        peer.apply(&payload(&[(id, value)]), true).expect("a valid setting");
    }
}

#[test]
fn only_what_differs_from_the_initial_values_is_announced() {
    let mut out = Vec::new();
    let limits =
        Limits { max_concurrent_streams: 9, max_header_list_bytes: 8, max_frame_bytes: 20_000, ..Limits::server() };
    write_initial(&mut out, &limits, true);
    assert_eq!(out.get(9..), Some(&payload(&[(3, 9), (6, 8), (5, 20_000)])[..]));
    out.clear();
    write_initial(&mut out, &limits, false);
    assert_eq!(out.get(9..), Some(&payload(&[(2, 0), (6, 8), (5, 20_000)])[..]));
}
