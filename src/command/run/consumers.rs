use super::{Args, Format};
use crate::command::Terminal;
use crate::exit::say;
use crate::schedule::{Event, JsonLines, Lines, ProgressBar};

/// Who shows the events.
pub(super) enum Consumers {
    Bar(ProgressBar),
    Lines(Lines<std::io::Stderr>),
    /// And why stdout takes no more of them.
    Json(JsonLines<std::io::Stdout>, Option<String>),
}

impl Consumers {
    pub(super) fn new(args: &Args, terminal: &Terminal) -> Self {
        match args.format {
            Format::Json => Consumers::Json(JsonLines::new(std::io::stdout()), None),
            Format::Human if terminal.stderr_is_terminal => Consumers::Bar(ProgressBar::new()),
            Format::Human => Consumers::Lines(Lines::new(std::io::stderr())),
        }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match self {
            Consumers::Bar(bar) => bar.show(event),
            Consumers::Lines(lines) => lines.show(event),
            // Half a stream followed by a later part of it is worse than half a stream.
            Consumers::Json(_, Some(_)) => {}
            Consumers::Json(json, trouble) => {
                if let Err(error) = json.show(event) {
                    let why = format!("stdout could not be written: {error}");
                    say(format_args!("warning: {why}; the run goes on"));
                    *trouble = Some(why);
                }
            }
        }
    }

    /// Why stdout did not get all of the events.
    pub(super) fn trouble(self) -> Option<String> {
        match self {
            Consumers::Json(_, trouble) => trouble,
            Consumers::Bar(_) | Consumers::Lines(_) => None,
        }
    }
}
