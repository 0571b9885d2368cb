use super::*;
use crate::cluster::stat::top::board::tests::{many, shop};

fn state() -> State {
    State::new(Duration::from_secs(2), shop())
}

fn press(state: &mut State, codes: &[KeyCode]) -> Next {
    codes.iter().fold(Next::Stay, |_, &code| state.key(code.into()))
}

fn type_text(state: &mut State, text: &str) {
    for letter in text.chars() {
        press(state, &[KeyCode::Char(letter)]);
    }
}

fn methods(state: &State) -> Vec<String> {
    let last = |row: &&Row| row.key.method.rsplit('/').next().map(str::to_owned);
    state.rows().iter().filter_map(last).collect()
}

#[test]
fn q_escape_and_control_c_end() {
    for code in [KeyCode::Char('q'), KeyCode::Esc] {
        assert_eq!(press(&mut state(), &[code]), Next::End);
    }
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut state = state();
    assert_eq!(press(&mut state, &[KeyCode::Char('/'), KeyCode::Char('q')]), Next::Stay, "q goes into the filter");
    assert_eq!(state.key(control_c), Next::End);
    assert_eq!(press(&mut state, &[KeyCode::Char('c')]), Next::Stay);
}

#[test]
fn the_most_frequent_method_is_first_and_r_reverses() {
    let mut state = state();
    assert_eq!(methods(&state), ["Add", "GET", "Authorize", "Watch"]);
    press(&mut state, &[KeyCode::Char('r')]);
    assert_eq!(methods(&state), ["Watch", "Authorize", "GET", "Add"]);
}

#[test]
fn another_column_sorts_in_its_own_order_with_missing_numbers_last() {
    let mut state = state();
    press(&mut state, &[KeyCode::Right]);
    assert_eq!(
        (state.sorted, methods(&state)),
        (Column::Success, ["Authorize", "Add", "GET", "Watch"].map(Into::into).into())
    );
    press(&mut state, &[KeyCode::Char('r')]);
    assert_eq!(methods(&state), ["GET", "Add", "Authorize", "Watch"]);
    press(&mut state, &[KeyCode::Char('s')]);
    assert_eq!((state.sorted, state.is_reversed), (Column::P50, false));
    press(&mut state, &[KeyCode::Left; 3]);
    assert_eq!(
        (state.sorted, methods(&state)),
        (Column::Method, ["GET", "Authorize", "Add", "Watch"].map(Into::into).into())
    );
    press(&mut state, &[KeyCode::Left; 3]);
    assert_eq!(state.sorted, Column::Burn, "after the first column comes the last");
}

#[test]
fn the_filter_matches_method_workload_and_destination_in_any_case() {
    for (filter, left) in [("authorize", 1), ("CART.shop", 2), ("shop/web", 4), ("nothing", 0)] {
        let mut state = state();
        press(&mut state, &[KeyCode::Char('/')]);
        type_text(&mut state, filter);
        press(&mut state, &[KeyCode::Enter]);
        assert_eq!((state.rows().len(), state.is_typing), (left, false), "{filter}");
    }
}

#[test]
fn escape_clears_the_filter_before_it_ends() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('/')]);
    type_text(&mut state, "adx");
    press(&mut state, &[KeyCode::Backspace]);
    assert_eq!((state.filter.as_str(), methods(&state)), ("ad", ["Add"].map(Into::into).into()));
    assert_eq!(press(&mut state, &[KeyCode::Esc]), Next::Stay);
    assert_eq!((state.filter.as_str(), state.is_typing), ("", false));
    press(&mut state, &[KeyCode::Char('/'), KeyCode::Char('a'), KeyCode::Enter]);
    assert_eq!((press(&mut state, &[KeyCode::Esc]), state.filter.as_str()), (Next::Stay, ""));
    assert_eq!(press(&mut state, &[KeyCode::Esc]), Next::End);
}

#[test]
fn a_pause_keeps_the_figures_and_its_end_shows_the_newest() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('p')]);
    state.update(many(1));
    state.update(many(2));
    assert_eq!(state.rows().len(), 4);
    press(&mut state, &[KeyCode::Char('p')]);
    assert_eq!(state.rows().len(), 2);
    state.update(many(3));
    assert_eq!(state.rows().len(), 3);
}

#[test]
fn keys_scroll_within_the_rows() {
    let mut state = State::new(Duration::from_secs(2), many(100));
    state.set_page(20);
    let mut first = |code: KeyCode| {
        press(&mut state, &[code]);
        state.first()
    };
    let keys = [KeyCode::Up, KeyCode::Down, KeyCode::PageDown, KeyCode::PageUp, KeyCode::End, KeyCode::Down];
    assert_eq!(keys.map(&mut first), [0, 1, 21, 1, 80, 80]);
    assert_eq!([KeyCode::PageUp, KeyCode::Home].map(first), [60, 0]);
    press(&mut state, &[KeyCode::End]);
    state.update(many(50));
    state.set_page(20);
    assert_eq!(state.first(), 30, "rows have gone");
    state.set_page(60);
    assert_eq!(state.first(), 0, "the terminal has grown");
}
