//! How much memory may be used: sizes as text, and how much the machine has available.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::collective::JobPlace;
use crate::error::{Error, Result};
use crate::pages;

/// Names of powers of 1000 and 1024, and the bytes they mean.
const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A number of bytes, written `4 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Memory(pub u64);

impl Memory {
    /// The default limit for data: half of the available memory, of which processes of one run on
    /// the same machine have equal shares; no limit if that is unknown.
    pub fn usual() -> Self {
        let processes = JobPlace::read().map_or(1, |place| place.here.max(1) as u64);
        Self(available().map_or(u64::MAX, |bytes| bytes / 2 / processes))
    }

    /// Limits what this process plans to hold from now on, data and everything else.
    pub fn limit_process(self) {
        LIMIT.store(self.0, Ordering::Relaxed);
    }

    /// This limit for data or, where the process has a lower one, the usual one.
    pub(crate) fn of_data(self) -> Self {
        if is_limited() { self.min(Self::usual()) } else { self }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |unit: &&(&str, u64)| self.0 >= unit.1 && self.0.is_multiple_of(unit.1);
        let (name, bytes) =
            *UNITS.iter().filter(exact).max_by_key(|unit| unit.1).unwrap_or(&UNITS[0]);
        write!(f, "{} {name}", self.0 / bytes)
    }
}

impl From<Memory> for String {
    fn from(memory: Memory) -> Self {
        memory.to_string()
    }
}

impl FromStr for Memory {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::input(format!("`{text}` is not a size in bytes"))
                .hint("write it as `4 GiB` or `500 MB`")
        };
        let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (number, unit) = text.split_at(end.ok_or_else(wrong)?);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let same = |name: &str| name.eq_ignore_ascii_case(unit.trim());
        let (_, bytes) = UNITS.iter().find(|(name, _)| same(name)).ok_or_else(wrong)?;
        let bytes = number * *bytes as f64;
        if bytes >= 1.0 && bytes < u64::MAX as f64 { Ok(Self(bytes as u64)) } else { Err(wrong()) }
    }
}

impl TryFrom<String> for Memory {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

/// A size rounded to three digits, with a unit.
pub fn rounded(bytes: u64) -> String {
    let units = UNITS.iter().filter(|(name, _)| !name.contains('i'));
    let (name, size) = *units.rev().find(|unit| bytes >= unit.1).unwrap_or(&UNITS[0]);
    let number = bytes as f64 / size as f64;
    let digits = if size == 1 || number >= 100.0 {
        0
    } else if number >= 10.0 {
        1
    } else {
        2
    };
    format!("{number:.digits$} {name}")
}

/// What this process may hold at most.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

fn is_limited() -> bool {
    LIMIT.load(Ordering::Relaxed) < u64::MAX
}

/// Bytes of memory that are free or can be freed and that this process may use; none if the system
/// does not say.
pub fn available() -> Option<u64> {
    let of_machine = of_machine();
    if !is_limited() {
        return of_machine;
    }
    let rest = LIMIT.load(Ordering::Relaxed).saturating_sub(held().unwrap_or(0));
    Some(of_machine.map_or(rest, |free| free.min(rest)))
}

/// Bytes that this process holds; none if the system does not say.
fn held() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Refuses what the memory has no room for, before it is asked for.
pub(crate) fn check_room(what: &str, bytes: u64, hint: &str) -> Result<()> {
    let Some(free) = available().filter(|&free| bytes > free) else { return Ok(()) };
    let whose = if is_limited() { "`--max-memory` leaves" } else { "the machine has" };
    let [bytes, free] = [bytes, free].map(rounded);
    let left = if is_limited() { "" } else { " left" };
    Err(Error::memory(format!("{what} take {bytes}, {whose} {free}{left}")).hint(hint))
}

fn of_machine() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024;
    let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let limits = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ];
    let left = limits.iter().filter_map(|(most, now)| {
        let most = number(most)?;
        Some(most.saturating_sub(number(now).unwrap_or(0)).max(most / 4))
    });
    Some(left.fold(free, u64::min))
}

/// `count` zeros, or an error if they do not fit into memory; `key` is what they are for.
pub(super) fn zeros(count: usize, key: &str) -> Result<Vec<f32>> {
    /// Below this many bytes the available memory is not checked.
    const SMALL: u64 = 64 << 20;
    let bytes = (count as u64).saturating_mul(4);
    if (bytes > SMALL || is_limited()) && available().is_some_and(|free| bytes > free) {
        return Err(Error::memory(format!(
            "`{key}` has {count} values, which do not fit into memory"
        )));
    }
    // The pages are mapped lazily, so that the thread that fills them touches them first.
    Ok(pages::zeros(0.0, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_with_units() {
        for (text, bytes) in [
            ("4 GiB", 4 << 30),
            ("4GiB", 4 << 30),
            ("300 kB", 300_000),
            ("1.5 MB", 1_500_000),
            ("7 B", 7),
            ("2 gib", 2 << 30),
        ] {
            let memory: Memory = text.parse().unwrap();
            assert_eq!(memory, Memory(bytes), "{text}");
            assert_eq!(memory.to_string().parse::<Memory>().unwrap(), memory);
        }
        assert_eq!(Memory(4 << 30).to_string(), "4 GiB");
        assert_eq!(Memory(300_000).to_string(), "300 kB");
        for text in ["", "4", "GiB", "-1 GB", "0 GB", "4 GiBs", "1e30 TB", "1..2 GB"] {
            let error = text.parse::<Memory>().unwrap_err().to_string();
            assert!(error.contains("is not a size in bytes"), "{text}: {error}");
        }
        assert_eq!(rounded(123), "123 B");
        assert_eq!(rounded(123_456_789), "123 MB");
        assert_eq!(rounded(1_234_567), "1.23 MB");
    }

    #[test]
    fn the_available_memory_is_a_plausible_number() {
        if cfg!(target_os = "linux") {
            assert!((1 << 20..1 << 50).contains(&available().unwrap()));
        }
    }
}
