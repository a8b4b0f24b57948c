//! Pure statistics, each formula with its source. No I/O.
