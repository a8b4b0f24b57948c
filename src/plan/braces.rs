/// Most alternatives that the braces of one pattern may stand for.
pub const MAX_ALTERNATIVES: usize = 10_000;

/// A pattern whose braces cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BracesError {
    /// An opening brace without its closing one.
    #[error("a `{{` is never closed")]
    Unclosed,
    /// A closing brace without its opening one.
    #[error("a `}}` closes nothing")]
    Unopened,
    /// More than [`MAX_ALTERNATIVES`].
    #[error("its braces stand for more than {MAX_ALTERNATIVES} alternatives")]
    TooMany,
}

/// The texts that a pattern's braces stand for, in the order of writing: `ws@node-{24,26}` is `ws@node-24` and
/// `ws@node-26`. Braces may be nested, an alternative may be empty.
pub fn expand_braces(pattern: &str) -> Result<Vec<String>, BracesError> {
    let mut rest = pattern.chars().peekable();
    let alternatives = sequence(&mut rest, 0)?;
    Ok(alternatives)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Deepest nesting; deeper ones are refused, so that no input can exhaust the stack.
const MAX_DEPTH: usize = 16;

/// Reads up to the end, or within braces up to the `,` or `}` that ends the alternative, which is left unread.
fn sequence(chars: &mut Chars<'_>, depth: usize) -> Result<Vec<String>, BracesError> {
    let mut texts = vec![String::new()];
    while let Some(&next) = chars.peek() {
        match next {
            ',' | '}' if depth > 0 => return Ok(texts),
            '}' => return Err(BracesError::Unopened),
            '{' => {
                chars.next();
                texts = product(&texts, &alternatives(chars, depth + 1)?)?;
            }
            other => {
                chars.next();
                texts.iter_mut().for_each(|text| text.push(other));
            }
        }
    }
    if depth > 0 { Err(BracesError::Unclosed) } else { Ok(texts) }
}

fn alternatives(chars: &mut Chars<'_>, depth: usize) -> Result<Vec<String>, BracesError> {
    if depth > MAX_DEPTH {
        return Err(BracesError::TooMany);
    }
    let mut all = Vec::new();
    loop {
        all.extend(sequence(chars, depth)?);
        if all.len() > MAX_ALTERNATIVES {
            return Err(BracesError::TooMany);
        }
        match chars.next() {
            Some('}') => return Ok(all),
            Some(',') => {}
            _ => return Err(BracesError::Unclosed),
        }
    }
}

fn product(heads: &[String], tails: &[String]) -> Result<Vec<String>, BracesError> {
    if heads.len().saturating_mul(tails.len()) > MAX_ALTERNATIVES {
        return Err(BracesError::TooMany);
    }
    Ok(heads.iter().flat_map(|head| tails.iter().map(move |tail| format!("{head}{tail}"))).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn alternatives_come_in_the_order_of_writing() {
        assert_eq!(expand_braces("ws@node-{24,26}").unwrap(), ["ws@node-24", "ws@node-26"]);
        assert_eq!(expand_braces("{a,b}-{1,2}").unwrap(), ["a-1", "a-2", "b-1", "b-2"]);
        assert_eq!(expand_braces("{a,b{1,2}}x").unwrap(), ["ax", "b1x", "b2x"]);
        assert_eq!(expand_braces("a{,b}").unwrap(), ["a", "ab"]);
        assert_eq!(expand_braces("a,b").unwrap(), ["a,b"]);
        assert_eq!(expand_braces("").unwrap(), [""]);
    }

    #[test]
    fn braces_that_do_not_match_are_refused() {
        assert_eq!(expand_braces("{a,b"), Err(BracesError::Unclosed));
        assert_eq!(expand_braces("a}"), Err(BracesError::Unopened));
    }

    #[test]
    fn a_pattern_cannot_exhaust_memory_or_stack() {
        assert_eq!(expand_braces(&"{a,b}".repeat(200)), Err(BracesError::TooMany));
        assert_eq!(expand_braces(&"{".repeat(1_000_000)), Err(BracesError::TooMany));
        assert!(expand_braces(&format!("{{{}}}", "a,".repeat(9_999))).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a{},*-]{0,40}") {
            let _ = expand_braces(&text);
        }
    }
}
