use super::*;
use crate::chart::{Axis, Guide, Scale, Style};

fn chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Tail & <skew>".to_owned(),
        x: Axis::new("skew", "ms", Scale::Steps),
        y: Axis::new("p99", "ms", Scale::Log),
        series,
        guides: Vec::new(),
    }
}

/// Returns every number of the drawing's attributes.
fn coordinates(svg: &str) -> Vec<f64> {
    let attributes = svg.split('"').skip(1).step_by(2);
    attributes.flat_map(|value| value.split([' ', ','])).filter_map(|part| part.parse().ok()).collect()
}

#[test]
fn a_hostile_name_cannot_become_markup() {
    let hostile = "<script>\"'&";
    let mut drawing = chart(vec![Series::new(hostile, vec![(0.0, 1.0), (50.0, 2.0)], Style::nth(0))]);
    drawing.x.label = hostile.to_owned();
    drawing.guides = vec![Guide { value: 1.5, label: hostile.to_owned() }];
    for mode in [Mode::Inline, Mode::Standalone] {
        let svg = drawing.to_svg(mode);
        assert!(!svg.contains("<script"), "{svg}");
        assert_eq!(svg.matches("&lt;script").count(), 3);
        assert!(svg.contains("aria-label=\"Tail &amp; &lt;skew&gt;\""));
    }
}

#[test]
fn values_that_cannot_be_shown_are_left_out_of_the_line() {
    let points = vec![(0.0, f64::NAN), (10.0, 0.0), (50.0, 3.0), (100.0, f64::INFINITY), (200.0, 4.0)];
    let mut line = Series::new("leno", points, Style::nth(0).strong());
    line.band = vec![(0.0, f64::NAN, f64::INFINITY), (50.0, 2.0, 4.0)];
    let svg = chart(vec![line]).to_svg(Mode::Standalone);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 2);
}

#[test]
fn everything_is_drawn_within_the_view() {
    let line =
        |number: usize, y: f64| Series::new("a long name", vec![(0.0, y), (500.0, y * 1.01)], Style::nth(number));
    let svg = chart((0..7).map(|number| line(number, 10.0 + number as f64 / 10.0)).collect()).to_svg(Mode::Inline);
    let outside: Vec<f64> = coordinates(&svg).into_iter().filter(|&at| !(0.0..=WIDTH).contains(&at)).collect();
    assert!(outside.is_empty(), "{outside:?} in {svg}");
}

#[test]
fn a_chart_without_points_says_so() {
    for series in [Vec::new(), vec![Series::new("leno", Vec::new(), Style::nth(0))]] {
        assert!(chart(series).to_svg(Mode::Inline).contains("nothing was measured"));
    }
}

#[test]
fn only_a_standalone_drawing_has_a_title_a_background_and_fixed_colours() {
    let drawing = chart(vec![Series::new("leno", vec![(0.0, 1.0), (50.0, 2.0)], Style::nth(0))]);
    let (inline, alone) = (drawing.to_svg(Mode::Inline), drawing.to_svg(Mode::Standalone));
    assert!(inline.contains("var(--chart-blue)") && !inline.contains("xmlns") && !inline.contains(">Tail"));
    assert!(alone.contains("#0072b2") && alone.contains("xmlns") && alone.contains(">Tail") && !alone.contains("var("));
}
