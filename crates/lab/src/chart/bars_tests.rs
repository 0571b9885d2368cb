use super::*;

fn bar(name: &str, value: Option<f64>, range: Option<(f64, f64)>) -> Bar {
    Bar { name: name.to_owned(), value, range, note: String::new(), style: Style::nth(0) }
}

fn bars(bars: Vec<Bar>) -> Bars {
    Bars { title: "memory".to_owned(), unit: "MB".to_owned(), bars, guide: None }
}

/// The widths of all bars.
fn lengths(svg: &str) -> Vec<f64> {
    let rects = svg.lines().filter(|line| line.starts_with("<rect"));
    let widths = rects.filter_map(|line| line.split_once("width=\"")?.1.split_once('"')?.0.parse().ok());
    widths.collect()
}

#[test]
fn bars_are_as_long_as_their_values_say_and_have_them_written_behind() {
    let svg = bars(vec![bar("leno", Some(5.0), None), bar("envoy", Some(50.0), None)]).to_svg(Mode::Inline);
    let lengths = lengths(&svg);
    assert!((lengths[1] / lengths[0] - 10.0).abs() < 0.1, "{lengths:?}");
    assert!(svg.contains(">5.00 MB<") && svg.contains(">50.0 MB<"));
}

#[test]
fn a_bar_without_a_value_is_its_note() {
    let without = Bar { note: "no proxy".to_owned(), ..bar("<direct>", None, None) };
    let svg = bars(vec![without]).to_svg(Mode::Inline);
    assert!(svg.contains("&lt;direct&gt;") && svg.contains(">no proxy<") && !svg.contains("<rect"));
}

#[test]
fn zeros_and_what_is_not_a_number_leave_a_drawing_without_nan() {
    let values = vec![bar("a", Some(0.0), Some((0.0, 0.0))), bar("b", Some(f64::INFINITY), Some((0.0, f64::NAN)))];
    let svg = bars(values).to_svg(Mode::Standalone);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}
