use super::*;

#[test]
fn figures_have_three_significant_digits_and_keep_their_zeros() {
    let cases = [
        (0.0, "0"),
        (1.1, "1.10"),
        (9.999, "10.0"),
        (12.345, "12.3"),
        (226.4, "226"),
        (999.6, "1,000"),
        (81_512.0, "81,500"),
        (135_908.0, "136,000"),
        (1_234_567.0, "1,230,000"),
        (0.0512, "0.051"),
        (0.0001, "< 0.001"),
        (-1.5, "-1.50"),
        (-123_456.0, "-123,000"),
    ];
    for (value, text) in cases {
        assert_eq!(significant(value), text, "{value}");
    }
}

#[test]
fn what_is_not_a_number_is_a_dash() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(significant(value), NONE);
        assert_eq!(short(value), NONE);
    }
}

#[test]
fn short_numbers_have_no_zeros_to_spare() {
    let cases = [(0.0, "0"), (1.10, "1.1"), (20.0, "20"), (10_000.0, "10,000"), (0.05, "0.05"), (0.00002, "0.00002")];
    for (value, text) in cases {
        assert_eq!(short(value), text, "{value}");
    }
}
