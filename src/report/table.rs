use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::columns::{Column, columns, used};
use super::format::wrap;
use super::grid;
use super::matrix::{detailed, main_client, matrices};
use super::prose::{
    about_host, about_params, about_run, control_line, coverage_lines, flag_lines, legend, server_line,
};
use super::reading::reference_name;
use super::{CellSummary, Group, Style, Summary};

/// The summary for people.
pub(super) fn render(summary: &Summary, style: &Style) -> String {
    let width = style.width.max(1);
    let mut lines: Vec<String> = Vec::new();
    let paragraph = |lines: &mut Vec<String>, text: &str, indent: &str| {
        lines.extend(wrap(text, width, indent).lines().map(str::to_owned));
    };

    for (place, line) in about_run(&summary.run).iter().enumerate() {
        let line = wrap(line, width, "  ");
        lines.push(if place == 0 { bold(&line, style) } else { line });
    }
    for host in &summary.hosts {
        paragraph(&mut lines, &about_host(host), "  ");
    }
    let matrices = matrices(summary);
    for group in detailed(summary, &matrices) {
        lines.push(String::new());
        lines.extend(group_lines(group, style, width));
    }
    for matrix in &matrices {
        lines.push(String::new());
        lines.push(bold(
            &wrap(&format!("{} · servers by clients, krt/s median (range)", matrix.workload), width, "  "),
            style,
        ));
        lines.extend(matrix.grid().lines(style));
        lines.extend(
            matrix
                .reading(main_client(summary))
                .iter()
                .map(|sentence| wrap(&format!("- {sentence}"), width, "  ")),
        );
    }
    lines.push(String::new());
    for line in control_line(summary).into_iter().chain(coverage_lines(summary, 6)) {
        paragraph(&mut lines, &line, "  ");
    }
    for line in flag_lines(summary) {
        paragraph(&mut lines, &line, "  ");
    }
    for note in &summary.notes {
        paragraph(&mut lines, &format!("note: {note}"), "  ");
    }
    if let Some(line) = server_line(summary) {
        paragraph(&mut lines, &line, "  ");
    }
    if summary.groups.iter().any(|group| group.cells.iter().any(|cell| cell.rate_per_s.is_some())) {
        paragraph(&mut lines, legend(), "  ");
    }
    lines.push(String::new());
    lines.join("\n")
}

fn group_lines(group: &Group, style: &Style, width: usize) -> Vec<String> {
    let mut head = format!("{} · client {}", group.workload, group.client);
    if let Some(params) = &group.params {
        head.push_str(" · ");
        head.push_str(&about_params(params));
    }
    let mut lines = vec![bold(&wrap(&head, width, "  "), style)];

    let reference = group.reference.as_ref().map(|_| reference_name(group));
    let mut columns = used(columns(reference), &group.cells);
    let mut left_out: Vec<String> = Vec::new();
    let table = loop {
        let table = table(&columns, &group.cells, style);
        let widest = grid::width(&table);
        let most = columns.iter().map(|column| column.expendable).max().unwrap_or(0);
        if widest <= width || most == 0 {
            break table;
        }
        left_out.extend(columns.extract_if(.., |column| column.expendable == most).map(|column| column.head));
    };
    lines.extend(table.lines().map(|line| line.trim_end().to_owned()));
    if !left_out.is_empty() {
        left_out.reverse();
        lines.push(wrap(&format!("  (no room for {}: see --format csv)", left_out.join(", ")), width, "  "));
    }
    lines.extend(group.reading.iter().map(|sentence| wrap(&format!("- {sentence}"), width, "  ")));
    lines
}

fn table(columns: &[Column], cells: &[CellSummary], style: &Style) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(
        columns.iter().map(|column| Cell::new(&column.head).add_attribute(Attribute::Underlined)),
    );
    for cell in cells {
        table.add_row(columns.iter().map(|column| styled(column, cell)));
    }
    for (index, column) in columns.iter().enumerate() {
        let alignment = if column.text { CellAlignment::Left } else { CellAlignment::Right };
        let shown = table.column_mut(index).expect("the header has every column");
        shown.set_cell_alignment(alignment);
        shown.set_padding((0, 2));
    }
    table
}

fn styled(column: &Column, cell: &CellSummary) -> Cell {
    let shown = Cell::new((column.of)(cell));
    if column.head.starts_with("x ") {
        return match cell.ratio.map(|ratio| ratio.median) {
            Some(ratio) => shown.fg(heat(ratio)),
            None => shown,
        };
    }
    if cell.rate_per_s.is_none() { shown.fg(Color::DarkGrey) } else { shown }
}

/// Green above the reference, yellow below, red far below; the default where they are near.
fn heat(ratio: f64) -> Color {
    match ratio {
        1.10.. => Color::Green,
        0.90..1.10 => Color::Reset,
        0.67..0.90 => Color::Yellow,
        _ => Color::Red,
    }
}

fn bold(text: &str, style: &Style) -> String {
    if !style.color {
        return text.to_owned();
    }
    let lines: Vec<String> =
        text.lines().map(|line| owo_colors::OwoColorize::bold(&line).to_string()).collect();
    lines.join("\n")
}
