use super::*;
use crate::publication::Name;

/// Maximum of the expected duration of a publication at the scale `quick`: 13 of the promised 15 minutes. The other two
/// minutes are a reserve, because a search for a capacity may need more than the one confirmation that the expected
/// duration includes.
const QUICK_MAX: Duration = Duration::from_secs(13 * 60);

fn all(name: Name) -> Vec<TargetKind> {
    name.publication().conditions.iter().map(|it| it.target).collect()
}

fn plans(options: &Options) -> Vec<Planned> {
    plan(options, &all(options.name)).unwrap_or_else(|error| panic!("{}: {error}", options.name))
}

#[test]
fn every_publication_can_run_at_both_scales_and_quick_ends_within_a_quarter_of_an_hour() {
    for name in Name::ALL {
        let duration = |scale| plans(&Options::plain(name, scale)).iter().map(|it| it.duration).sum::<Duration>();
        let (quick, full) = (duration(Scale::Quick), duration(Scale::Full));
        assert!(quick <= QUICK_MAX, "{name}: {quick:?}");
        assert!(full > quick, "{name}: {full:?}");
    }
}

#[test]
fn the_words_alone_run_the_same_experiment() {
    let options = Options { seed: Some(7), out: Some("out".into()), ..Options::plain(Name::Ladder2026, Scale::Quick) };
    let plans = plans(&options);
    let line = "ladder --rate 100,500,1000,5000 --duration-s 5 --warm-up-s 2 --repeat 3 --targets direct,linkerd,istio,leno-mesh \
                --out out/ladder --seed 7";
    assert_eq!(plans[0].words.join(" "), line);
    assert_eq!((plans[0].options.repeat, plans[0].options.seed), (Some(3), Some(7)));
    assert_eq!(plans[0].options.out, Some("out/ladder".into()));
}

#[test]
fn options_replace_durations_and_repeats_where_an_experiment_has_them() {
    let options = Options {
        duration_s: Some(11),
        warm_up_s: Some(0),
        repeat: Some(1),
        ..Options::plain(Name::Ladder2026, Scale::Full)
    };
    for planned in plans(&options) {
        let options = &planned.options;
        assert_eq!((options.duration_s, options.repeat), (Some(11), Some(1)), "{}", planned.name);
        // The scenario `steady` determines the end of its warm-up itself, so it has no `--warm-up-s`.
        assert_eq!(options.warm_up_s, (planned.name != "steady").then_some(0), "{}", planned.name);
    }
}

#[test]
fn an_option_that_an_experiment_cannot_have_is_an_error_of_one_line() {
    let options = Options { duration_s: Some(1), ..Options::plain(Name::Ladder2026, Scale::Quick) };
    let error = plan(&options, &all(Name::Ladder2026)).expect_err("steady needs 10 s").to_string();
    assert!(error.contains("--duration-s 1 is too short for steady") && !error.contains('\n'), "{error}");
}

#[test]
fn a_named_binary_is_in_the_command_line() {
    let mut options = Options::plain(Name::FiveMeshes2026, Scale::Quick);
    options.programs.traefik = Some("/opt/traefik".into());
    for planned in plans(&options) {
        assert!(planned.words.join(" ").contains("--traefik /opt/traefik"), "{:?}", planned.words);
        assert_eq!(planned.options.programs.traefik, options.programs.traefik);
    }
}
