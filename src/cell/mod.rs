//! The life of one cell: place, start, ready, verify, measure, sample, stop, judge.
