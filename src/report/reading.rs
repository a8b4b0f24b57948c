use super::format::{count, figure, list, range};
use super::{CellSummary, Group, LimitedBy};
use crate::stats::Spread;
use crate::workload::Kind;

/// The fewest passes of which an order of two servers is claimed. Of two servers that are equal, the ranges of three passes each
/// part by chance once in ten times, those of two passes once in three.
pub const FEWEST_PASSES: u32 = 3;

/// Cells, the fastest first, cut into tiers: every cell of a tier is faster than every cell of the next, by ranges
/// that have no value in common. Indices into `cells`. Cells that [`cannot_be_ordered`] are in no tier.
pub fn ordered_tiers(cells: &[CellSummary]) -> Vec<Vec<usize>> {
    let orderable: Vec<(usize, Spread)> = cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| cannot_be_ordered(cell).is_none())
        .filter_map(|(index, cell)| Some((index, cell.rate_per_s?)))
        .collect();
    // The fastest pass of each cell and of all that come after it.
    let mut fastest_left = vec![f64::NEG_INFINITY; orderable.len() + 1];
    for (place, (_, rate)) in orderable.iter().enumerate().rev() {
        fastest_left[place] = fastest_left[place + 1].max(rate.max);
    }
    let mut tiers: Vec<Vec<usize>> = Vec::new();
    let mut slowest = f64::INFINITY;
    for (place, (index, rate)) in orderable.iter().enumerate() {
        match tiers.last_mut() {
            Some(tier) if slowest <= fastest_left[place] => tier.push(*index),
            _ => tiers.push(vec![*index]),
        }
        slowest = slowest.min(rate.min);
    }
    tiers
}

/// Why a cell stands outside the order, as the end of a sentence that begins with its name; none when it may be ordered.
/// A figure that the client limited is a lower bound, and nothing can be said to be faster than a lower bound.
pub fn cannot_be_ordered(cell: &CellSummary) -> Option<String> {
    let passes = cell.rate_per_s.map_or(0, |rate| rate.n);
    if passes == 0 {
        Some("has no figure".to_owned())
    } else if passes < FEWEST_PASSES {
        Some(format!("has only {}", count(passes, "pass", "passes")))
    } else if cell.bimodal_passes.is_some() {
        Some("has two modes".to_owned())
    } else if cell.limited_by == Some(LimitedBy::Client) {
        Some("was limited by the client".to_owned())
    } else {
        None
    }
}

/// What can be said of a group, in sentences.
pub(super) fn of(group: &Group) -> Vec<String> {
    let measured: Vec<&CellSummary> = group.cells.iter().filter(|cell| cell.rate_per_s.is_some()).collect();
    if measured.is_empty() {
        return Vec::new();
    }
    let mut said = order(group, &measured);
    said.extend(limits(group, &measured));
    said.extend(measured.iter().filter_map(|cell| two_modes(cell)));
    said.extend(aside(&measured));
    said
}

fn order(group: &Group, measured: &[&CellSummary]) -> Vec<String> {
    if measured.len() == 1 {
        return vec![format!("{} is the only server measured.", name(measured[0]))];
    }
    let tiers = ordered_tiers(&group.cells);
    if tiers.iter().map(Vec::len).sum::<usize>() < 2 {
        let passes = measured.iter().filter_map(|cell| cell.rate_per_s).map(|rate| rate.n).max().unwrap_or(0);
        return vec![if passes < FEWEST_PASSES {
            let passes = count(passes, "pass", "passes");
            format!(
                "{passes} cannot order servers (at least {FEWEST_PASSES} are needed): read the figures as rough."
            )
        } else {
            "No two servers can be ordered.".to_owned()
        }];
    }
    let mut clauses = Vec::new();
    for (place, tier) in tiers.iter().enumerate() {
        let cells: Vec<&CellSummary> = tier.iter().map(|index| &group.cells[*index]).collect();
        clauses.push(match (place, cells.as_slice()) {
            (0, [one]) => format!("{} is fastest{}", name(one), how_much(group, one)),
            (_, [one]) => format!("then {}{}", name(one), how_much(group, one)),
            (0, several) if tiers.len() == 1 => overlapping(several),
            (0, several) => format!("At the top {}", overlapping(several)),
            (_, several) => format!("then {}", overlapping(several)),
        });
    }
    vec![format!("{}.", clauses.join("; "))]
}

/// Cells outside the order, each reason once. Two modes have a sentence of their own.
fn aside(measured: &[&CellSummary]) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for cell in measured.iter().filter(|cell| cell.bimodal_passes.is_none()) {
        let Some(why) = cannot_be_ordered(cell) else { continue };
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(name(cell)),
            None => reasons.push((why, vec![name(cell)])),
        }
    }
    let sentence = |(why, names): (String, Vec<String>)| match names.as_slice() {
        [one] => format!("{one} {why}: it is left out of the order."),
        several => format!("Each of {} {why}: they are left out of the order.", list(several, "and")),
    };
    // Where nothing is ordered for want of passes, that was said already.
    match measured.len() {
        1 => Vec::new(),
        _ if measured.iter().all(|cell| cell.rate_per_s.is_some_and(|rate| rate.n < FEWEST_PASSES)) => {
            Vec::new()
        }
        _ => reasons.into_iter().map(sentence).collect(),
    }
}

fn name(cell: &CellSummary) -> String {
    format!("`{}`", cell.id.server)
}

/// `, 1.71x relay (1.62–1.80 over 3 passes)`; nothing for the reference itself.
fn how_much(group: &Group, cell: &CellSummary) -> String {
    match (&group.reference, &cell.ratio) {
        (Some(reference), Some(ratio)) if *reference != cell.id => format!(
            ", {}x {} ({} over {})",
            figure(ratio.median),
            reference_name(group),
            range(ratio),
            count(ratio.n, "pass", "passes")
        ),
        _ => String::new(),
    }
}

/// The reference in a word: its server, or `control` when it is of another workload or client.
pub(super) fn reference_name(group: &Group) -> String {
    match &group.reference {
        Some(id) if id.workload == group.workload && id.client == group.client => id.server.clone(),
        Some(_) => "control".to_owned(),
        None => "-".to_owned(),
    }
}

/// `a, b and c overlap: no order can be claimed but a over c`.
fn overlapping(cells: &[&CellSummary]) -> String {
    let names: Vec<String> = cells.iter().map(|cell| name(cell)).collect();
    let mut parted = Vec::new();
    for (place, a) in cells.iter().enumerate() {
        for b in &cells[place + 1..] {
            if let (Some(fast), Some(slow)) = (a.rate_per_s, b.rate_per_s)
                && fast.min > slow.max
            {
                parted.push(format!("{} over {}", name(a), name(b)));
            }
        }
    }
    // A long list of pairs says less than the ranges in the table.
    let but = match parted.len() {
        0 => String::new(),
        1..4 => format!(" but {}", list(&parted, "and")),
        n => format!(" but that of {n} pairs whose ranges part"),
    };
    format!("{} overlap: no order can be claimed{but}", list(&names, "and"))
}

fn limits(group: &Group, measured: &[&CellSummary]) -> Vec<String> {
    let of = |limit: LimitedBy| -> Vec<String> {
        measured.iter().filter(|cell| cell.limited_by == Some(limit)).map(|cell| name(cell)).collect()
    };
    let mut said = Vec::new();
    let all_latency = of(LimitedBy::Latency).len() == measured.len();
    if all_latency && group.params.as_ref().is_some_and(|params| params.kind == Kind::Pingpong) {
        said.push("One message at a time: this is latency, not capacity.".to_owned());
    }
    let mut say = |limit: LimitedBy, what: &str| {
        let names = of(limit);
        if !names.is_empty() {
            said.push(format!("{what} {}.", list(&names, "and")));
        }
    };
    say(LimitedBy::Server, "The server was the limit, so the figure is its own, of");
    say(LimitedBy::Client, "The client was the limit, so the figure is a lower bound, of");
    say(
        LimitedBy::Both,
        "Client and server were both at their limit, so a lighter client might show more, of",
    );
    say(LimitedBy::Neither, "Neither side was at its limit in");
    say(LimitedBy::Unknown, "What was the limit is unknown of");
    said
}

fn two_modes(cell: &CellSummary) -> Option<String> {
    if let Some(clusters) = cell.bimodal_passes {
        return Some(format!(
            "{} has two modes, which its median hides, and no place in the order: {} krt/s in {} and {} krt/s in {}.",
            name(cell),
            figure(clusters.low / 1e3),
            count(clusters.low_n, "pass", "passes"),
            figure(clusters.high / 1e3),
            count(clusters.high_n, "pass", "passes"),
        ));
    }
    let clusters = cell.bimodal_trials?;
    Some(format!(
        "{} has two modes within its passes: {} at {}x and {} at {}x the median of their pass.",
        name(cell),
        count(clusters.low_n, "trial", "trials"),
        figure(clusters.low),
        count(clusters.high_n, "trial", "trials"),
        figure(clusters.high),
    ))
}
