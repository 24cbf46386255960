//! CPU time that other processes take.

#![expect(clippy::disallowed_methods, reason = "measures how busy the machine is")]

use std::time::{Duration, Instant};

/// Measures the load from its creation on.
#[derive(Clone, Debug)]
pub struct LoadWatch(Option<(Instant, Usage)>);

/// CPU seconds of all processes and of this one.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Usage {
    all: f64,
    own: f64,
}

/// Minimum time for a result: the system counts in hundredths of a second.
const ENOUGH: Duration = Duration::from_millis(200);
/// Number of cores that others may use without disturbing measurements, and as a share of all cores.
const FEW: f64 = 0.25;
const SHARE: f64 = 0.05;

impl LoadWatch {
    /// Starts to watch.
    pub fn new() -> LoadWatch {
        LoadWatch(Usage::now().map(|usage| (Instant::now(), usage)))
    }

    /// Average number of cores used by other processes since then; `None` if unknown.
    pub fn others(&self) -> Option<f64> {
        let (start, before) = self.0?;
        let now = Usage::now()?;
        let secs = start.elapsed();
        (secs >= ENOUGH).then(|| before.others_until(now, secs.as_secs_f64()))
    }

    /// [`LoadWatch::others`], if it is enough to disturb measurements.
    pub fn disturbance(&self) -> Option<f64> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        self.others().filter(|&others| others > FEW.max(cores * SHARE))
    }
}

impl Default for LoadWatch {
    fn default() -> Self {
        LoadWatch::new()
    }
}

impl Usage {
    fn others_until(self, now: Usage, secs: f64) -> f64 {
        ((now.all - self.all) - (now.own - self.own)).max(0.0) / secs
    }

    #[cfg(target_os = "linux")]
    fn now() -> Option<Usage> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        // SAFETY: a plain query without pointers.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let ticks = busy_ticks(&stat)?;
        // SAFETY: all zeros are a valid value, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::getrusage(libc::RUSAGE_SELF, &mut usage) == 0).then_some(usage)
        }?;
        let secs = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
        let own = secs(usage.ru_utime) + secs(usage.ru_stime);
        (per_second > 0).then(|| Usage { all: ticks / per_second as f64, own })
    }

    #[cfg(not(target_os = "linux"))]
    fn now() -> Option<Usage> {
        None
    }
}

/// Ticks that all cores were busy: user, nice, system, interrupts and steal. User time includes guests.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "other systems tell in other ways"))]
fn busy_ticks(stat: &str) -> Option<f64> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<f64> = all.split_whitespace().map_while(|f| f.parse().ok()).collect();
    let [user, nice, system, _idle, _wait, irq, soft_irq, stolen, ..] = fields[..] else { return None };
    Some(user + nice + system + irq + soft_irq + stolen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_the_system_are_read() {
        let stat = "cpu  100 20 30 4000 50 6 7 8 90 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(busy_ticks(stat), Some(171.0));
        assert_eq!(busy_ticks("intr 5"), None);
    }

    #[test]
    fn others_are_what_is_not_ours() {
        let before = Usage { all: 100.0, own: 10.0 };
        assert_eq!(before.others_until(Usage { all: 103.0, own: 11.0 }, 2.0), 1.0);
        assert_eq!(before.others_until(Usage { all: 100.5, own: 11.0 }, 2.0), 0.0);
    }

    /// The process's own work does not count as a disturbance.
    #[test]
    #[cfg(target_os = "linux")]
    fn own_work_does_not_count() {
        let watch = LoadWatch::new();
        assert_eq!(watch.others(), None, "too early to tell");
        let start = Instant::now();
        while start.elapsed() < ENOUGH * 2 {
            std::hint::spin_loop();
        }
        let (others, cores) = (watch.others().expect("linux tells"), std::thread::available_parallelism().unwrap());
        // Other tests of this process run at the same time, so the rest is at most all cores.
        assert!(others <= cores.get() as f64 + 0.1, "{others}");
    }
}
