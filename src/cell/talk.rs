use std::io;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

use crate::workload::protocol::{ClientEvent, ClientJob};

/// The two pipes to a client that speaks [`crate::workload::protocol`].
#[derive(Debug)]
pub(super) struct Talk {
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

/// What a client said.
#[derive(Debug)]
pub(super) enum Said {
    /// A line of the protocol.
    Event(Box<ClientEvent>),
    /// A line that is none.
    Garbage(String),
    /// Nothing more: it has closed its stdout.
    Nothing,
}

impl Talk {
    pub(super) fn new(to: ChildStdin, from: ChildStdout) -> Self {
        Talk { to, from: BufReader::new(from).lines() }
    }

    /// Tells the client its job.
    pub(super) async fn assign(&mut self, job: &ClientJob) -> io::Result<()> {
        let mut line = serde_json::to_string(job)?;
        line.push('\n');
        self.to.write_all(line.as_bytes()).await
    }

    /// Lets the client go on to its next phase.
    pub(super) async fn go_on(&mut self) -> io::Result<()> {
        self.to.write_all(b"go\n").await
    }

    /// The next line.
    pub(super) async fn next(&mut self) -> io::Result<Said> {
        Ok(match self.from.next_line().await? {
            None => Said::Nothing,
            Some(line) => match serde_json::from_str(&line) {
                Ok(event) => Said::Event(Box::new(event)),
                Err(_) => Said::Garbage(line.chars().take(200).collect()),
            },
        })
    }
}
