//! The life of one cell: place, start, ready, verify, warm up, measure, stop, judge. `life` goes through it;
//! `place`, `sides`, `watch` and `stop` are its parts; `judge` says what the numbers are worth; the rest is what these need.
//!
//! `runner cell` reads one [`crate::plan::Job`] as JSON on stdin and writes exactly one [`crate::record::Record`]
//! as JSON on stdout, whatever happens; while it runs it writes its progress as JSON lines on stderr. SIGTERM stops
//! both sides and ends it with a record that says so.

mod hash;
mod judge;
mod life;
mod log;
mod place;
mod ports;
mod process;
mod progress;
mod ready;
mod sample;
mod sides;
mod stop;
mod talk;
mod watch;

pub use hash::Hashes;
pub use life::live;
pub use progress::Progress;
