use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Event;
use crate::record::{Outcome, Stage};

/// Progress on a terminal: what runs now, how much is done, how much time is left.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    pass: String,
}

impl Progress {
    /// A bar on stderr. It is redrawn when something happens, at most once a second, so that it disturbs nothing.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(1));
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, pass: String::new() }
    }

    /// Shows an event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::RunStarted { passes, cells, estimate_s, .. } => {
                self.bar.set_length(u64::from(*cells) * u64::from(*passes));
                self.bar.set_message(format!("about {}", time(*estimate_s)));
            }
            Event::PassStarted { pass } => self.pass = format!("pass {pass}"),
            Event::CellStarted { order, cell, .. } => {
                self.bar.set_position(u64::from(*order));
                self.bar.set_message(format!("{}  {cell}", self.pass));
                self.bar.force_draw();
            }
            Event::CellDone { order, cell, outcome, rate_per_s, left_s, .. } => {
                if !matches!(outcome, Outcome::Ok | Outcome::Skipped { .. }) {
                    self.bar.println(format!("{}  {cell}  {}", self.pass, brief(outcome, *rate_per_s)));
                }
                self.bar.set_position(u64::from(*order) + 1);
                self.bar.set_message(format!("{}{}", self.pass, left(*left_s)));
                self.bar.force_draw();
            }
            Event::MorePasses { executions, .. } => {
                self.bar.inc_length(u64::from(*executions));
                self.bar.println(again(event));
            }
            Event::Warning { message } => self.bar.println(format!("warning: {message}")),
            Event::RunDone { .. } => self.bar.finish_and_clear(),
            Event::StageStarted { .. } | Event::TrialDone { .. } | Event::PassDone { .. } => {}
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

/// Progress where there is no terminal: a plain line for each cell.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    total: u64,
    began: Instant,
}

impl<W: Write> Lines<W> {
    /// Lines on `out`.
    pub fn new(out: W) -> Self {
        Lines { out, total: 0, began: Instant::now() }
    }

    /// Shows an event.
    pub fn show(&mut self, event: &Event) {
        let line = match event {
            Event::RunStarted { run_id, passes, cells, resumed, estimate_s, seed, .. } => {
                self.total = u64::from(*cells) * u64::from(*passes);
                let kept =
                    if *resumed > 0 { format!(", {resumed} of them finished before") } else { String::new() };
                format!(
                    "run {run_id}: {cells} cells, {passes} passes{kept}, seed {seed}, about {}",
                    time(*estimate_s)
                )
            }
            Event::CellStarted { .. } => {
                self.began = Instant::now();
                return;
            }
            Event::CellDone { pass, order, cell, outcome, rate_per_s, left_s, record } => {
                let width = self.total.to_string().len();
                let took = (record.finished_at - record.started_at).to_std().unwrap_or_default();
                format!(
                    "[{:>width$}/{}] pass {pass}  {cell}  {}  {:.1} s{}",
                    order + 1,
                    self.total,
                    brief(outcome, *rate_per_s),
                    took.as_secs_f64(),
                    left(*left_s)
                )
            }
            Event::MorePasses { executions, .. } => {
                self.total += u64::from(*executions);
                again(event)
            }
            Event::Warning { message } => format!("warning: {message}"),
            _ => return,
        };
        // Whoever no longer reads misses nothing that the records do not hold.
        let _ = writeln!(self.out, "{line}");
    }
}

/// Which cells are measured again, in a line.
fn again(event: &Event) -> String {
    let Event::MorePasses { cells, from, to, most, estimate_s, .. } = event else { return String::new() };
    format!(
        "not decided yet: {} cells, the control among them, passes {from} to {to} of at most {most}, about {}",
        cells.len(),
        time(*estimate_s)
    )
}

/// The time that is left, where there is any.
fn left(left_s: f64) -> String {
    if left_s > 0.0 { format!("  about {} left", time(left_s)) } else { String::new() }
}

/// The event stream as JSON, a line each.
#[derive(Debug)]
pub struct JsonLines<W>(W);

impl<W: Write> JsonLines<W> {
    /// Lines on `out`.
    pub fn new(out: W) -> Self {
        JsonLines(out)
    }

    /// Writes an event. A reader that went away ends the printing quietly.
    pub fn show(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_string(event)?;
        line.push('\n');
        match self.0.write_all(line.as_bytes()).and_then(|()| self.0.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// An outcome in a few words.
fn brief(outcome: &Outcome, rate_per_s: Option<f64>) -> String {
    match outcome {
        Outcome::Ok => match rate_per_s {
            Some(rate) => format!("ok  {:.1} k/s", rate / 1_000.0),
            None => "ok".to_owned(),
        },
        Outcome::Void { reason, detail } => format!("void: {reason}: {detail}"),
        Outcome::Failed { stage: Stage::Cell, message, .. } => format!("failed: {message}"),
        Outcome::Failed { stage, message, .. } => format!("failed in {stage}: {message}"),
        Outcome::Skipped { reason } => format!("skipped: {reason}"),
    }
}

fn time(seconds: f64) -> String {
    crate::plan::human_time(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}
