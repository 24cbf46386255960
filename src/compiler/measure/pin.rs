//! Keeps the measuring thread on one core.

use crate::codegen::Pinning;

/// Keeps the thread on a core until it is dropped, if the system allows it.
#[derive(Debug)]
pub struct Pinned {
    #[cfg(target_os = "linux")]
    before: Option<(libc::cpu_set_t, usize)>,
    /// Makes the guard `!Send`: affinity belongs to the thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Pinned {
    /// The core, if the thread is pinned.
    pub fn core(&self) -> Option<usize> {
        #[cfg(target_os = "linux")]
        return self.before.as_ref().map(|(_, core)| *core);
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// Pins the calling thread to its current core. Threads that it starts meanwhile are pinned too.
#[cfg(target_os = "linux")]
pub fn pin_here() -> Pinned {
    // SAFETY: no arguments; a negative result is an error.
    match usize::try_from(unsafe { libc::sched_getcpu() }) {
        Ok(core) => pin_to(core),
        Err(_) => Pinned { before: None, _here: std::marker::PhantomData },
    }
}

/// Pins the calling thread to a core.
#[cfg(target_os = "linux")]
pub fn pin_to(core: usize) -> Pinned {
    let _here = std::marker::PhantomData;
    // SAFETY: an all-zero set is a valid, empty one.
    let (mut before, mut one): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // The set holds 1024 cores; threads on larger systems are not pinned.
    if core >= size * 8 {
        return Pinned { before: None, _here };
    }
    // SAFETY: both calls get a set of the stated size; 0 is the calling thread.
    let is_pinned = unsafe {
        libc::CPU_SET(core, &mut one);
        libc::sched_getaffinity(0, size, &mut before) == 0 && libc::sched_setaffinity(0, size, &one) == 0
    };
    Pinned { before: is_pinned.then_some((before, core)), _here }
}

/// Does nothing: pinning is not supported on this system.
#[cfg(not(target_os = "linux"))]
pub fn pin_here() -> Pinned {
    Pinned { _here: std::marker::PhantomData }
}

/// Does nothing: pinning is not supported on this system.
#[cfg(not(target_os = "linux"))]
pub fn pin_to(_core: usize) -> Pinned {
    pin_here()
}

/// The placement of a pool of threads on these cores, and the core of the thread that calls kernels. Threads are only pinned if
/// there are several and each has a core.
pub fn placement(cores: &[usize], threads: usize) -> (Pinning, Option<usize>) {
    if threads > 1 && cores.len() >= threads {
        (Pinning::Cores(cores.to_vec()), Some(cores[0]))
    } else {
        (Pinning::None, None)
    }
}

/// The cores that the calling thread may run on, its current core first; empty if unknown.
#[cfg(target_os = "linux")]
pub fn cores() -> Vec<usize> {
    // SAFETY: an all-zero set is a valid, empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call gets a set of the stated size; 0 is the calling thread.
    let known = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } == 0;
    // SAFETY: the set has room for the core.
    let mut all: Vec<usize> = (0..if known { size_of_val(&set) * 8 } else { 0 })
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect();
    // SAFETY: no arguments; a negative result is an error, which matches no core.
    let here = unsafe { libc::sched_getcpu() };
    if let Some(at) = all.iter().position(|&core| i32::try_from(core) == Ok(here)) {
        all.rotate_left(at);
    }
    all
}

/// Empty: not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn cores() -> Vec<usize> {
    Vec::new()
}

impl Drop for Pinned {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some((before, _)) = &self.before {
            // SAFETY: the set came from the system, with this size.
            unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), before) };
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_and_is_lifted() {
        let before = std::thread::available_parallelism().unwrap();
        let pinned = pin_here();
        if let Some(core) = pinned.core() {
            assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
            // SAFETY: no arguments.
            assert_eq!(unsafe { libc::sched_getcpu() } as usize, core);
        }
        drop(pinned);
        assert_eq!(std::thread::available_parallelism().unwrap(), before);
    }
}
