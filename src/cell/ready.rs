use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(3);
/// For one attempt, from the connection to the answer.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Tries until a server on a port of 127.0.0.1 completes two handshakes. Two, because a relay pairs connections in
/// arrival order: so none is left waiting for a partner even in a server that forgets nothing. Never returns
/// otherwise: the caller bounds the time. `last` is told why each attempt failed.
pub(super) async fn until_ready(port: u16, mut last: impl FnMut(String)) {
    loop {
        let attempt = tokio::task::spawn_blocking(move || {
            let first = handshake(port)?;
            let second = handshake(port)?;
            drop((first, second));
            Ok::<(), String>(())
        });
        match attempt.await {
            Ok(Ok(())) => return,
            Ok(Err(why)) => last(why),
            Err(error) => last(error.to_string()),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn handshake(port: u16) -> Result<TcpStream, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, ATTEMPT).map_err(|error| error.to_string())?;
    stream
        .set_read_timeout(Some(ATTEMPT))
        .and_then(|()| stream.set_write_timeout(Some(ATTEMPT)))
        .map_err(|error| error.to_string())?;
    // The library checks the answer and its key.
    match tungstenite::client(format!("ws://{address}/"), stream) {
        Ok((mut socket, _)) => {
            let _ = socket.close(None);
            Ok(socket.get_ref().try_clone().map_err(|error| error.to_string())?)
        }
        Err(tungstenite::HandshakeError::Interrupted(_)) => {
            Err(format!("no answer to the handshake within {} ms", ATTEMPT.as_millis()))
        }
        Err(tungstenite::HandshakeError::Failure(error)) => Err(error.to_string()),
    }
}
