use crate::plan::CellId;
use crate::stats::Spread;

/// Three significant digits, as a table shows them: `9.87`, `34.5`, `113`.
pub(super) fn figure(value: f64) -> String {
    // Decided on the rounded value, so that 99.96 is not 100.0.
    if !value.is_finite() {
        "-".to_owned()
    } else if value.abs() < 9.995 {
        format!("{value:.2}")
    } else if value.abs() < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// `34.5 (31.0–36.2)`; the range is left out when there is one value only.
pub(super) fn spread(spread: &Spread) -> String {
    if spread.n < 2 {
        return figure(spread.median);
    }
    format!("{} ({})", figure(spread.median), range(spread))
}

/// `31.0–36.2`.
pub(super) fn range(spread: &Spread) -> String {
    format!("{}–{}", figure(spread.min), figure(spread.max))
}

/// `82 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `1 pass`, `3 passes`.
pub(super) fn count(n: impl Into<u64>, one: &str, many: &str) -> String {
    let n = n.into();
    format!("{n} {}", if n == 1 { one } else { many })
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list<S: AsRef<str>>(names: &[S], last: &str) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., end] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} {last} {}", first.join(", "), end.as_ref())
        }
    }
}

/// The first few cells of a list, and how many more there are.
pub(super) fn some_cells(cells: &[CellId], most: usize) -> String {
    let names: Vec<String> = cells.iter().take(most).map(CellId::to_string).collect();
    match cells.len().saturating_sub(most) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Text broken at spaces to lines of at most `width` columns where words allow it; lines
/// after the first begin as the first does, and then with `indent`.
pub(super) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let lead: String = text.chars().take_while(|letter| *letter == ' ').collect();
    let indent = format!("{lead}{indent}");
    let mut used = lead.len();
    let mut bare = true;
    let mut lines = vec![lead];
    for word in text.split_whitespace() {
        let columns = word.chars().count();
        let line = lines.last_mut().expect("there is always a line");
        if !bare && used + 1 + columns > width {
            used = indent.len() + columns;
            lines.push(format!("{indent}{word}"));
        } else {
            if !bare {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += columns;
        }
        bare = false;
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits_across_each_border() {
        let shown: Vec<String> =
            [0.0, 0.874, 9.994, 9.996, 99.94, 99.96, 113.4, f64::NAN].into_iter().map(figure).collect();
        assert_eq!(shown, ["0.00", "0.87", "9.99", "10.0", "99.9", "100", "113", "-"]);
    }

    #[test]
    fn lists_and_counts_read_as_english() {
        assert_eq!(list(&["a", "b", "c"], "and"), "a, b and c");
        assert_eq!(list(&["a", "b"], "or"), "a or b");
        assert_eq!(count(1u32, "pass", "passes"), "1 pass");
        assert_eq!(count(0u32, "pass", "passes"), "0 passes");
    }

    #[test]
    fn wrapping_breaks_at_spaces_and_never_loses_a_word() {
        assert_eq!(wrap("aaa bbb ccc", 7, "  "), "aaa bbb\n  ccc");
        assert_eq!(wrap("averylongword b", 3, "  "), "averylongword\n  b");
        assert_eq!(wrap("a b c", 1, ""), "a\nb\nc");
        assert_eq!(wrap("", 10, ""), "");
        assert_eq!(wrap("  aa bb", 5, "  "), "  aa\n    bb");
    }
}
