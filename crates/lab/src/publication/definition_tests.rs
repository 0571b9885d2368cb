use super::*;
use crate::publication::Name;

#[test]
fn every_figure_belongs_to_an_experiment_and_every_published_figure_to_a_condition() {
    for name in Name::ALL {
        let publication = name.publication();
        let has = |target| publication.conditions.iter().any(|it| it.target == target);
        for table in publication.tables {
            assert!(has(table.base), "{name}: {}", table.title);
            for column in table.columns.iter().chain([&publication.headline.column]) {
                for at in column.value.parts() {
                    assert!(publication.steps.iter().any(|step| step.name == at.step), "{name}: {}", at.step);
                }
                assert!(column.theirs.iter().all(|(target, _)| has(*target)), "{name}: {}", column.what);
            }
        }
        assert_eq!(publication.conditions.last().map(|it| it.target), Some(TargetKind::LenoMesh), "{name}");
    }
}

#[test]
fn the_headline_is_a_column_of_a_table() {
    for name in Name::ALL {
        let publication = name.publication();
        let mut columns = publication.tables.iter().flat_map(|table| table.columns);
        assert!(columns.any(|column| column.what == publication.headline.column.what), "{name}");
    }
}

#[test]
fn a_published_figure_keeps_its_digits() {
    let text = |value: f64| Published::Exactly(value).text();
    assert_eq!([9588.0, 142_000.0, 66.6, 0.9, 4.0].map(text), ["9,588", "142,000", "66.6", "0.9", "4"]);
    assert_eq!(text(66.6 / 30.1), "2.21");
    assert_eq!(Published::Over(1000.0).text(), "> 1,000");
}
