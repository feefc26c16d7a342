//! Ctrl-C and SIGTERM: the first asks to stop and save, the second stops at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use isochrone::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether a signal has asked to stop.
#[derive(Clone, Default)]
pub struct Signals {
    received: Arc<AtomicUsize>,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Result<Self> {
        let signals = Self::default();
        let armed = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let register = || {
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&armed))?;
                flag::register(signal, Arc::clone(&armed))?;
                flag::register_usize(signal, Arc::clone(&signals.received), signal as usize)
            };
            register()
                .map_err(|error| Error::input(format!("cannot listen for signals: {error}")))?;
        }
        Ok(signals)
    }

    /// The signal that asked to stop.
    pub fn received(&self) -> Option<i32> {
        let signal = self.received.load(Ordering::Relaxed);
        (signal != 0).then_some(signal as i32)
    }
}
