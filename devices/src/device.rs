//! A model as the machine around it sees it.

use std::time::Duration;

use bus::Mmio;

/// A device with one window of registers.
pub trait Device: Mmio {
    /// Tells the device the time since its machine started; it never goes back. Timers that ran out take effect.
    ///
    /// A register that counts time shows that of the last call: a service in real time calls it before each access.
    fn step(&self, now: Duration);

    /// When the device wants [`Device::step`] next if nothing else happens.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Power is switched on again: everything as when it was made, but for what the world outside holds.
    fn power_on(&self);
}
