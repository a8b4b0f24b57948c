use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::clock::clock_facts;
use super::connection::Connection;
use super::engine::Engine;
use super::judge::Fault;
use super::library::Library;
use super::native::Native;
use super::payload::{HEAD, MAX_PAIRS};
use super::protocol::{ClientEvent, ClientJob};
use super::worker::Stop;
use super::{Extent, Kind};
use crate::record::Counters;

/// Slices of the warm-up that are told apart.
const WARM_UP_SLICES: u32 = 10;

/// The largest payload, in bytes. Twice as much must fit into a `u32` with its header.
const LARGEST_PAYLOAD: u64 = 1 << 30;

/// The names of the built-in load generators.
pub const BUILT_IN_CLIENTS: [&str; 2] = ["native", "tungstenite"];

/// The other side of the protocol, as a session sees it.
pub struct Stage<'a> {
    /// Takes an event; false when nobody listens any more.
    pub emit: &'a mut dyn FnMut(ClientEvent) -> bool,
    /// Waits for the word to go on; false when none will come.
    pub proceed: &'a mut dyn FnMut() -> bool,
    /// Set from outside when the session is to end.
    pub halt: Arc<AtomicBool>,
}

/// Does everything that a job asks for, with the load generator that it names. Whatever goes wrong is an event.
pub fn run_session<'a>(job: &'a ClientJob, stage: Stage<'a>) {
    match job.client.as_str() {
        "native" => Session::<Native>::run(job, stage),
        "tungstenite" => Session::<Library>::run(job, stage),
        other => {
            let [first, second] = BUILT_IN_CLIENTS;
            let detail =
                format!("`{other}` is not a built-in client; the built-in ones are `{first}` and `{second}`");
            (stage.emit)(ClientEvent::Fault { reason: None, detail, counters: Counters::default() });
        }
    }
}

struct Session<'a, C: Connection> {
    job: &'a ClientJob,
    stage: Stage<'a>,
    engine: Option<Engine<C>>,
}

impl<'a, C: Connection> Session<'a, C> {
    fn run(job: &'a ClientJob, stage: Stage<'a>) {
        let mut session: Session<'a, C> = Session { job, stage, engine: None };
        let Err(stop) = session.phases() else { return };
        let fault = match (&mut session.engine, stop) {
            (Some(engine), stop) => engine.judge(stop),
            (None, Stop::Fault(fault)) => Some(*fault),
            (None, Stop::Halted | Stop::Trouble(_)) => None,
        };
        if let Some(fault) = fault {
            let mut counters = session.engine.as_ref().map(Engine::counters).unwrap_or_default();
            counters.echoed += fault.found.echoed;
            counters.altered += fault.found.altered;
            counters.reordered += fault.found.reordered;
            counters.missing += fault.found.missing;
            counters.doubled += fault.found.doubled;
            counters.opcode_changed += fault.found.opcode_changed;
            let event = ClientEvent::Fault { reason: fault.reason, detail: fault.detail, counters };
            (session.stage.emit)(event);
        }
    }

    fn phases(&mut self) -> Result<(), Stop> {
        let server = check(self.job)?;
        let params = &self.job.params;
        let clock = clock_facts();
        let halt = self.stage.halt.clone();
        let (engine, connected) = Engine::<C>::connect(self.job, server, &clock, halt)?;
        let engine = self.engine.insert(engine);
        let mut end_phase = |event| {
            if (self.stage.emit)(event) && (self.stage.proceed)() { Ok(()) } else { Err(Stop::Halted) }
        };
        end_phase(ClientEvent::Ready {
            versions: C::versions(),
            connections: connected.connections,
            connect_ns: connected.connect_ns,
            extensions: connected.extensions,
            clock: Some(clock),
        })?;
        let begun = Instant::now();
        engine.verify()?;
        end_phase(ClientEvent::Verified { elapsed_ns: begun.elapsed().as_nanos() as u64 })?;
        end_phase(ClientEvent::Warm { slices: engine.batch(params.warmup, WARM_UP_SLICES)? })?;
        for index in 0..params.trials {
            let mut batches = engine.batch(params.trial, 1)?;
            let batch = batches.pop().expect("a batch of one slice has one");
            end_phase(ClientEvent::Trial { index, batch })?;
        }
        engine.finish()?;
        (self.stage.emit)(ClientEvent::Done { counters: engine.counters() });
        Ok(())
    }
}

/// Refuses what cannot be done; returns the server's address.
fn check(job: &ClientJob) -> Result<SocketAddrV4, Fault> {
    let params = &job.params;
    let refuse = |detail: String| Err(Fault::failure(detail));
    let host = if job.host == "localhost" { Ok(Ipv4Addr::LOCALHOST) } else { job.host.parse() };
    let Some(host) = host.ok().filter(Ipv4Addr::is_loopback) else {
        return refuse(format!("the host `{}` is not an address of 127.0.0.0/8", job.host));
    };
    if !(HEAD as u64..=LARGEST_PAYLOAD).contains(&params.payload) {
        return refuse(format!(
            "a payload of {} bytes is not within {HEAD} to {LARGEST_PAYLOAD}",
            params.payload
        ));
    }
    if !(1..=MAX_PAIRS).contains(&params.pairs) {
        return refuse(format!("{} pairs are not within 1 to {MAX_PAIRS}", params.pairs));
    }
    if params.threads == 0 || params.in_flight == 0 {
        return refuse("there must be at least one thread and one message in flight".to_owned());
    }
    if params.kind == Kind::Pingpong && (params.pairs, params.in_flight, params.threads) != (1, 1, 1) {
        return refuse("a ping-pong has one pair, one message in flight and one thread".to_owned());
    }
    if params.kind == Kind::Pingpong && params.rate_per_s.is_some() || params.rate_per_s == Some(0) {
        return refuse("a rate is above zero, and only of a load".to_owned());
    }
    if matches!(params.trial, Extent::Rounds(0) | Extent::DurationNs(0)) {
        return refuse("a trial of nothing measures nothing".to_owned());
    }
    Ok(SocketAddrV4::new(host, job.port))
}
