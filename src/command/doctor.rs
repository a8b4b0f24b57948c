use std::path::PathBuf;

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use serde::Serialize;

use super::{Format, SelectionArgs, Terminal, catalog, load_manifest};
use crate::exit::{Ending, Exit, UserError};
use crate::host::{Finding, Fingerprint, Host, Needs, ServerCgroup, Severity, worst};
use crate::manifest::Manifest;
use crate::plan::Limits;

/// Arguments of `runner doctor`.
///
/// Ends with 3 when something makes the host unfit to measure, else with 0.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The manifest that the host should be fit for; without one, manifests like those that come along
    pub manifest: Option<PathBuf>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What is printed for programs.
#[derive(Serialize)]
struct Shown<'a> {
    schema: &'static str,
    verdict: Severity,
    fingerprint: &'a Fingerprint,
    findings: &'a [Finding],
}

/// Says what makes this host fit or unfit to measure, and how to mend it.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let needs = match &args.manifest {
        None => Needs::default(),
        Some(path) => {
            let names = catalog(path)?;
            let manifest = load_manifest(path, &names, terminal)?;
            let plan = args.selection.plan(&manifest)?;
            if plan.cells.is_empty() {
                return Ok(args.selection.nothing_selected(&manifest, &plan));
            }
            needs(&manifest, plan.cells.iter().map(|cell| (cell.workload, cell.id.server.as_str())))
        }
    };
    let host = Host::here();
    let mut findings = host.fitness(&needs);
    findings.push(limits(&needs));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = worst(&findings);
    let fingerprint = host.fingerprint();
    match args.format {
        Format::Json => {
            let shown =
                Shown { schema: "runner.doctor/1", verdict, fingerprint: &fingerprint, findings: &findings };
            terminal.write(|out| {
                serde_json::to_writer_pretty(&mut *out, &shown)?;
                out.write_all(b"\n")
            })?;
        }
        Format::Table => terminal.print(&text(&fingerprint, &findings, terminal))?,
    }
    if verdict < Severity::Unfit {
        return Ok(Ending::done());
    }
    let unfit: Vec<&str> =
        findings.iter().filter(|one| one.severity == Severity::Unfit).map(|one| one.check).collect();
    Ok(Ending::new(Exit::Incomplete, format!("this host is unfit to measure: {}", unfit.join(", "))))
}

/// What the selected cells ask of a machine.
fn needs<'a>(manifest: &Manifest, cells: impl Iterator<Item = (usize, &'a str)>) -> Needs {
    let mut needs = Needs {
        client_threads: 1,
        connections: 0,
        limits: manifest.limits.is_some(),
        tools: Vec::new(),
        server: manifest.server_cores.clone(),
        client: manifest.client_cores.clone(),
    };
    for (workload, server) in cells {
        let params = &manifest.workloads[workload].params;
        needs.client_threads = needs.client_threads.max(params.threads);
        needs.connections = needs.connections.max(2 * u64::from(params.pairs));
        let tool = match server.split_once('@') {
            None => continue,
            Some((_, "native")) => "cc",
            Some(_) => "npm",
        };
        if !needs.tools.contains(&tool) {
            needs.tools.push(tool);
        }
    }
    needs
}

/// Whether a server can be limited: tried out, as rights and mounts say little.
fn limits(needs: &Needs) -> Finding {
    const CHECK: &str = "control groups";
    let name = format!("runner-doctor-{}", std::process::id());
    let asked = Limits { cpus: Some(1.0), memory_bytes: Some(64 << 20) };
    let (severity, seen) = match ServerCgroup::create(&name, &asked) {
        Ok(_) => (Severity::Fit, "a limit on CPU time and memory was set and read back".to_owned()),
        Err(why) if needs.limits => (Severity::Unfit, why),
        Err(why) => (Severity::Fit, format!("not to be had, and not asked for: {why}")),
    };
    let unfit = severity == Severity::Unfit;
    Finding {
        check: CHECK,
        severity,
        seen,
        why: if unfit {
            "the manifest limits its servers; without the limit they are not measured"
        } else {
            ""
        },
        mend: unfit.then(|| {
            "run as root, or in a delegated group: `systemd-run --user --scope -p Delegate=yes …`".to_owned()
        }),
    }
}

fn text(host: &Fingerprint, findings: &[Finding], terminal: &Terminal) -> String {
    const WIDEST: u16 = 110;
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(terminal.columns.unwrap_or(WIDEST).clamp(50, WIDEST));
    if terminal.stdout_color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    for finding in findings {
        let color = match finding.severity {
            Severity::Fit => Color::Green,
            Severity::Caution => Color::Yellow,
            Severity::Unfit => Color::Red,
        };
        let mut about = vec![finding.seen.clone()];
        if !finding.why.is_empty() {
            about.push(finding.why.to_owned());
        }
        about.extend(finding.mend.iter().map(|mend| format!("mend: {mend}")));
        table.add_row([
            Cell::new(finding.severity).fg(color),
            Cell::new(finding.check).add_attribute(Attribute::Bold),
            Cell::new(about.join("\n")),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = format!(
        "{}: {} CPUs on {} cores, {}, Linux {}\n\n",
        host.cpu_model,
        host.cpus,
        host.physical_cores,
        if host.virtualisation == "none" { "not virtualised" } else { "virtualised" },
        host.kernel
    );
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    text.push_str(&format!(
        "\n{}: {} unfit, {} caution, {} fit\n",
        match worst(findings) {
            Severity::Fit => "fit to measure",
            Severity::Caution => "fit to measure, with caution",
            Severity::Unfit => "unfit to measure",
        },
        of(Severity::Unfit),
        of(Severity::Caution),
        of(Severity::Fit)
    ));
    text
}
