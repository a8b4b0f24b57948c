use std::fs;
use std::net::SocketAddr;

use rustix::net::{getpeername, sockopt::tcp_nodelay};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::server::Server;

/// Why a check does not pass.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server breaks its contract.
    Broken(String),
    /// This machine does not let us see.
    Unseen(String),
}

impl From<String> for Fault {
    fn from(detail: String) -> Self {
        Fault::Broken(detail)
    }
}

/// Whether the server's ends of a pair have TCP_NODELAY, read from the very sockets.
pub(super) fn no_delay(server: &Server) -> Result<(), Fault> {
    let (one, other) = server.pair()?;
    let unseen = |what: &str, error: &dyn std::fmt::Display| {
        Fault::Unseen(format!("the server's sockets cannot be looked at: {what}: {error}"))
    };
    let process =
        pidfd_open(server.pid(), PidfdFlags::empty()).map_err(|error| unseen("pidfd_open", &error))?;
    let folder = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    let entries = fs::read_dir(&folder).map_err(|error| unseen(&folder, &error))?;
    let wanted = [one.local_address()?, other.local_address()?];
    let mut found = 0;
    for entry in entries.flatten() {
        let is_socket =
            fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()).filter(|_| is_socket)
        else {
            continue;
        };
        let socket = match pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()) {
            Ok(socket) => socket,
            // It was closed since it was listed.
            Err(rustix::io::Errno::BADF) => continue,
            Err(error) => return Err(unseen("pidfd_getfd", &error)),
        };
        let Some(peer) = getpeername(&socket).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok())
        else {
            continue;
        };
        if wanted.iter().any(|end| end.port() == peer.port()) {
            found += 1;
            if !tcp_nodelay(&socket).map_err(|error| unseen("TCP_NODELAY", &error))? {
                return Err(Fault::Broken("a connection is without TCP_NODELAY".to_owned()));
            }
        }
    }
    one.leave();
    other.leave();
    if found < wanted.len() {
        // Another process of the server may hold them.
        return Err(unseen("its process", &"holds no socket of this connection"));
    }
    Ok(())
}
