use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tungstenite::{Error, Message, WebSocket};

/// What a server sends for one message: to which connection, in order of arrival, what.
pub(super) type Answers = Vec<(usize, Message)>;

/// A server on a thread. Its behaviour is a function from a connection and a message to what is sent. It ends when
/// dropped, or after a minute.
pub(super) struct Server {
    pub(super) port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(behaviour: impl FnMut(usize, Message) -> Answers + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stop = stop.clone();
            move || serve(&listener, &stop, behaviour)
        });
        Server { port, stop, thread: Some(thread) }
    }

    /// Relays, and lets `tamper` change what is sent for each message. It is given the number of the message, from 0;
    /// the first two of each pair are the client's probes.
    pub(super) fn tampering(
        mut tamper: impl FnMut(u64, usize, Message, &mut Answers) + Send + 'static,
    ) -> Self {
        let mut number = 0;
        Server::start(move |from, message| {
            let mut answers = vec![(from ^ 1, message.clone())];
            tamper(number, from, message, &mut answers);
            number += 1;
            answers
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn serve(listener: &TcpListener, stop: &AtomicBool, mut behaviour: impl FnMut(usize, Message) -> Answers) {
    listener.set_nonblocking(true).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut connections: Vec<Option<WebSocket<TcpStream>>> = Vec::new();
    while !stop.load(Ordering::Relaxed) && Instant::now() < deadline {
        let mut idle = true;
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            stream.set_nodelay(true).unwrap();
            let socket = tungstenite::accept(stream).unwrap();
            socket.get_ref().set_nonblocking(true).unwrap();
            connections.push(Some(socket));
            idle = false;
        }
        for from in 0..connections.len() {
            let Some(socket) = &mut connections[from] else { continue };
            match socket.read() {
                Ok(message) if message.is_binary() || message.is_text() || message.is_pong() => {
                    idle = false;
                    for (to, answer) in behaviour(from, message) {
                        let Some(Some(socket)) = connections.get_mut(to) else { continue };
                        let closes = answer.is_close();
                        // What does not fit now is flushed below.
                        let _ = socket.send(answer);
                        if closes {
                            connections[to] = None;
                        }
                    }
                }
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let _ = socket.flush();
                }
                Err(_) => connections[from] = None,
            }
        }
        if idle {
            thread::sleep(Duration::from_micros(20));
        }
    }
}
