use super::columns::{columns, used};
use super::matrix::{HIDDEN, HIDES, detailed, main_client, matrices, overview};
use super::prose::{
    about_host, about_params, about_run, command_line, control_line, coverage_lines, flag_lines, legend,
    server_line,
};
use super::reading::reference_name;
use super::{Group, Summary};

/// The summary for a README or an issue.
pub(super) fn render(summary: &Summary) -> String {
    let about = about_run(&summary.run);
    let mut text = format!("# {}\n\n{}\n\n", escaped(&about[0]), escaped(&about[1]));
    if !summary.run.argv.is_empty() {
        text.push_str(&format!("    {}\n\n", command_line(&summary.run.argv)));
    }
    for host in &summary.hosts {
        text.push_str(&format!("{}\n\n", escaped(&about_host(host))));
    }
    if let Some((client, grid)) = overview(summary) {
        let title = escaped(&client);
        text.push_str(&format!(
            "## Servers, client {title}\n\nMedian (range) over the passes; {HIDDEN}: {HIDES}.\n\n{}\n",
            grid.markdown()
        ));
    }
    let matrices = matrices(summary);
    for matrix in &matrices {
        let title = escaped(matrix.workload);
        text.push_str(&format!(
            "## {title}, servers by clients\n\nThousand round trips per second, median (range).\n\n{}\n",
            matrix.grid().markdown()
        ));
        for sentence in matrix.reading(main_client(summary)) {
            text.push_str(&format!("- {sentence}\n"));
        }
        text.push('\n');
    }
    for group in detailed(summary, &matrices) {
        text.push_str(&section(group));
    }
    text.push_str("## Coverage\n\n");
    let lines = control_line(summary).into_iter().chain(coverage_lines(summary, usize::MAX));
    for line in lines.chain(flag_lines(summary)).chain(server_line(summary)) {
        text.push_str(&format!("- {}\n", escaped(line.trim())));
    }
    for note in &summary.notes {
        text.push_str(&format!("- note: {}\n", escaped(note)));
    }
    text.push_str(&format!("\n{}\n", legend()));
    text
}

fn section(group: &Group) -> String {
    let mut text = format!("## {}, client {}\n\n", escaped(&group.workload), escaped(&group.client));
    if let Some(params) = &group.params {
        text.push_str(&format!("{}\n\n", about_params(params)));
    }
    let columns = used(columns(group.reference.as_ref().map(|_| reference_name(group))), &group.cells);
    let heads: Vec<String> = columns.iter().map(|column| escaped(&column.head)).collect();
    let rules: Vec<&str> = columns.iter().map(|column| if column.text { "---" } else { "---:" }).collect();
    text.push_str(&format!("| {} |\n| {} |\n", heads.join(" | "), rules.join(" | ")));
    for cell in &group.cells {
        let fields: Vec<String> = columns.iter().map(|column| escaped(&(column.of)(cell))).collect();
        text.push_str(&format!("| {} |\n", fields.join(" | ")));
    }
    text.push('\n');
    for sentence in &group.reading {
        text.push_str(&format!("- {sentence}\n"));
    }
    if !group.reading.is_empty() {
        text.push('\n');
    }
    text
}

/// Text in which nothing is taken for markup or for a column's end.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '*' | '_' | '<' | '[' | '`' | '\\' => out.extend(['\\', letter]),
            '\n' | '\r' => out.push(' '),
            _ => out.push(letter),
        }
    }
    out
}
