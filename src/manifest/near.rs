/// The name that was probably meant: the one with the fewest typing errors (Damerau-Levenshtein), if they are few
/// for its length.
pub fn nearest<'a, S: AsRef<str>>(word: &str, names: &'a [S]) -> Option<&'a str> {
    // Longer words are no typing errors; the distance would only cost time.
    const LONGEST: usize = 100;
    if word.len() > LONGEST {
        return None;
    }
    let allowed = (word.chars().count() / 3).max(1);
    names
        .iter()
        .map(|name| {
            (strsim::damerau_levenshtein(&word.to_lowercase(), &name.as_ref().to_lowercase()), name.as_ref())
        })
        .filter(|(distance, name)| *distance <= allowed && *name != word)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name() {
        let names = ["ws@node-24", "ws@node-26", "relay", "relay-spin"];
        assert_eq!(nearest("ws@node24", &names), Some("ws@node-24"));
        assert_eq!(nearest("realy", &names), Some("relay"));
        assert_eq!(nearest("Relay", &names), Some("relay"));
        assert_eq!(nearest("gorilla@go", &names), None);
        assert_eq!(nearest("", &names), None);
        assert_eq!(nearest(&"x".repeat(1_000_000), &names), None);
    }
}
