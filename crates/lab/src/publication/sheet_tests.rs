use super::*;
use crate::experiment::record::Run;
use crate::experiment::record::TargetKind::{CiliumL7, Istio, LenoMesh, Linkerd, Vanilla};
use crate::publication::example::{LINKERD_WHY, slow_pod};

fn row(sheet: &Sheet, target: TargetKind) -> &Row {
    sheet.rows.iter().find(|row| row.target == target).expect("a row for each condition")
}

#[test]
fn every_condition_has_a_row_in_every_table_and_a_reason_if_it_was_not_measured() {
    for sheet in sheets(&slow_pod()) {
        assert_eq!(sheet.rows.len(), 7, "{}", sheet.title);
        assert!(row(&sheet, LenoMesh).is_leno && row(&sheet, LenoMesh).why_not.is_none(), "{}", sheet.title);
        assert_eq!(row(&sheet, Linkerd).why_not.as_deref(), Some(LINKERD_WHY), "{}", sheet.title);
        assert_eq!(row(&sheet, CiliumL7).why_not.as_deref(), Some("none of its runs ended"), "{}", sheet.title);
        assert!(sheet.rows.iter().all(|row| row.cells.len() == sheet.columns.len()), "{}", sheet.title);
    }
}

#[test]
fn a_cell_has_here_theirs_and_their_ratio() {
    let sheets = sheets(&slow_pod());
    let cell = |target| &row(&sheets[0], target).cells[1];
    // The measured figure is 70.2 and the published figure is 87.9.
    let istio = cell(Istio);
    assert_eq!(
        (istio.here.figure.as_str(), istio.theirs.figure.as_str(), istio.ratio.as_str()),
        ("70.2", "87.9", "0.799")
    );
    let linkerd = cell(Linkerd);
    assert_eq!(
        (linkerd.here.whole().as_str(), linkerd.theirs.whole().as_str(), linkerd.ratio.as_str()),
        (NONE, "66.6 (0.758×)", NONE)
    );
    let leno = cell(LenoMesh);
    assert_eq!((leno.here.relative.as_str(), leno.theirs.figure.as_str(), leno.ratio.as_str()), ("0.145×", NONE, NONE));
    assert_eq!(cell(Vanilla).here.whole(), "worst 55.2");
}

#[test]
fn a_scorecard_has_marks_and_says_whether_all_are_green() {
    let sheets = sheets(&slow_pod());
    let scorecard = sheets.iter().find(|sheet| sheet.title.starts_with("Scorecard")).expect("a scorecard");
    assert_eq!(scorecard.columns.last().map(|head| head.name.as_str()), Some("all green"));
    let figures = |target| row(scorecard, target).cells.iter().map(|cell| cell.here.figure.clone()).collect::<Vec<_>>();
    assert_eq!(figures(LenoMesh), ["1.00 ✓", "1.00 ✓", "1.00 ✓", "yes ✓"]);
    assert_eq!(figures(Istio).last().map(String::as_str), Some("no ✕"));
    assert_eq!(figures(Linkerd), [NONE; 4]);
    assert_eq!(row(scorecard, Linkerd).cells[0].theirs.figure, "2.21 ✕");
    assert_eq!(scorecard.base, None);
}

/// [`slow_pod`], with 20 % failed calls in the runs that `is_failing` selects.
fn failing(is_failing: impl Fn(&Run) -> bool) -> Measured {
    let mut measured = slow_pod();
    let runs = &mut measured.steps[0].1.runs;
    runs.iter_mut().filter(|run| is_failing(run)).for_each(|run| run.errors = run.calls / 4);
    measured
}

#[test]
fn a_condition_with_many_failed_calls_has_no_marks_in_a_scorecard() {
    let figures = |measured: &Measured, target| {
        let sheets = sheets(measured);
        let scorecard = sheets.iter().find(|sheet| sheet.title.starts_with("Scorecard")).expect("a scorecard");
        row(scorecard, target).cells.iter().map(|cell| cell.here.figure.clone()).collect::<Vec<_>>()
    };
    // Failed calls do not count in the rate, so the rate keeps its mark.
    let unmarked = ["failing 1.00", "failing 1.00", "1.00 ✓", NONE];
    assert_eq!(figures(&failing(|run| run.target == LenoMesh), LenoMesh), unmarked);
    let base = failing(|run| run.target == LenoMesh && run.skew_ms == 0);
    assert_eq!(figures(&base, LenoMesh), unmarked);
    assert_eq!(figures(&base, Istio), figures(&slow_pod(), Istio));
    let istio = failing(|run| run.target == Istio);
    assert!(figures(&istio, Istio).iter().all(|figure| !figure.contains('✕')), "{:?}", figures(&istio, Istio));
    assert_eq!(figures(&istio, LenoMesh), ["1.00 ✓", "1.00 ✓", "1.00 ✓", "yes ✓"]);
}

#[test]
fn many_failed_calls_of_a_condition_or_of_its_base_leave_no_ratio_in_brackets() {
    let leno = |measured: &Measured| {
        let sheets = sheets(measured);
        let here = &row(&sheets[0], LenoMesh).cells[1].here;
        (here.figure.clone(), here.relative.clone())
    };
    assert_eq!(leno(&slow_pod()), ("10.2".to_owned(), "0.145×".to_owned()));
    for (failing_target, figure) in [(LenoMesh, "failing 10.2"), (Istio, "10.2")] {
        let measured = failing(|run| run.target == failing_target);
        assert_eq!(leno(&measured), (figure.to_owned(), String::new()), "{failing_target:?}");
    }
}

#[test]
fn a_figure_with_many_failed_calls_says_so_and_has_no_ratio_to_the_published_figure() {
    let istio = |measured: &Measured| {
        let sheets = sheets(measured);
        let cell = &row(&sheets[0], Istio).cells[1];
        (cell.here.figure.clone(), cell.ratio.clone())
    };
    assert_eq!(istio(&slow_pod()), ("70.2".to_owned(), "0.799".to_owned()));
    let failing = failing(|run| run.target == Istio);
    assert_eq!(istio(&failing), ("failing 70.2".to_owned(), NONE.to_owned()));
}

#[test]
fn a_published_lower_bound_makes_an_upper_bound_of_the_ratio() {
    use crate::publication::example::{measured, with_p99};
    use crate::publication::name::Name;
    let run = Run { rate_per_s: Some(500), p999_ms: 20.0, ..with_p99(Istio, 0, 1, 10.0) };
    let sheets = sheets(&measured(Name::Kinvolk2019, vec![run]));
    let cell = &row(&sheets[0], Istio).cells[2];
    assert_eq!((cell.theirs.whole().as_str(), cell.ratio.as_str()), ("> 1,000", "< 0.020"));
}

#[test]
fn orders_stand_below_the_columns_that_were_published() {
    let sheets = sheets(&slow_pod());
    let order = &sheets[0].orders[1];
    assert!(
        order.starts_with("p99 with one pod 50 ms slower, best first. Here: Leno, Istio sidecar. Published: Linkerd, "),
        "{order}"
    );
}
