use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::plan::Program;
use crate::record::RunnerFacts;

/// SHA-256 of files, each computed once as long as it does not change: a runtime has a hundred megabytes.
#[derive(Debug, Default)]
pub struct Hashes(HashMap<(PathBuf, u64, SystemTime), String>);

impl Hashes {
    /// The SHA-256 of a file in hexadecimal digits; none where it cannot be read.
    pub fn of(&mut self, path: &Path) -> Option<String> {
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let key = (path.to_owned(), meta.len(), meta.modified().ok()?);
        if let Some(known) = self.0.get(&key) {
            return Some(known.clone());
        }
        let mut hasher = Sha256::new();
        let mut file = File::open(path).ok()?;
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match file.read(&mut buffer).ok()? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        let digits: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.insert(key, digits.clone());
        Some(digits)
    }

    /// Fills in what is not yet known of a program's files.
    pub fn fill(&mut self, program: &mut Program) {
        let mut sha256: BTreeMap<String, String> = std::mem::take(&mut program.sha256);
        for file in &program.files {
            let name = file.display().to_string();
            if !sha256.contains_key(&name)
                && let Some(digits) = self.of(file)
            {
                sha256.insert(name, digits);
            }
        }
        program.sha256 = sha256;
    }

    /// This program itself.
    pub fn runner(&mut self) -> RunnerFacts {
        RunnerFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: std::env::current_exe().ok().and_then(|path| self.of(&path)).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_file_has_the_known_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty");
        fs::write(&path, "").unwrap();
        // FIPS 180-4, digest of the empty message.
        let known = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Hashes::default().of(&path).as_deref(), Some(known));
        assert_eq!(Hashes::default().of(folder.path()), None);
    }

    #[test]
    fn what_is_known_is_not_computed_again() {
        let mut program = Program {
            files: vec![PathBuf::from("/nowhere/at/all")],
            sha256: BTreeMap::from([("/nowhere/at/all".to_owned(), "ab".to_owned())]),
            ..Program::default()
        };
        Hashes::default().fill(&mut program);
        assert_eq!(program.sha256["/nowhere/at/all"], "ab");
    }
}
