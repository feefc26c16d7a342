//! The known name that is nearest to a misspelled one.

/// What comes before all names.
pub const LISTED: &str = "expected one of ";

/// A question with the known name that needs the fewest changes, if one is near, and all names if
/// they are few.
pub fn nearest(wrong: &str, known: &[&str]) -> String {
    /// More names than these are not listed.
    const MOST: usize = 16;
    let listed: Vec<String> = known.iter().take(MOST).map(|n| format!("`{n}`")).collect();
    let more = if known.len() > MOST { ", …" } else { "" };
    let all = format!("{LISTED}{}{more}", listed.join(", "));
    match question(wrong, known) {
        Some(question) if more.is_empty() => format!("{question} {all}"),
        Some(question) => question,
        None => all,
    }
}

/// A question with the known name that needs the fewest changes, if one is near.
pub fn question(wrong: &str, known: &[&str]) -> Option<String> {
    /// Letters at most of a name that is compared: a longer one is no misspelling and would take long.
    const LONGEST: usize = 200;
    let short = wrong.chars().nth(LONGEST).is_none();
    let best = known.iter().filter(|_| short).map(|name| (changes(wrong, name), *name)).min();
    let near = best.filter(|(changes, _)| *changes <= 1 + wrong.chars().count() / 3);
    near.map(|(_, name)| format!("did you mean `{name}`?"))
}

/// The fewest insertions, deletions and replacements of letters between two words (Levenshtein).
pub fn changes(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, letter) in left.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], above + 1);
        for (place, other) in right.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[place + 1];
            row[place + 1] = replaced.min(corner + 1).min(row[place] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_and_with_all_where_they_are_few() {
        let known = ["cmd1", "cmd2", "qrl"];
        let all = "expected one of `cmd1`, `cmd2`, `qrl`";
        assert_eq!(nearest("cdm1", &known), format!("did you mean `cmd1`? {all}"));
        assert_eq!(nearest("elsewhere", &known), all);
        let many: Vec<String> = (0..17).map(|at| format!("name{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(nearest("nam12", &many), "did you mean `name12`?");
        assert!(nearest("elsewhere", &many).ends_with("`name15`, …"));
        // However alike, a name of a million letters is not compared.
        let long = "a".repeat(1_000_000);
        assert_eq!(nearest(&long, &["cmd1", &long]), format!("expected one of `cmd1`, `{long}`"));
    }
}
