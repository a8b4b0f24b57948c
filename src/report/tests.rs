//! Every format over made-up runs.

use super::test_support::{Made, meta, ns};
use super::{
    Beside, Format, LimitedBy, PublishedMetric, Reference, Style, Summary, ordered_tiers, published, render,
};
use crate::plan::CellId;
use crate::record::store::{ExcludedCell, RunMeta};
use crate::record::{Outcome, Record, Stage, VoidReason};

fn void(reason: VoidReason, detail: &str) -> Outcome {
    Outcome::Void { reason, detail: detail.to_owned() }
}

/// A run like a quick one: two workloads, five servers, everything that can go wrong once.
fn full() -> (RunMeta, Vec<Record>) {
    let slow = [ns(33), ns(34), ns(56)];
    let pingpong = [
        (Made::pingpong("relay"), [32.1e3, 29.7e3, 33.9e3]),
        (
            Made::pingpong("relay-spin").server_cores(1.0).latency(&[ns(14), ns(15), ns(27)]),
            [61.8e3, 46.9e3, 62.2e3],
        ),
        (Made::pingpong("wsrelay@native"), [34.9e3, 31.7e3, 39.0e3]),
        (Made::pingpong("ws@node-24").latency(&slow).server_cores(0.82), [28.6e3, 28.0e3, 29.6e3]),
        (Made::pingpong("bun-serve@bun"), [34.0e3, 29.3e3, 79.9e3]),
    ];
    let load = [
        (Made::load("relay").server_cores(0.97).busy(0.99), [78.9e3, 69.9e3, 95.6e3]),
        (Made::load("relay-spin").server_cores(1.0).busy(0.99), [93.6e3, 86.9e3, 100.3e3]),
        (
            Made::load("wsrelay@native")
                .server_cores(0.80)
                .busy(0.99)
                .flag("client-limited", "client 99 % busy, server 80 %"),
            [84.3e3, 76.1e3, 85.6e3],
        ),
        (Made::load("ws@node-24").server_cores(0.998).busy(0.5), [39.8e3, 36.9e3, 52.9e3]),
    ];
    let mut ids = Vec::new();
    let mut records = Vec::new();
    for (made, rates) in pingpong.iter().chain(&load) {
        ids.push(made.id());
        records.extend(made.passes(rates));
    }
    // One pass of it is void, another failed.
    let bun = Made::load("bun-serve@bun").server_cores(0.99);
    ids.push(bun.id());
    records.extend(bun.passes(&[83.1e3]));
    records.push(
        bun.clone().outcome(void(VoidReason::CpuSteal, "the hypervisor took 12 % of core 0")).record(2),
    );
    let failed = Outcome::Failed {
        stage: Stage::Start,
        message: "the server ended at once with code 1".to_owned(),
        log_tail: vec!["starting".to_owned(), "error: address in use".to_owned()],
    };
    records.push(bun.outcome(failed).record(3));

    let mut meta = meta(3, &ids);
    let skipped = CellId::new("load-16", "ws@deno", "native");
    meta.cells.push(crate::record::store::PlannedCell {
        id: skipped,
        content_id: None,
        skipped: Some("`npm` was not found in PATH".to_owned()),
    });
    meta.excluded.push(ExcludedCell {
        id: CellId::new("pingpong-16", "ws@deno", "native"),
        reason: "not compared here".to_owned(),
    });
    (meta, records)
}

fn shown(summary: &Summary, width: usize) -> String {
    render(summary, Format::Table, &Style { color: false, width })
}

#[test]
fn a_whole_run_in_every_format() {
    let (meta, records) = full();
    let summary = Summary::of(&meta, records);
    let style = Style::default();
    insta::assert_snapshot!("full_table", render(&summary, Format::Table, &style));
    insta::assert_snapshot!("full_markdown", render(&summary, Format::Markdown, &style));
    insta::assert_snapshot!("full_csv", render(&summary, Format::Csv, &style));
    insta::assert_snapshot!("full_json", render(&summary, Format::Json, &style));
    insta::assert_snapshot!(
        "full_color",
        render(&summary, Format::Table, &Style { color: true, width: 100 }).replace('\u{1b}', "ESC")
    );
}

#[test]
fn the_order_of_records_does_not_matter() {
    let (meta, mut records) = full();
    let forward = Summary::of(&meta, records.clone());
    records.reverse();
    let backward = Summary::of(&meta, records);
    assert_eq!(forward, backward);
}

#[test]
fn no_line_of_the_default_table_is_wider_than_a_hundred_columns() {
    let (meta, records) = full();
    for line in shown(&Summary::of(&meta, records), 100).lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_narrow_terminal_loses_columns_and_says_which() {
    let (meta, records) = full();
    let summary = Summary::of(&meta, records);
    insta::assert_snapshot!("narrow_60", shown(&summary, 60));
    for width in [0, 1, 2, 10, 30] {
        let text = shown(&summary, width);
        assert!(text.contains("ws@node-24") && text.contains("28.6 (28.0–29.6)"), "{text}");
    }
}

#[test]
fn a_single_pass_orders_nothing_and_has_no_range() {
    let cells = [Made::pingpong("relay"), Made::pingpong("ws@node-24")];
    let records = cells.iter().zip([32e3, 20e3]).flat_map(|(made, rate)| made.passes(&[rate]));
    let summary = Summary::of(&meta(1, &[cells[0].id(), cells[1].id()]), records);
    assert!(ordered_tiers(&summary.groups[0].cells).is_empty());
    insta::assert_snapshot!("single_pass", shown(&summary, 100));
}

#[test]
fn without_a_control_there_is_no_ratio() {
    let made = Made::pingpong("ws@node-24");
    let mut meta = meta(3, &[made.id()]);
    meta.control = None;
    let summary = Summary::of(&meta, made.passes(&[28e3, 29e3, 30e3]));
    assert_eq!(summary.groups[0].cells[0].ratio, None);
    insta::assert_snapshot!("no_control", shown(&summary, 100));
}

#[test]
fn a_control_without_figures_is_said() {
    let (relay, node) = (Made::pingpong("relay"), Made::pingpong("ws@node-24"));
    let lost = relay.clone().outcome(void(VoidReason::LostMessages, "1 message did not arrive within 5 s"));
    let records = (1..=3).map(|pass| lost.record(pass)).chain(node.passes(&[28e3, 29e3, 30e3]));
    let summary = Summary::of(&meta(3, &[relay.id(), node.id()]), records);
    assert_eq!(summary.groups[0].reference, None);
    insta::assert_snapshot!("void_control", shown(&summary, 100));
}

#[test]
fn ratios_pair_what_was_measured_in_the_same_pass() {
    let (relay, node) = (Made::pingpong("relay"), Made::pingpong("ws@node-24"));
    // The machine doubles its speed in pass 2; node is half as fast as the relay in each.
    let records = relay.passes(&[20e3, 40e3, 20e3]).into_iter().chain(node.passes(&[10e3, 20e3, 10e3]));
    let summary = Summary::of(&meta(3, &[relay.id(), node.id()]), records);
    let ratio = summary.groups[0].cells.iter().find(|cell| cell.id == node.id()).unwrap().ratio.unwrap();
    assert!((ratio.min - 0.5).abs() < 1e-3 && (ratio.max - 0.5).abs() < 1e-3, "{ratio:?}");
}

#[test]
fn a_group_without_the_controls_server_is_compared_with_the_control() {
    let (relay, node) = (Made::pingpong("relay"), Made::load("ws@node-24").client("ws@bun"));
    let records = relay.passes(&[30e3; 3]).into_iter().chain(node.passes(&[60e3; 3]));
    let summary = Summary::of(&meta(3, &[relay.id(), node.id()]), records);
    let group = &summary.groups[1];
    assert_eq!(group.reference, Some(relay.id()));
    assert!((group.cells[0].ratio.unwrap().median - 2.0).abs() < 1e-3);
    assert!(shown(&summary, 100).contains("x control (range)"));
}

#[test]
fn nothing_at_all_is_still_a_report() {
    insta::assert_snapshot!("no_cells", shown(&Summary::of(&meta(3, &[]), []), 100));
    let mut killed = meta(3, &[Made::pingpong("relay").id(), Made::load("relay").id()]);
    killed.finished_at = None;
    let summary = Summary::of(&killed, []);
    assert_eq!(summary.coverage.missing, 6);
    insta::assert_snapshot!("no_records", shown(&summary, 100));
    for format in [Format::Markdown, Format::Csv, Format::Json] {
        assert!(render(&summary, format, &Style::default()).ends_with('\n'));
    }
}

#[test]
fn names_of_any_script_keep_the_columns_aligned() {
    let cells = [
        Made::pingpong("relay"),
        Made::pingpong("größe@nodé-24"),
        Made::pingpong("サーバ@bun"),
        Made::pingpong("a|b*c@x"),
    ];
    let rates = [[30e3; 3], [20e3; 3], [10e3; 3], [5e3; 3]];
    let records: Vec<Record> =
        cells.iter().zip(&rates).flat_map(|(made, rates)| made.passes(rates)).collect();
    let ids: Vec<CellId> = cells.iter().map(Made::id).collect();
    let summary = Summary::of(&meta(3, &ids), records);
    insta::assert_snapshot!("unicode_table", shown(&summary, 100));
    insta::assert_snapshot!("unicode_markdown", render(&summary, Format::Markdown, &Style::default()));
}

#[test]
fn trials_that_fall_into_two_modes_are_marked_though_the_passes_agree() {
    let made = Made::pingpong("bun-serve@bun");
    let records = (1..=3).map(|pass| made.clone().rates(&[34e3, 33e3, 34e3, 79e3, 35e3]).record(pass));
    let summary = Summary::of(&meta(3, &[made.id()]), records);
    let cell = &summary.groups[0].cells[0];
    assert!(cell.bimodal_passes.is_none());
    assert_eq!(cell.bimodal_trials.map(|clusters| clusters.high_n), Some(3));
    assert!(shown(&summary, 100).contains("has two modes within its passes: 12 trials at"));
}

#[test]
fn a_cell_of_a_js_client_says_that_the_client_was_the_limit() {
    let made = Made::load("relay").client("ws@node-24").no_polls().client_cores(0.99).server_cores(0.4);
    let summary = Summary::of(&meta(3, &[made.id()]), made.passes(&[20e3; 3]));
    assert_eq!(summary.groups[0].cells[0].limited_by, Some(LimitedBy::Client));
    assert!(shown(&summary, 100).contains("a lower bound"));
}

#[test]
fn a_second_record_of_one_pass_is_left_out_and_noted() {
    let made = Made::pingpong("relay");
    let records = [made.record(1), made.clone().rates(&[99e3]).record(1)];
    let summary = Summary::of(&meta(1, &[made.id()]), records);
    assert_eq!(summary.groups[0].cells[0].rate_per_s.map(|rate| rate.n), Some(1));
    assert_eq!(summary.notes, ["pingpong-16/relay/native pass 1: a second record of it was left out"]);
}

#[test]
fn json_is_read_back_as_it_was() {
    let (meta, records) = full();
    let summary = Summary::of(&meta, records);
    let text = render(&summary, Format::Json, &Style::default());
    let again: Summary = serde_json::from_str(&text).unwrap();
    assert_eq!(again.groups.len(), summary.groups.len());
    assert_eq!(
        render(&again, Format::Table, &Style::default()),
        render(&summary, Format::Table, &Style::default())
    );
}

/// The published comparison in small: three servers, a polling client and two of JavaScript.
fn by_clients() -> (RunMeta, Vec<Record>) {
    let native = [
        ("relay", [54e3, 53e3, 54e3]),
        ("ws@node-24", [44e3, 44e3, 44e3]),
        ("uws@node-24", [49e3, 49e3, 49.4e3]),
    ];
    let node = [
        ("relay", [21e3, 21e3, 21.4e3]),
        ("ws@node-24", [20e3, 20e3, 20e3]),
        ("uws@node-24", [22e3, 22e3, 22e3]),
    ];
    let bun = [("ws@node-24", [34e3, 32e3, 34e3]), ("uws@node-24", [39e3, 29e3, 39e3])];
    let mut ids = Vec::new();
    let mut records = Vec::new();
    let mut add = |made: Made, rates: &[f64]| {
        ids.push(made.id());
        records.extend(made.passes(rates));
    };
    for (server, rates) in native {
        add(Made::pingpong(server), &rates);
    }
    for (server, rates) in node {
        add(Made::pingpong(server).client("ws@node-24").no_polls().client_cores(0.99), &rates);
    }
    for (server, rates) in bun {
        add(Made::pingpong(server).client("ws@bun").no_polls().client_cores(0.8), &rates);
    }
    let lost =
        Made::pingpong("relay").client("ws@bun").outcome(void(VoidReason::Echoed, "1 message came back"));
    ids.push(lost.id());
    records.extend((1..=3).map(|pass| lost.record(pass)));
    (meta(3, &ids), records)
}

#[test]
fn several_clients_make_a_matrix_that_says_what_they_hide() {
    let (meta, records) = by_clients();
    let summary = Summary::of(&meta, records);
    insta::assert_snapshot!("matrix_table", shown(&summary, 100));
    insta::assert_snapshot!("matrix_markdown", render(&summary, Format::Markdown, &Style::default()));
    let colored = render(&summary, Format::Table, &Style { color: true, width: 100 });
    assert!(colored.contains("38;5;34m54 (53–54)"), "{colored:?}");
}

#[test]
fn our_figures_are_laid_beside_published_ones() {
    let (meta, mut records) = by_clients();
    let c_relay = Made::pingpong("wsrelay@native");
    records.extend(c_relay.passes(&[50e3, 48e3, 52e3]));
    // Faster than uws here, and beyond doubt; the other way round as published.
    records.extend(Made::pingpong("bun-serve@bun").passes(&[79e3, 78e3, 80e3]));
    let summary = Summary::of(&meta, records);
    let beside = Beside::of(&summary, "lemire-2026", &published("lemire-2026").unwrap());
    assert_eq!(beside.columns.len(), 3 + 2);
    let rate = beside
        .columns
        .iter()
        .find(|column| column.key.metric == PublishedMetric::Rate && column.key.client == "native")
        .unwrap();
    assert_eq!(rate.reference, Reference::Server("wsrelay@native".to_owned()));
    // 54 C, 49 uws, 44 ws, 37 Bun as published; 79 Bun, 50 C, 49 uws, 44 ws here: 3 of 6 pairs are turned.
    assert_eq!((rate.differs.len(), rate.tau_b), (3, Some(0.0)));
    assert!(rate.differs.iter().all(|pair| pair.better_here == "bun-serve@bun" && pair.parted_here));
    insta::assert_snapshot!("beside_table", beside.render(Format::Table, &Style::default()));
    insta::assert_snapshot!("beside_markdown", beside.render(Format::Markdown, &Style::default()));
    insta::assert_snapshot!("beside_csv", beside.render(Format::Csv, &Style::default()));
    let again: Beside = serde_json::from_str(&beside.render(Format::Json, &Style::default())).unwrap();
    assert_eq!(again.columns.len(), beside.columns.len());
}

#[test]
fn a_run_with_nothing_in_common_says_so() {
    let summary = Summary::of(&meta(1, &[]), []);
    let beside = Beside::of(&summary, "lemire-2026", &published("lemire-2026").unwrap());
    let text = beside.render(Format::Table, &Style::default());
    assert!(text.contains("have no two servers of one column in common"), "{text}");
    assert_eq!(beside.absent.len(), 15);
}
