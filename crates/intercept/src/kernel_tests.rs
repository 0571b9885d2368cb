use super::*;

fn answer(code: i32) -> Vec<u8> {
    let mut answer = Vec::new();
    answer.extend(36_u32.to_ne_bytes());
    answer.extend(ERROR.to_ne_bytes());
    answer.resize(HEADER_BYTES, 0);
    answer.extend(code.to_ne_bytes());
    answer.resize(36, 0);
    answer
}

#[test]
fn the_first_refusal_is_told() {
    assert_eq!(read_answers(&[answer(0), answer(0)].concat()), Ok(()));
    assert_eq!(read_answers(&[answer(0), answer(-1), answer(-2)].concat()), Err(LoadError::NotPermitted));
    assert_eq!(read_answers(&answer(-2)), Err(LoadError::NotSupported(Errno::NOENT)));
    assert_eq!(read_answers(&answer(-17)), Err(LoadError::Failed(Errno::EXIST)));
    for nonsense in [1, i32::MAX, i32::MIN, LAST_ERROR - 1] {
        assert_eq!(read_answers(&answer(nonsense)), Err(LoadError::BadAnswer), "{nonsense}");
    }
}

#[test]
fn an_answer_that_is_cut_off_is_no_answer() {
    let whole = answer(0);
    for length in 1..HEADER_BYTES + 4 {
        assert_eq!(read_answers(&whole[..length]), Err(LoadError::BadAnswer), "{length}");
    }
    assert_eq!(read_answers(&[0; 20]), Err(LoadError::BadAnswer));
    assert_eq!(read_answers(&[]), Err(LoadError::BadAnswer));
}
