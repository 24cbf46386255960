//! Lower bounds of the times of a model's kernels on this machine.

use super::backend::{Backend, PeakSetting};
use super::native::Native;
use crate::ir::Symbol;
use crate::workload::Workload;
use std::collections::BTreeMap;

/// Measures peaks, and computes the bounds of kernels from them.
pub struct KernelBounds<'a> {
    native: &'a Native,
    kernels: Vec<&'a Workload>,
    /// Each peak that bounds one of the kernels, in operations per second; 0 as long as it is not measured.
    peaks: Vec<(PeakSetting, f64)>,
}

impl<'a> KernelBounds<'a> {
    /// Bounds of these kernels. [`KernelBounds::measure_peaks`] must follow.
    pub fn new(native: &'a Native, kernels: impl IntoIterator<Item = &'a Workload>) -> KernelBounds<'a> {
        let kernels: Vec<_> = kernels.into_iter().collect();
        let mut peaks: Vec<(PeakSetting, f64)> = Vec::new();
        for setting in kernels.iter().filter_map(|k| native.peak_setting(k)) {
            if peaks.iter().all(|(known, _)| known.peak_loop != setting.peak_loop) {
                peaks.push((setting, 0.0));
            }
        }
        KernelBounds { native, kernels, peaks }
    }

    /// Measures the peaks. The highest value of several measurements counts, since other processes only lower it.
    pub fn measure_peaks(&mut self) {
        for (setting, peak) in &mut self.peaks {
            *peak = peak.max(setting.measure().flops());
        }
    }

    /// The least seconds of one call of each kernel, by names; without those for which no bound is known.
    pub fn secs(&self) -> BTreeMap<Symbol, f64> {
        let bound = |kernel: &&Workload| Some((kernel.name, self.native.bound(kernel, self.peak_of(kernel))?));
        self.kernels.iter().filter_map(bound).collect()
    }

    fn peak_of(&self, kernel: &Workload) -> Option<f64> {
        let setting = self.native.peak_setting(kernel)?;
        let (_, peak) = self.peaks.iter().find(|(known, _)| known.peak_loop == setting.peak_loop)?;
        Some(*peak).filter(|&p| p > 0.0)
    }
}
