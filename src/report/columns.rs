use super::CellSummary;
use super::format::{figure, percent, spread};

/// A column of a table, the same in a terminal and in markdown.
pub(super) struct Column {
    /// Its heading.
    pub(super) head: String,
    /// 0 always stays; where there is no room the highest goes first.
    pub(super) expendable: u8,
    /// Whether it is text, which is set to the left.
    pub(super) text: bool,
    /// What it shows of a cell.
    pub(super) of: fn(&CellSummary) -> String,
}

const NOTHING: &str = "-";

/// The columns of a group's table; `reference` is what ratios are relative to, in a word.
pub(super) fn columns(reference: Option<String>) -> Vec<Column> {
    let number = |head: &str, expendable, of| Column { head: head.to_owned(), expendable, text: false, of };
    let words = |head: &str, expendable, of| Column { head: head.to_owned(), expendable, text: true, of };
    let mut columns = vec![
        words("server", 0, |cell| cell.id.server.clone()),
        number("krt/s (range)", 0, |cell| {
            cell.rate_per_s.map_or(NOTHING.to_owned(), |rate| spread(&rate.times(1e-3)))
        }),
    ];
    if let Some(reference) = reference {
        columns.push(number(&format!("x {reference} (range)"), 1, |cell| {
            cell.ratio.map_or(NOTHING.to_owned(), |ratio| spread(&ratio))
        }));
    }
    columns.extend([
        number("p50 µs", 5, |cell| micro(cell.p50_ns.map(|ns| ns.median))),
        number("p99 µs", 4, |cell| micro(cell.p99_ns.map(|ns| ns.median))),
        number("CPU", 6, |cell| cell.server_cores.map_or(NOTHING.to_owned(), |cores| percent(cores.median))),
        number("µs/msg", 7, |cell| micro(cell.server_ns_per_message.map(|ns| ns.median))),
        words("limit", 3, |cell| cell.limited_by.map_or(NOTHING.to_owned(), |limit| limit.to_string())),
        words("notes", 2, notes),
    ]);
    columns
}

fn micro(ns: Option<f64>) -> String {
    ns.map_or(NOTHING.to_owned(), |ns| figure(ns / 1e3))
}

/// Marks of a row, in a word each; what they mean stands below the table.
fn notes(cell: &CellSummary) -> String {
    let mut notes: Vec<String> = Vec::new();
    if let Some(trouble) = &cell.trouble {
        // `void: echoed`, but no sentence: that stands below the table.
        let words = if trouble.starts_with("void") { 2 } else { 1 };
        notes.push(match cell.counts.ok {
            0 => trouble.split(": ").take(words).collect::<Vec<_>>().join(": "),
            ok => format!("{ok}/{} ok", cell.counts.planned),
        });
    }
    if cell.bimodal_passes.is_some() || cell.bimodal_trials.is_some() {
        notes.push("bimodal".to_owned());
    }
    // Which they are stands below the table.
    match cell.flags.len() {
        0 => {}
        1 => notes.push("1 flag".to_owned()),
        more => notes.push(format!("{more} flags")),
    }
    notes.join(", ")
}

/// The columns that hold something for one of the cells at least.
pub(super) fn used(columns: Vec<Column>, cells: &[CellSummary]) -> Vec<Column> {
    columns
        .into_iter()
        .filter(|column| {
            column.expendable == 0
                || cells.iter().any(|cell| !matches!((column.of)(cell).as_str(), "" | NOTHING))
        })
        .collect()
}
