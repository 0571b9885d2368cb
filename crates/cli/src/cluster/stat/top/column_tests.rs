use super::*;
use crate::cluster::stat::top::board::tests::shop;

#[test]
fn cells_are_those_of_leno_stat_methods() {
    let rows = shop().rows;
    let add = rows.iter().find(|row| row.key.method.ends_with("Add")).expect("a row");
    let cells = Column::ALL.map(|column| column.cell(add));
    assert_eq!(
        cells,
        [
            "shop/web",
            "out",
            "cart.shop:80",
            "shop.v1.Cart/Add",
            "200.0",
            "98.00 %",
            "5.0",
            "9.9",
            "400.0",
            "0.50 %",
            "-"
        ]
    );
}

#[test]
fn text_of_a_peer_cannot_control_the_terminal() {
    let mut row = shop().rows.remove(0);
    row.key.method = "a\x1b[2J\nb".to_owned();
    row.key.name = "w\x07".to_owned();
    assert_eq!((Column::Method.cell(&row), Column::Workload.cell(&row)), ("a?[2J b".to_owned(), "shop/w?".to_owned()));
}
