//! Compares two combinations of client and server, in alternation on the same cores, and prints ratios with intervals.
//! Nothing absolute: on a shared machine one figure alone moves by more than what is looked for.
//!
//! A client is `native`, `tungstenite` or a command that prints a line of JSON with `rate` (per second), `p50` and
//! `p99`; a server is a built-in one, e.g. `relay-spin`, or a command that listens on 127.0.0.1. Commands are split
//! at spaces and may hold `{port}`, `{kind}`, `{payload}`, `{connections}`, `{warmup}`, `{rounds}` and `{trials}`,
//! where `{connections}` stands for pairs of connections. Run `cargo bench --bench instrument -- --help`.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use runner::stats::{decode_histogram, median};
use runner::workload::protocol::{Batch, ClientEvent, ClientJob};
use runner::workload::{BUILT_IN_CLIENTS, Extent, Kind, Mask, Opcode, Params, Wait};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const RUNNER: &str = env!("CARGO_BIN_EXE_runner");

/// How long one side of one pair may take.
const PATIENCE: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error>;

/// Compare two combinations of client and server by paired ratios
#[derive(Parser)]
struct Options {
    /// The client whose figures are above the line of the ratio
    #[arg(long, default_value = "native", value_name = "NAME|COMMAND")]
    a_client: String,
    /// The client below it
    #[arg(long, default_value = "tungstenite", value_name = "NAME|COMMAND")]
    b_client: String,
    /// The server of A
    #[arg(long, default_value = "relay-spin", value_name = "NAME|COMMAND")]
    a_server: String,
    /// The server of B; the same as A's when not given, and then one process for the whole comparison
    #[arg(long, value_name = "NAME|COMMAND")]
    b_server: Option<String>,
    /// pingpong or load
    #[arg(long, default_value = "pingpong")]
    kind: String,
    /// Payload, in bytes
    #[arg(long, default_value_t = 16)]
    payload: u64,
    /// Pairs of connections; 1 in a ping-pong, else 64 when not given
    #[arg(long)]
    connections: Option<u32>,
    /// Messages in flight on each pair (built-in clients only)
    #[arg(long, default_value_t = 1)]
    in_flight: u32,
    /// Round trips before the trials
    #[arg(long, default_value_t = 10_000)]
    warmup: u64,
    /// Round trips of each trial
    #[arg(long, default_value_t = 30_000)]
    rounds: u64,
    /// Trials; a side's figure is their median
    #[arg(long, default_value_t = 3)]
    trials: u32,
    /// Paired comparisons; which side is first alternates
    #[arg(long, default_value_t = 9)]
    pairs: u32,
    /// Core of the servers
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the clients
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    /// Print each pair as it is measured
    #[arg(long)]
    verbose: bool,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// What one side achieved in one pair.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    p50: f64,
    p99: f64,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let b_server = options.b_server.as_ref().unwrap_or(&options.a_server);
    let shared = *b_server == options.a_server;
    let cores = sched_getaffinity(None)?;
    println!("A: {} on {}", options.a_client, options.a_server);
    println!("B: {} on {b_server}", options.b_client);
    let server = if shared { Some(Server::start(&options.a_server, &options)?) } else { None };
    let measure = |client: &str, command: &str| -> Result<Figures, Failure> {
        let own = if shared { None } else { Some(Server::start(command, &options)?) };
        let port = own.as_ref().or(server.as_ref()).map(|server| server.port).ok_or("no server")?;
        pin(options.client_core)?;
        if BUILT_IN_CLIENTS.contains(&client) {
            measure_built_in(client, port, &options)
        } else {
            measure_program(client, port, &options)
        }
    };
    let mut measured = Vec::new();
    for pair in 0..options.pairs {
        // A B, B A, A B …: a drift of the machine favours neither.
        let (a, b) = if pair % 2 == 0 {
            let a = measure(&options.a_client, &options.a_server)?;
            (a, measure(&options.b_client, b_server)?)
        } else {
            let b = measure(&options.b_client, b_server)?;
            (measure(&options.a_client, &options.a_server)?, b)
        };
        if options.verbose {
            println!(
                "pair {pair}: rate {:.3} p50 {:.3} p99 {:.3}",
                a.rate / b.rate,
                a.p50 / b.p50,
                a.p99 / b.p99
            );
        }
        measured.push((a, b));
    }
    sched_setaffinity(None, &cores)?;
    let connections = options.connections();
    println!(
        "{}, {} B, {connections} pair(s) of connections; {} paired runs",
        options.kind, options.payload, options.pairs
    );
    println!("        A / B   interval           better in");
    report("rate", true, &measured, |figures| figures.rate)?;
    report("p50", false, &measured, |figures| figures.p50)?;
    report("p99", false, &measured, |figures| figures.p99)
}

/// Prints the median of the paired ratios of one metric, with its interval.
fn report(
    name: &str,
    more_is_better: bool,
    measured: &[(Figures, Figures)],
    metric: impl Fn(&Figures) -> f64,
) -> Result<(), Failure> {
    let mut ratios: Vec<f64> = measured.iter().map(|(a, b)| metric(a) / metric(b)).collect();
    ratios.sort_by(f64::total_cmp);
    let middle = median(&ratios).ok_or("nothing was measured")?;
    let (rank, confidence) = median_interval(ratios.len(), 0.95);
    let better = ratios.iter().filter(|ratio| (**ratio > 1.0) == more_is_better).count();
    println!(
        "{name:<5}   {middle:.3}   {:.3} to {:.3}     {better} of {}   ({:.1} % interval)",
        ratios[rank],
        ratios[ratios.len() - 1 - rank],
        ratios.len(),
        confidence * 100.0
    );
    Ok(())
}

/// The interval of a median that assumes nothing of the distribution (the sign test, inverted: Conover, Practical
/// Nonparametric Statistics, section 3.2): from the value of this rank, from 0, to the one as far from the other end;
/// and its confidence. The narrowest of at least `wanted`, or else the whole range.
fn median_interval(n: usize, wanted: f64) -> (usize, f64) {
    let (mut rank, mut confidence) = (0, 0.0);
    // Of n fair coins, the probability of at most `i` heads.
    let (mut term, mut tail) = (0.5f64.powi(n as i32), 0.0);
    for i in 0..n.div_ceil(2) {
        tail += term;
        term *= (n - i) as f64 / (i + 1) as f64;
        let covered = 1.0 - 2.0 * tail;
        if i > 0 && covered < wanted {
            break;
        }
        (rank, confidence) = (i, covered);
    }
    (rank, confidence.max(0.0))
}

impl Options {
    fn connections(&self) -> u32 {
        if self.kind == "pingpong" { 1 } else { self.connections.unwrap_or(64) }
    }

    /// The words of a command, filled in.
    fn fill_in(&self, command: &str, port: u16) -> Vec<String> {
        command
            .replace("{port}", &port.to_string())
            .replace("{kind}", &self.kind)
            .replace("{payload}", &self.payload.to_string())
            .replace("{connections}", &self.connections().to_string())
            .replace("{warmup}", &self.warmup.to_string())
            .replace("{rounds}", &self.rounds.to_string())
            .replace("{trials}", &self.trials.to_string())
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }
}

/// A server process, ended when dropped.
struct Server {
    port: u16,
    child: Child,
}

impl Server {
    fn start(command: &str, options: &Options) -> Result<Self, Failure> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        pin(options.server_core)?;
        let words = match command.contains(' ') || command.contains('/') {
            true => options.fill_in(command, port),
            false => vec![RUNNER.to_owned(), "serve".to_owned(), command.to_owned()],
        };
        let child = Command::new(&words[0])
            .args(&words[1..])
            .envs([("ROLE", "relay"), ("HOST", "127.0.0.1"), ("PORT", &port.to_string())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("`{command}` does not start: {error}"))?;
        let server = Server { port, child };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err(format!("`{command}` does not listen on port {port}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // Until it has seen that the connection just made is gone.
        std::thread::sleep(Duration::from_millis(20));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts this thread on a core; what it starts inherits that.
fn pin(core: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| format!("core {core} cannot be used: {error}").into())
}

/// Runs a client of another kind, which prints its medians.
fn measure_program(command: &str, port: u16, options: &Options) -> Result<Figures, Failure> {
    let words = options.fill_in(command, port);
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{command}` does not start: {error}"))?;
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().ok_or_else(|| {
        format!("`{}` printed nothing; it said: {}", words.join(" "), String::from_utf8_lossy(&output.stderr))
    })?;
    let printed: serde_json::Value = serde_json::from_str(last)?;
    let figure = |name: &str| {
        printed[name].as_f64().ok_or_else(|| format!("`{}` printed no `{name}`", words.join(" ")))
    };
    Ok(Figures { rate: figure("rate")?, p50: figure("p50")? * 1e3, p99: figure("p99")? * 1e3 })
}

/// Runs a built-in client by its protocol.
fn measure_built_in(client: &str, port: u16, options: &Options) -> Result<Figures, Failure> {
    let kind = match options.kind.as_str() {
        "pingpong" => Kind::Pingpong,
        "load" => Kind::Load,
        other => return Err(format!("`{other}` is not a kind of workload for this").into()),
    };
    let job = ClientJob {
        client: client.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
        params: Params {
            kind,
            payload: options.payload,
            opcode: Opcode::Binary,
            pairs: options.connections(),
            in_flight: options.in_flight,
            rate_per_s: None,
            threads: 1,
            warmup: Extent::Rounds(options.warmup),
            trial: Extent::Rounds(options.rounds),
            trials: options.trials,
            mask: Mask::Zero,
            wait: Wait::Spin,
        },
        cores: vec![options.client_core as u32],
        stall_ns: 5_000_000_000,
    };
    let mut child =
        Command::new(RUNNER).arg("client").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let batches = talk(&mut child, &job);
    // It ends by itself, unless the talk failed.
    if batches.is_err() {
        let _ = child.kill();
    }
    child.wait()?;
    figures_of(&batches?)
}

/// The trials of a client that is told to go on until it is done.
fn talk(child: &mut Child, job: &ClientJob) -> Result<Vec<Batch>, Failure> {
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    writeln!(stdin, "{}", serde_json::to_string(job)?)?;
    let stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
    let (begun, mut batches) = (Instant::now(), Vec::new());
    for line in stdout.lines() {
        match serde_json::from_str(&line?)? {
            ClientEvent::Trial { batch, .. } => batches.push(batch),
            ClientEvent::Done { .. } => return Ok(batches),
            ClientEvent::Fault { detail, .. } => return Err(detail.into()),
            _ => {}
        }
        if begun.elapsed() > PATIENCE {
            return Err("the client takes too long".into());
        }
        writeln!(stdin)?;
    }
    Err("the client ended before it was done".into())
}

/// The median over the trials of each figure.
fn figures_of(batches: &[Batch]) -> Result<Figures, Failure> {
    let (mut rates, mut p50s, mut p99s) = (Vec::new(), Vec::new(), Vec::new());
    for batch in batches {
        rates.push(batch.rounds as f64 / batch.elapsed_ns as f64 * 1e9);
        let latencies = decode_histogram(batch.latency.as_ref().ok_or("a trial without latencies")?)?;
        p50s.push(latencies.value_at_quantile(0.50) as f64);
        p99s.push(latencies.value_at_quantile(0.99) as f64);
    }
    let figure = |values: &[f64]| median(values).ok_or("no trial");
    Ok(Figures { rate: figure(&rates)?, p50: figure(&p50s)?, p99: figure(&p99s)? })
}
