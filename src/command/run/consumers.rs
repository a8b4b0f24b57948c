use super::{Args, Format};
use crate::command::Terminal;
use crate::schedule::{Event, JsonLines, Lines, ProgressBar};

/// Who shows the events.
pub(super) enum Consumers {
    Bar(ProgressBar),
    Lines(Lines<std::io::Stderr>),
    Json(JsonLines<std::io::Stdout>),
}

impl Consumers {
    pub(super) fn new(args: &Args, terminal: &Terminal) -> Self {
        match args.format {
            Format::Json => Consumers::Json(JsonLines::new(std::io::stdout())),
            Format::Human if terminal.stderr_is_terminal => Consumers::Bar(ProgressBar::new()),
            Format::Human => Consumers::Lines(Lines::new(std::io::stderr())),
        }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match self {
            Consumers::Bar(bar) => bar.show(event),
            Consumers::Lines(lines) => lines.show(event),
            Consumers::Json(json) => {
                if let Err(error) = json.show(event) {
                    eprintln!("warning: stdout could not be written: {error}");
                }
            }
        }
    }
}
