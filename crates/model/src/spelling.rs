//! Suggests the word that a user probably meant.

/// Returns the candidate closest to `word`, ignoring case. `None` if every candidate is more than two edits away, or
/// more than one edit for a word of less than 5 bytes.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_MAX_BYTES: usize = 64;
    if word.len() > WORD_MAX_BYTES {
        return None;
    }
    let near = if word.len() < 5 { 1 } else { 2 };
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the edits that turn `a` into `b`, ignoring case. An edit changes, inserts or deletes a letter, or swaps two
/// neighboring letters.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1];
            let changed = last[j - 1] + usize::from(!same);
            let mut cost = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(before_last[j - 2] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
#[path = "spelling_tests.rs"]
mod tests;
