use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::Style;
use super::markdown::escaped;

/// A table of names by names, for a terminal or for markdown.
pub(super) struct Grid {
    /// Headings; the first is that of the column of names.
    pub(super) heads: Vec<String>,
    /// A name and its fields.
    pub(super) rows: Vec<(String, Vec<Field>)>,
}

/// One field of a grid.
#[derive(Clone, Default)]
pub(super) struct Field {
    /// What it shows.
    pub(super) text: String,
    /// How warm it is, from 0 (slowest of its grid) to 1 (fastest); none leaves it without a colour.
    pub(super) heat: Option<f64>,
}

impl Field {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Field { text: text.into(), heat: None }
    }
}

/// From slowest to fastest, of the 256 colours that terminals share.
const HEAT: [u8; 7] = [160, 202, 214, 226, 154, 76, 34];

impl Grid {
    /// Lines within the style's width where one column of fields fits: columns that do not fit go below, under the same names.
    pub(super) fn lines(&self, style: &Style) -> Vec<String> {
        let mut lines = Vec::new();
        let mut from = 1;
        while from < self.heads.len() {
            let mut to = self.heads.len();
            let mut shown = self.table(from, to, style);
            while to > from + 1 && width(&shown) > style.width {
                to -= 1;
                shown = self.table(from, to, style);
            }
            if from > 1 {
                lines.push(String::new());
            }
            lines.extend(shown.lines().map(|line| line.trim_end().to_owned()));
            from = to;
        }
        lines
    }

    fn table(&self, from: usize, to: usize, style: &Style) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if style.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let heads = self.heads[..1].iter().chain(&self.heads[from..to]);
        table.set_header(heads.map(|head| Cell::new(head).add_attribute(Attribute::Underlined)));
        for (name, fields) in &self.rows {
            let fields = fields[from - 1..to - 1].iter().map(|field| {
                let cell = Cell::new(&field.text);
                match field.heat {
                    Some(heat) => cell.fg(Color::AnsiValue(color(heat))),
                    None => cell,
                }
            });
            table.add_row([Cell::new(name)].into_iter().chain(fields));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_cell_alignment(if index == 0 { CellAlignment::Left } else { CellAlignment::Right });
            column.set_padding((0, 2));
        }
        table
    }

    /// A markdown table.
    pub(super) fn markdown(&self) -> String {
        let line = |fields: Vec<String>| format!("| {} |\n", fields.join(" | "));
        let mut text = line(self.heads.iter().map(|head| escaped(head)).collect());
        let rules = (0..self.heads.len()).map(|index| if index == 0 { "---" } else { "---:" }.to_owned());
        text.push_str(&line(rules.collect()));
        for (name, fields) in &self.rows {
            let fields = fields.iter().map(|field| escaped(&field.text));
            text.push_str(&line([escaped(name)].into_iter().chain(fields).collect()));
        }
        text
    }
}

fn color(heat: f64) -> u8 {
    HEAT[((heat.clamp(0.0, 1.0) * HEAT.len() as f64) as usize).min(HEAT.len() - 1)]
}

/// Columns of the widest line on a terminal.
pub(super) fn width(table: &Table) -> usize {
    table.lines().map(|line| columns_of(&line)).max().unwrap_or(0)
}

/// Columns that a line takes on a terminal, escape sequences left out.
fn columns_of(line: &str) -> usize {
    let mut columns = 0;
    let mut escaped = false;
    for letter in line.trim_end().chars() {
        match letter {
            '\u{1b}' => escaped = true,
            'm' if escaped => escaped = false,
            _ if escaped => {}
            _ => columns += 1,
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let field = |text: &str, heat| Field { text: text.to_owned(), heat };
        Grid {
            heads: ["server", "native", "ws@node-24"].map(str::to_owned).to_vec(),
            rows: vec![
                ("relay".to_owned(), vec![field("54 (53–54)", Some(1.0)), field("20 (20–20)", Some(0.0))]),
                ("ws@bun".to_owned(), vec![field("41", Some(0.6)), field("-", None)]),
            ],
        }
    }

    #[test]
    fn columns_without_room_go_below_with_the_names_again() {
        let wide = grid().lines(&Style { color: false, width: 80 });
        assert_eq!(wide.len(), 3);
        let narrow = grid().lines(&Style { color: false, width: 20 });
        assert_eq!(narrow.len(), 7);
        assert_eq!(narrow.iter().filter(|line| line.starts_with("relay")).count(), 2);
        // No width loses a field.
        assert_eq!(grid().lines(&Style { color: false, width: 0 }).len(), 7);
    }

    #[test]
    fn heat_colours_and_markdown_does_not() {
        let colored = grid().lines(&Style { color: true, width: 80 }).join("\n");
        assert!(colored.contains("38;5;34m") && colored.contains("38;5;160m"), "{colored:?}");
        assert_eq!(
            grid().markdown(),
            "| server | native | ws@node-24 |\n| --- | ---: | ---: |\n| relay | 54 (53–54) | 20 (20–20) |\n| ws@bun | 41 | - |\n"
        );
        assert_eq!([color(-1.0), color(0.0), color(0.5), color(1.0), color(9.0)], [160, 160, 226, 34, 34]);
    }
}
