/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not begin with a number.
    #[error("it does not begin with a number")]
    NoNumber,
    /// The number has no unit.
    #[error("it has no unit")]
    NoUnit,
    /// The unit is not known.
    #[error("`{0}` is not a unit")]
    UnknownUnit(String),
    /// It is larger than can be.
    #[error("it is too large")]
    TooLarge,
}

/// The units of time, largest last.
pub const TIME_UNITS: &str = "`us`, `ms`, `s`, `min`, `h`";

/// The units of sizes.
pub const SIZE_UNITS: &str = "`B`, `KiB`, `MiB`, `GiB`, `KB`, `MB`, `GB`";

/// A time such as `500ms`, `1.5s`, `20m` or `2 min`, in nanoseconds.
pub fn parse_time_ns(text: &str) -> Result<u64, QuantityError> {
    parse(text, |unit| {
        Some(match unit {
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3_600e9,
            _ => return None,
        })
    })
}

/// A size such as `1GiB` or `512 MB`, in bytes.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    parse(text, |unit| {
        Some(match unit {
            "B" => 1.0,
            "KB" | "kB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            _ => return None,
        })
    })
}

fn parse(text: &str, factor: impl Fn(&str) -> Option<f64>) -> Result<u64, QuantityError> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let number: f64 = text[..digits].replace('_', "").parse().map_err(|_| QuantityError::NoNumber)?;
    let unit = text[digits..].trim_start();
    if unit.is_empty() {
        return Err(QuantityError::NoUnit);
    }
    let value = number * factor(unit).ok_or_else(|| QuantityError::UnknownUnit(unit.to_owned()))?;
    // Beyond 2^63 nothing that is measured can lie; below it the conversion is exact enough and cannot wrap.
    if value < 9.2e18 { Ok(value.round() as u64) } else { Err(QuantityError::TooLarge) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_in_every_unit() {
        assert_eq!(parse_time_ns("5s"), Ok(5_000_000_000));
        assert_eq!(parse_time_ns("1.5 s"), Ok(1_500_000_000));
        assert_eq!(parse_time_ns("250ms"), Ok(250_000_000));
        assert_eq!(parse_time_ns("20m"), Ok(1_200_000_000_000));
        assert_eq!(parse_time_ns("2 min"), Ok(120_000_000_000));
        assert_eq!(parse_time_ns("1h"), Ok(3_600_000_000_000));
        assert_eq!(parse_time_ns("10us"), Ok(10_000));
        assert_eq!(parse_time_ns("0s"), Ok(0));
    }

    #[test]
    fn sizes_are_read_in_every_unit() {
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("1.5 MiB"), Ok(3 << 19));
        assert_eq!(parse_bytes("512MB"), Ok(512_000_000));
    }

    #[test]
    fn what_is_no_quantity_says_why() {
        assert_eq!(parse_time_ns("5 parsecs"), Err(QuantityError::UnknownUnit("parsecs".to_owned())));
        assert_eq!(parse_time_ns("5"), Err(QuantityError::NoUnit));
        assert_eq!(parse_time_ns("s"), Err(QuantityError::NoNumber));
        assert_eq!(parse_time_ns("-5s"), Err(QuantityError::NoNumber));
        assert_eq!(parse_time_ns("1.2.3s"), Err(QuantityError::NoNumber));
        assert_eq!(parse_time_ns(""), Err(QuantityError::NoNumber));
        assert_eq!(parse_time_ns("99999999999999h"), Err(QuantityError::TooLarge));
        assert_eq!(parse_time_ns(&format!("{}s", "9".repeat(400))), Err(QuantityError::TooLarge));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9._ msµhGiB]{0,20}") {
            let _ = parse_time_ns(&text);
            let _ = parse_bytes(&text);
        }
    }
}
