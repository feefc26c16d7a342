//! What the system tells of this machine; `None` if it does not tell.

use isochrone::engine::Gpu;
use serde::Serialize;

/// The machine that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Tasks that ran or waited in the minute before. Where they outnumber the cores, long updates
    /// are interrupted and ratios come out too large.
    pub load: Option<f64>,
    /// The GPU's name, where one was measured.
    pub gpu: Option<String>,
    /// The GPU's memory.
    pub gpu_memory_bytes: Option<usize>,
}

impl Machine {
    /// This machine, before anything is measured.
    pub fn here(gpu: Option<&Gpu>) -> Self {
        let cpu = field(&read("/proc/cpuinfo"), "model name");
        Self {
            cpu: cpu.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load: read("/proc/loadavg").split_whitespace().next().and_then(|x| x.parse().ok()),
            gpu: gpu.map(|gpu| gpu.name.clone()),
            gpu_memory_bytes: gpu.map(|gpu| gpu.memory),
        }
    }
}

/// The most memory this process has held.
pub fn peak_memory() -> Option<u64> {
    kibibytes(&read("/proc/self/status"), "VmHWM")
}

/// The memory that could be taken now.
pub fn available_memory() -> Option<u64> {
    kibibytes(&read("/proc/meminfo"), "MemAvailable")
}

/// Seconds that threads of this process have worked so far.
pub fn cpu_seconds() -> Option<f64> {
    worked(&read("/proc/self/stat"))
}

/// The time of user and system in a line of `/proc/PID/stat`, which counts hundredths of a second. The
/// name of the program stands in brackets and may hold anything.
fn worked(line: &str) -> Option<f64> {
    let mut fields = line.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / 100.0)
}

/// Bytes in words.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let number: u64 = field(text, name)?.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

/// What stands after `name` and a colon.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_system_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: One: Two\nVmHWM:\t  120 kB\n";
        assert_eq!(field(text, "model name").as_deref(), Some("One: Two"));
        assert_eq!(kibibytes(text, "VmHWM"), Some(120 * 1024));
        assert_eq!(field(text, "model"), None);
        let line = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 150 13 14";
        assert_eq!(worked(line), Some(4.0));
        assert_eq!(worked("7 (a"), None);
    }
}
