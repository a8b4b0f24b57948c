//! Which version of the C library a native module needs, read from the module.

use std::fs;
use std::path::Path;

use object::elf::{FileHeader64, VER_FLG_WEAK};
use object::read::elf::FileHeader;
use object::{Endianness, read};

/// A version of the GNU C library, e.g. 2.38.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GlibcVersion {
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl std::fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl GlibcVersion {
    /// Reads `2.38` or `2.2.5`, of which the third number does not matter here.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().split('.').map(str::parse);
        Some(GlibcVersion { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? })
    }
}

/// The newest version of the C library that a shared object demands; none when it demands none.
pub(super) fn needed(path: &Path) -> Result<Option<GlibcVersion>, String> {
    let bytes = fs::read(path).map_err(|error| format!("`{}` cannot be read: {error}", path.display()))?;
    needed_by(&bytes)
        .map_err(|error| format!("`{}` is no ELF file that can be read: {error}", path.display()))
}

fn needed_by(bytes: &[u8]) -> read::Result<Option<GlibcVersion>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((mut needs, strings)) = sections.gnu_verneed(endian, bytes)? else { return Ok(None) };
    let strings = sections.strings(endian, bytes, strings)?;
    let mut newest = None;
    while let Some((_, mut versions)) = needs.next()? {
        while let Some(version) = versions.next()? {
            // A weak need is a wish: the loader only warns where it is not met.
            if (version.vna_flags.get(endian) & VER_FLG_WEAK).0 != 0 {
                continue;
            }
            let name = String::from_utf8_lossy(version.name(endian, strings)?).into_owned();
            newest = newest.max(name.strip_prefix("GLIBC_").and_then(GlibcVersion::parse));
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let parse = |text| GlibcVersion::parse(text).unwrap();
        assert!(parse("2.4") < parse("2.38"));
        assert!(parse("2.2.5") < parse("2.3"));
        assert_eq!(parse("2.38").to_string(), "2.38");
        assert_eq!(GlibcVersion::parse("PRIVATE"), None);
    }

    #[test]
    fn the_need_of_this_very_program_is_met_and_is_what_objdump_says() {
        let me = std::env::current_exe().unwrap();
        let newest = needed(&me).unwrap().expect("it uses the C library");
        // An independent reader, where it is installed; the C compiler that links us brings it.
        let dump =
            Command::new("objdump").arg("-T").arg(&me).output().expect("objdump comes with the linker");
        let text = String::from_utf8_lossy(&dump.stdout).into_owned();
        let expected = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'))
            .filter_map(|word| GlibcVersion::parse(word.strip_prefix("GLIBC_")?))
            .max();
        assert_eq!(Some(newest), expected);
    }

    #[test]
    fn what_is_no_module_is_said_to_be_none() {
        assert!(needed(Path::new("/no/such/file")).unwrap_err().contains("cannot be read"));
        assert!(needed_by(b"text").is_err());
        assert!(needed_by(b"\x7FELF\x02\x01\x01 and then nothing that makes sense, at some length").is_err());
    }
}
