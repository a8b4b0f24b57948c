use std::path::Path;

use chrono::SecondsFormat;

use super::Summary;
use super::coverage::Status;
use super::format::{count, figure, list, percent, range, some_cells};
use super::summary::RunFacts;
use crate::host::Fingerprint;
use crate::workload::{Extent, Kind, Mask, Opcode, Params, Wait};

/// Title, identity and command of a run.
pub(super) fn about_run(run: &RunFacts) -> Vec<String> {
    let title = if run.title.is_empty() { run.manifest.clone() } else { run.title.clone() };
    let mut facts = vec![
        format!("run {}", run.run_id),
        format!("manifest {}", run.manifest),
        count(run.passes, "pass", "passes"),
        format!("seed {}", run.seed),
        format!("runner {}", run.runner_version),
        run.started_at.to_rfc3339_opts(SecondsFormat::Secs, true),
    ];
    match run.finished_at {
        _ if run.interrupted => facts.push("interrupted".to_owned()),
        Some(end) => facts.push(crate::plan::human_time((end - run.started_at).to_std().unwrap_or_default())),
        None => facts.push("not finished".to_owned()),
    }
    let mut lines = vec![title, facts.join(" · ")];
    if !run.argv.is_empty() {
        lines.push(format!("$ {}", command_line(&run.argv)));
    }
    lines
}

/// The command line as one would type it: the program by its name, quotes where a shell needs them.
pub(super) fn command_line(argv: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,@+%".contains(c))
    };
    let words: Vec<String> = argv
        .iter()
        .enumerate()
        .map(|(place, word)| {
            let word = match (place, Path::new(word).file_name()) {
                (0, Some(name)) => name.to_string_lossy().into_owned(),
                _ => word.clone(),
            };
            if plain(&word) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
        })
        .collect();
    words.join(" ")
}

/// A machine in a line.
pub(super) fn about_host(host: &Fingerprint) -> String {
    let mut facts = vec![host.cpu_model.clone(), count(host.cpus, "CPU", "CPUs")];
    if host.virtualisation != "none" && !host.virtualisation.is_empty() {
        facts.push(host.virtualisation.clone());
    }
    facts.push(format!("{} GiB", (host.memory_bytes as f64 / f64::from(1u32 << 30)).round()));
    facts.push(format!("Linux {}", host.kernel));
    facts.extend([host.os.clone(), format!("class {}", host.class)]);
    facts.retain(|fact| !fact.is_empty());
    format!("host: {}", facts.join(" · "))
}

/// The parameters of a workload in a line.
pub(super) fn about_params(params: &Params) -> String {
    let opcode = match params.opcode {
        Opcode::Binary => "binary",
        Opcode::Text => "text",
    };
    let mut facts = vec![format!("{} B {opcode}", thousands(params.payload))];
    if params.kind == Kind::Load {
        facts.push(count(params.pairs, "pair", "pairs"));
        match params.rate_per_s {
            None => facts.push(format!("{} in flight each", params.in_flight)),
            Some(rate) => facts.push(format!(
                "{} round trips a second on schedule, {} in flight each at most, latencies from the schedule",
                thousands(rate),
                params.in_flight
            )),
        }
        facts.push(count(params.threads, "client thread", "client threads"));
    }
    if params.mask == Mask::Random {
        facts.push("random mask".to_owned());
    }
    if params.wait == Wait::Block {
        facts.push("blocking client".to_owned());
    }
    let extent = |extent: &Extent| match extent {
        Extent::Rounds(rounds) => format!("{} round trips", thousands(*rounds)),
        Extent::DurationNs(ns) => format!("{} s", figure(*ns as f64 / 1e9)),
    };
    facts.push(format!(
        "{} of {} after {}",
        count(params.trials, "trial", "trials"),
        extent(&params.trial),
        extent(&params.warmup)
    ));
    facts.join(", ")
}

/// `100,000`.
fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Whether the machine moved, by the control.
pub(super) fn control_line(summary: &Summary) -> Option<String> {
    let control = summary.control.as_ref()?;
    Some(match &control.rate_per_s {
        None => format!("control: {} has no figure, so a change of the machine cannot be told", control.id),
        Some(rate) if rate.n == 1 => format!(
            "control: {} at {} krt/s in the only pass that has it, so a change of the machine cannot be told",
            control.id,
            figure(rate.median / 1e3)
        ),
        Some(rate) => format!(
            "control: {} at {} krt/s ({}) over {}, a range of {} of the median",
            control.id,
            figure(rate.median / 1e3),
            range(&rate.times(1e-3)),
            count(rate.n, "pass", "passes"),
            percent(rate.relative_range())
        ),
    })
}

/// What was planned and what became of it; each reason once, with at most `most` cells named.
pub(super) fn coverage_lines(summary: &Summary, most: usize) -> Vec<String> {
    let coverage = &summary.coverage;
    let counts = &coverage.counts;
    let mut parts = vec![
        format!("{} ok", counts.ok),
        format!("{} void", counts.void),
        format!("{} failed", counts.failed),
        format!("{} skipped", counts.skipped),
    ];
    if coverage.missing > 0 {
        parts.push(format!("{} missing", coverage.missing));
    }
    let mut lines = vec![format!("coverage: {} planned: {}", counts.planned, parts.join(", "))];
    for problem in &coverage.problems {
        let times = match problem.status {
            Status::Excluded => String::new(),
            _ => format!(" {}x", problem.executions),
        };
        let detail = match problem.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        lines.push(format!(
            "  {}{times}: {}{detail}: {}",
            problem.status,
            one_line(&problem.reason),
            some_cells(&problem.cells, most)
        ));
    }
    lines
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each flag once, with the cells that have it and what was seen the first time.
pub(super) fn flag_lines(summary: &Summary) -> Vec<String> {
    let mut flags: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for cell in summary.groups.iter().flat_map(|group| &group.cells) {
        for flag in &cell.flags {
            let place = flags.iter().position(|(name, ..)| *name == flag.name).unwrap_or_else(|| {
                flags.push((&flag.name, &flag.detail, Vec::new()));
                flags.len() - 1
            });
            flags[place].2.push(cell.id.to_string());
        }
    }
    flags
        .into_iter()
        .map(|(name, detail, cells)| {
            let more = match cells.len() {
                1 => cells[0].clone(),
                n => format!("{} and {}", cells[0], count(n as u64 - 1, "more cell", "more cells")),
            };
            format!("flag {name}: {}: {}", more, one_line(detail))
        })
        .collect()
}

/// Versions of the servers.
pub(super) fn server_line(summary: &Summary) -> Option<String> {
    if summary.servers.is_empty() {
        return None;
    }
    let servers: Vec<String> = summary
        .servers
        .iter()
        .map(|(server, versions)| {
            let versions: Vec<String> =
                versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
            format!("{server} ({})", versions.join(", "))
        })
        .collect();
    Some(format!("servers: {}", list(&servers, "and")))
}

/// What the words of the table mean.
pub(super) fn legend() -> &'static str {
    "krt/s: thousand round trips a second, median of the passes and their range; x: ratio within the same pass, likewise; p50, \
     p99: latency of a round trip; CPU: of the server, 100 % is one core; µs/msg: CPU time of the server per message (4 a \
     round trip: 2 received, 2 sent). docs/METHODOLOGY.md defines each."
}
