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

    /// Places in the device's work at which it can be held up half done, by name: real work takes time, and a driver may
    /// look at memory and registers meanwhile.
    fn pauses(&self) -> &'static [&'static str] {
        &[]
    }

    /// Holds up the next piece of work that comes to this one of [`Device::pauses`], until [`Device::go_on`] or until
    /// something that has to wait for it.
    fn pause(&self, place: usize) {
        let _ = place;
    }

    /// Finishes what is held up, and holds up nothing more.
    fn go_on(&self) {}

    /// Power is switched on again: everything as when it was made, but for what the world outside holds.
    fn power_on(&self);
}
