use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// First port that we take, above those of well-known services.
const FIRST: u16 = 20_000;
/// Where the kernel's own choice begins when it does not say.
const EPHEMERAL: u16 = 32_768;
/// State of a socket that listens, in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// A port of 127.0.0.1 on which nothing listens, below those that the kernel gives to clients, so that no connection
/// of our own can take it before the server does.
pub(super) fn free_port() -> io::Result<u16> {
    let end = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse::<u16>().ok())
        .filter(|low| *low > FIRST + 100)
        .unwrap_or(EPHEMERAL);
    let count = end - FIRST;
    // Neighbouring cells and runs start at different places, so that a socket that lingers is not met again.
    let start = (std::process::id() as u16).wrapping_mul(97) % count;
    (0..count.min(500))
        .map(|step| FIRST + (start + step) % count)
        .find(|port| is_free(*port))
        .ok_or_else(|| io::Error::new(io::ErrorKind::AddrInUse, "500 ports in turn are in use"))
}

/// Whether a server could listen there. The standard library sets SO_REUSEADDR: only a socket that listens is in the
/// way, not one that lingers.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Inodes of the sockets that listen on a port of 127.0.0.1 or of all addresses.
fn listening_inodes(port: u16) -> Vec<String> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| inodes_in(&table, port))
        .collect()
}

fn inodes_in(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields.len() > 9 && fields[1].ends_with(&suffix) && fields[3] == LISTEN)
                .then(|| fields[9].to_owned())
        })
        .collect()
}

/// Which of these processes listens on a port.
pub(super) fn listener_among(port: u16, pids: impl IntoIterator<Item = i32>) -> Option<i32> {
    let links: Vec<String> = listening_inodes(port).iter().map(|inode| format!("socket:[{inode}]")).collect();
    pids.into_iter().find(|pid| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .any(|target| links.iter().any(|link| target.as_os_str() == link.as_str()))
    })
}

/// Who listens on a port, as `name (pid 12)`, where this user may look.
pub(super) fn holder(port: u16) -> Option<String> {
    let pids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let pid = listener_among(port, pids)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("{} (pid {pid})", name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_outside_the_kernels_own_range() {
        let port = free_port().unwrap();
        assert!(port >= FIRST);
        assert!(is_free(port));
    }

    #[test]
    fn the_holder_of_a_port_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free(port));
        let me = std::process::id() as i32;
        assert_eq!(listener_among(port, [1, me]), Some(me));
        assert!(holder(port).unwrap().contains(&format!("(pid {me})")));
        drop(listener);
        assert_eq!(listener_among(port, [me]), None);
    }

    #[test]
    fn only_sockets_that_listen_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1\n\
             1: 0100007F:4E20 0100007F:8001 01 00000000:00000000 00:00000000 00000000     0        0 222 1\n\
             2: 0100007F:4E21 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1\n";
        assert_eq!(inodes_in(table, 20_000), ["111"]);
    }
}
