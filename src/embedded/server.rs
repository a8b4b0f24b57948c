use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::faulty::{
    Altered, Delayed, DiesMidTrial, Doubled, Echoed, FloodsLog, Hangs, Missing, NegotiatesCompression,
    OpcodeChanged, PartnerMixedUp, Reordered, Stalls, Turn, Unasked,
};
use super::forward::MAX_MESSAGE;
use super::hook::{Honest, Hook};
use super::leftover;
use super::relay::{Relay, Wait};
use crate::exit::say;

/// No built-in server lives longer than this, so that a forgotten one goes away by itself.
const LIFE: Duration = Duration::from_secs(3_600);

/// Built-in servers that catalogues list.
const VISIBLE: [&str; 2] = ["relay", "relay-spin"];

/// Built-in servers that exist to prove the checks; a manifest may name them, no pattern finds them.
const HIDDEN: [&str; 20] = [
    "faulty-echoed",
    "faulty-echoed-late",
    "faulty-altered",
    "faulty-reordered",
    "faulty-missing",
    "faulty-doubled",
    "faulty-opcode-changed",
    "faulty-partner-mixed-up",
    "faulty-unasked",
    "faulty-never-listens",
    "faulty-dies-at-once",
    "faulty-dies-mid-trial",
    "faulty-hangs",
    "faulty-floods-log",
    "faulty-forks",
    "faulty-holds-port",
    "faulty-ignores-term",
    "faulty-negotiates-compression",
    "relay-delayed",
    "relay-stalls",
];

/// Names of the built-in servers that catalogues list.
pub fn visible_names() -> &'static [&'static str] {
    &VISIBLE
}

/// How long `relay-delayed` spends on each message, in nanoseconds: a slowdown of known size.
const DELAY: &str = "DELAY_NS";

/// The variable of the environment that a hidden server is set by, and that reaches it whoever starts it.
pub fn variable_of(name: &str) -> Option<&'static str> {
    (name == "relay-delayed").then_some(DELAY)
}

/// Whether a built-in server of this name exists, hidden or not.
pub fn is_built_in(name: &str) -> bool {
    VISIBLE.contains(&name) || HIDDEN.contains(&name)
}

/// Largest message that built-in servers relay, in bytes.
pub fn max_payload() -> u64 {
    MAX_MESSAGE
}

/// What keeps a built-in server from serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No such server.
    #[error("there is no built-in server `{0}`")]
    Unknown(String),
    /// The environment does not say what is needed.
    #[error("`{name}={value}` in the environment is not {wanted}")]
    Environment {
        /// Which variable.
        name: &'static str,
        /// Its value; empty when it is not set.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused something else.
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
}

/// Is the built-in server `name` until SIGTERM, told by `ROLE`, `HOST` and `PORT` in the environment.
pub fn serve(name: &str) -> Result<(), ServeError> {
    if name == leftover::LEFTOVER {
        return Ok(leftover::stay()?);
    }
    if !is_built_in(name) {
        return Err(ServeError::Unknown(name.to_owned()));
    }
    if name == "faulty-ignores-term" {
        signal_hook::flag::register(SIGTERM, Arc::new(AtomicBool::new(false)))?;
    } else {
        end_on(SIGTERM)?;
    }
    end_on(SIGINT)?;
    let address = address()?;
    match name {
        "faulty-dies-at-once" => {
            say("faulty server: dies at once, as it was asked to");
            std::process::exit(3);
        }
        "faulty-never-listens" => {
            std::thread::sleep(LIFE);
            return Ok(());
        }
        _ => {}
    }
    raise_descriptor_limit();
    let listener = TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })?;
    match name {
        "faulty-forks" => leftover::leave_behind()?,
        "faulty-holds-port" => {
            leftover::let_inherit(&listener)?;
            leftover::leave_behind()?;
        }
        _ => {}
    }
    relay(name, listener)
}

/// The relays, which differ in their hook and in how they wait.
fn relay(name: &str, listener: TcpListener) -> Result<(), ServeError> {
    let turn = || setting("FAULT_EVERY", 50).map(Turn::every);
    let after = || setting("FAULT_AFTER", 2_000);
    match name {
        "relay-spin" => run(listener, Honest, Wait::Spin),
        "faulty-echoed" => run(listener, Echoed { after: 0, seen: 0 }, Wait::Block),
        "faulty-echoed-late" => run(listener, Echoed { after: after()?, seen: 0 }, Wait::Block),
        "faulty-altered" => run(listener, Altered(turn()?), Wait::Block),
        "faulty-reordered" => run(listener, Reordered { turn: turn()?, held: None }, Wait::Block),
        "faulty-missing" => run(listener, Missing(turn()?), Wait::Block),
        "faulty-doubled" => run(listener, Doubled(turn()?), Wait::Block),
        "faulty-opcode-changed" => run(listener, OpcodeChanged(turn()?), Wait::Block),
        "faulty-partner-mixed-up" => {
            run(listener, PartnerMixedUp { turn: turn()?, pairs: Vec::new() }, Wait::Block)
        }
        "faulty-unasked" => run(listener, Unasked(turn()?), Wait::Block),
        "faulty-dies-mid-trial" => run(listener, DiesMidTrial(Turn::every(after()?)), Wait::Block),
        "faulty-hangs" => run(listener, Hangs(Turn::every(after()?)), Wait::Block),
        "faulty-floods-log" => run(listener, FloodsLog::start(), Wait::Block),
        "faulty-negotiates-compression" => run(listener, NegotiatesCompression, Wait::Block),
        "relay-delayed" => {
            let delay = Duration::from_nanos(setting(DELAY, 20_000)?);
            run(listener, Delayed(delay), Wait::Block)
        }
        "relay-stalls" => {
            let stalls = Stalls {
                every: Duration::from_millis(setting("STALL_EVERY_MS", 1_000)?),
                stall: Duration::from_millis(setting("STALL_MS", 100)?),
                last: Instant::now(),
            };
            run(listener, stalls, Wait::Block)
        }
        _ => run(listener, Honest, Wait::Block),
    }
}

fn run(listener: TcpListener, hook: impl Hook, wait: Wait) -> Result<(), ServeError> {
    Ok(Relay::new(listener, timer(LIFE)?, hook)?.run(wait)?)
}

/// The control on a thread of a test, for some seconds.
#[cfg(test)]
pub(crate) fn relay_for(listener: TcpListener, wait: Duration) -> Result<(), ServeError> {
    Ok(Relay::new(listener, timer(wait)?, Honest)?.run(Wait::Block)?)
}

/// Ends the process at once, and with success, when the signal arrives.
fn end_on(signal: i32) -> io::Result<()> {
    signal_hook::flag::register_conditional_shutdown(signal, 0, Arc::new(AtomicBool::new(true)))?;
    Ok(())
}

/// A descriptor that becomes readable after some time.
pub(super) fn timer(after: Duration) -> io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let once = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec::try_from(after).map_err(|_| io::ErrorKind::InvalidInput)?,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(timer)
}

fn address() -> Result<SocketAddr, ServeError> {
    let role = std::env::var("ROLE").unwrap_or_default();
    if role != "relay" {
        return Err(ServeError::Environment { name: "ROLE", value: role, wanted: "`relay`" });
    }
    let host: IpAddr = setting("HOST", IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    if !host.is_loopback() {
        let value = host.to_string();
        return Err(ServeError::Environment { name: "HOST", value, wanted: "a loopback address" });
    }
    let port = std::env::var("PORT").unwrap_or_default();
    match port.parse() {
        Ok(port) if port > 0 => Ok(SocketAddr::new(host, port)),
        _ => Err(ServeError::Environment { name: "PORT", value: port, wanted: "a TCP port" }),
    }
}

/// A setting of the environment, or its default.
fn setting<T: FromStr>(name: &'static str, default: T) -> Result<T, ServeError> {
    match std::env::var(name) {
        Err(_) => Ok(default),
        Ok(value) => value.parse().map_err(|_| ServeError::Environment {
            name,
            value,
            wanted: if name == "HOST" { "an IP address" } else { "a number" },
        }),
    }
}

/// As many connections as the system allows. Where it refuses, the limit that is there applies.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
