use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::record::store::write_atomically;

/// How much of the beginning of a log is kept, in bytes, and how much of its end. A server that floods its log must
/// neither fill the disk nor be held up.
const KEPT: usize = 512 * 1024;
/// Lines of a log that go into a record.
const TAIL_LINES: usize = 12;
/// Longest line that goes into a record, in characters.
const TAIL_WIDTH: usize = 300;

/// What a process printed: its beginning and its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Rc<RefCell<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Log {
    /// Reads a stream to its end.
    pub(super) async fn drain(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read) = stream.read(&mut buffer).await {
            if read == 0 {
                return;
            }
            self.push(&buffer[..read]);
        }
    }

    /// Adds what was printed.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.borrow_mut();
        let room = (KEPT - kept.head.len()).min(bytes.len());
        kept.head.extend_from_slice(&bytes[..room]);
        kept.tail.extend(&bytes[room..]);
        let surplus = kept.tail.len().saturating_sub(KEPT);
        kept.tail.drain(..surplus);
        kept.left_out += surplus as u64;
    }

    /// The last lines, as a record holds them.
    pub(super) fn tail(&self) -> Vec<String> {
        let kept = self.0.borrow();
        let (front, back) = kept.tail.as_slices();
        let text = [&kept.head, front, back].concat();
        let text =
            String::from_utf8_lossy(&text[text.len().saturating_sub(TAIL_LINES * TAIL_WIDTH)..]).into_owned();
        let lines: Vec<String> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.chars().take(TAIL_WIDTH).collect())
            .collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].to_vec()
    }

    /// Writes it to a file, unless nothing was printed.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let kept = self.0.borrow();
        if kept.head.is_empty() {
            return Ok(());
        }
        let gap = match kept.left_out {
            0 => String::new(),
            bytes => format!("\n… {bytes} bytes left out …\n"),
        };
        let (front, back) = kept.tail.as_slices();
        write_atomically(path, &[&kept.head, gap.as_bytes(), front, back].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end() {
        let log = Log::default();
        log.push(b"first\n");
        for _ in 0..4096 {
            log.push(&[b'x'; 1024]);
        }
        log.push(b"\nlast words\n");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        log.save(&path).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.starts_with("first\n"), "{}", &text[..40]);
        assert!(text.ends_with("last words\n"));
        assert!(text.contains("bytes left out"));
        assert!(text.len() < 2 * KEPT + 100, "{}", text.len());
        assert_eq!(log.tail().last().unwrap(), "last words");
    }

    #[test]
    fn silence_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        Log::default().save(&path).unwrap();
        assert!(!path.exists());
        assert!(Log::default().tail().is_empty());
    }
}
