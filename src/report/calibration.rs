use super::Style;
use super::format::{count, wrap};
use super::grid::{Field, Grid};
use crate::verdict::{Calibrated, SimulatedRow};

/// What nights of unchanged servers told, for people.
pub fn render_calibration(found: &Calibrated, style: &Style) -> String {
    let verdicts: Vec<String> =
        found.verdicts.iter().map(|(verdict, nights)| format!("{nights} {verdict}")).collect();
    let head = format!(
        "{} of unchanged servers, {} each; each judged once against the others: {}",
        count(found.nights, "night", "nights"),
        count(found.passes, "pass", "passes"),
        verdicts.join(", ")
    );
    let heads = [
        "cell",
        "metric",
        "pass to pass",
        "night to night",
        "without control",
        "control weight",
        "finds",
        "without control",
    ];
    let rows = found.cells.iter().map(|cell| {
        let fields = vec![
            Field::plain(cell.metric.to_string()),
            Field::plain(percent(cell.noise.within)),
            Field::plain(percent(cell.noise.between)),
            Field::plain(format!(
                "{} / {}",
                percent(cell.uncontrolled.within),
                percent(cell.uncontrolled.between)
            )),
            Field::plain(format!("{:.2}", cell.noise.weight)),
            Field::plain(percent(cell.detectable)),
            Field::plain(percent(cell.detectable_uncontrolled)),
        ];
        (cell.cell.to_string(), fields)
    });
    let grid = Grid { heads: heads.map(str::to_owned).to_vec(), rows: rows.collect() };
    let legend = "pass to pass, night to night: standard deviations, the control taken off with its weight, and without it; finds: the smallest shift that is found four times out of five by a run that goes on until it is decided, at the manifest's error rate.";
    format!(
        "{}\n\n{}\n\n{}\n",
        wrap(&head, style.width, "  "),
        grid.lines(style).join("\n"),
        wrap(legend, style.width, "  ")
    )
}

/// What simulated nights came to, for people.
pub fn render_simulated(rows: &[SimulatedRow], style: &Style) -> String {
    let slowdowns = rows.first().map_or(&[][..], |row| &row.result.slower);
    let mut heads: Vec<String> =
        ["noise", "nights", "cells", "may move", "red without cause"].map(str::to_owned).to_vec();
    heads.extend(slowdowns.iter().map(|slower| format!("{:.0} % slower: found", slower.by * 100.0)));
    heads.extend(["same", "undecided", "passes of a cell"].map(str::to_owned));
    let lines = rows.iter().map(|row| {
        let result = &row.result;
        let mut fields = vec![
            Field::plain(result.nights.to_string()),
            Field::plain(row.cells.to_string()),
            Field::plain(percent(row.within)),
            Field::plain(format!("{:.2} %", result.red_without_cause * 100.0)),
        ];
        fields.extend(result.slower.iter().map(|slower| Field::plain(percent(slower.found))));
        fields.extend([
            Field::plain(percent(result.same)),
            Field::plain(percent(result.undecided)),
            Field::plain(format!("{:.1}", result.passes)),
        ]);
        (row.shape.to_string(), fields)
    });
    let grid = Grid { heads, rows: lines.collect() };
    grid.lines(style).join("\n") + "\n"
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
