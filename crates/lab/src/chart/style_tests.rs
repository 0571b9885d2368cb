use super::*;

/// Relative luminance as WCAG defines it.
fn luminance(hex: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("two hexadecimal digits")) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn every_line_has_a_contrast_of_three_to_one_and_all_text_of_four_and_a_half() {
    for (theme, background) in [(LIGHT, "#ffffff"), (DARK, "#1b1f25")] {
        for name in ["blue", "vermilion", "green", "purple", "orange", "sky", "grey", "ink", "soft"] {
            let least = if matches!(name, "ink" | "soft") { 4.5 } else { 3.0 };
            let found = contrast(declared(theme, name), background);
            assert!(found >= least, "{name} on {background}: {found:.2}");
        }
    }
}

#[test]
fn neighbouring_styles_differ_in_colour_and_dash() {
    for number in 0..20 {
        let (one, next) = (Style::nth(number), Style::nth(number + 1));
        assert_ne!(one.color, next.color);
        assert_ne!(one.dash, next.dash);
    }
}

#[test]
fn a_standalone_drawing_has_fixed_colours_and_an_inline_one_the_pages() {
    assert_eq!(Paint::Series(Color::Blue).of(Mode::Standalone).to_string(), "#0072b2");
    assert_eq!(Paint::Series(Color::Blue).of(Mode::Inline).to_string(), "var(--chart-blue)");
}
