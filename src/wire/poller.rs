use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io;

/// Sockets that one wait reports at most.
const BATCH: usize = 256;

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Readable,
    /// Something to read, or room to write.
    ReadableOrWritable,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Interest::Readable => epoll::EventFlags::IN,
            Interest::ReadableOrWritable => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        }
    }
}

/// Waits for many sockets at once (epoll, level-triggered). Each socket has a token of the caller's choice.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<u64>,
}

impl Poller {
    /// One that watches nothing yet.
    ///
    /// # Errors
    /// When the kernel refuses another descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, ready: Vec::with_capacity(BATCH) })
    }

    /// Watches another socket.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn add(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), interest.flags())
    }

    /// Watches a socket for something else from now on.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn change(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(token), interest.flags())
    }

    /// Waits up to `timeout` (zero asks and returns at once) and returns how many sockets [`Poller::token`] knows.
    ///
    /// # Errors
    /// Never for a signal: that counts as nothing ready.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<usize> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs().min(3600) as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        self.ready.clear();
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; BATCH];
        match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok((ready, _)) => self.ready.extend(ready.iter().map(|event| event.data.u64())),
            Err(io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(self.ready.len())
    }

    /// The token of the `index`-th socket that the last wait found.
    pub fn token(&self, index: usize) -> u64 {
        self.ready[index]
    }
}
