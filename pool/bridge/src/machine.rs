//! What the pools of a file share on one machine: its memory, mapped, and the device that they are made for.

use std::ffi::CString;
use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pool::Memory;

use crate::abi::{self, Device};
use crate::error::BuildError;
use crate::library::Library;
use crate::mirror::Mirror;

/// As the kernel's driver names it.
const DEVICE: &str = "ci_hdrc.0";

/// A memory and its device.
pub(crate) struct Machine {
    pub(crate) mirror: Mirror,
    device: *mut Device,
    device_drop: abi::DeviceDrop,
}

// SAFETY: `struct device` is the kernel file's, which takes its own locks; here it is only passed on.
unsafe impl Send for Machine {}
// SAFETY: as above.
unsafe impl Sync for Machine {}

impl Machine {
    fn new(memory: &Memory, library: &Library) -> Result<Self, BuildError> {
        let (device_new, device_drop) =
            (library.symbol::<abi::DeviceNew>(c"pp_device_new")?, library.symbol(c"pp_device_drop")?);
        let no_place = |error: io::Error| BuildError::NoPlace(format!("memory cannot be mapped again: {error}"));
        let mirror = Mirror::new(memory).map_err(no_place)?;
        let name = CString::new(DEVICE).unwrap_or_default();
        // SAFETY: the name is copied.
        let device = unsafe { device_new(name.as_ptr()) };
        if device.is_null() {
            return Err(BuildError::NoPlace("no memory for a device".to_owned()));
        }
        Ok(Self { mirror, device, device_drop })
    }

    pub(crate) const fn device(&self) -> *mut Device {
        self.device
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: made by `pp_device_new`; pools that were not destroyed keep a pointer to it and are not called again.
        unsafe { (self.device_drop)(self.device) };
    }
}

/// The machines of a file whose memories live.
#[derive(Default)]
pub(crate) struct Machines(Mutex<Vec<(Weak<Memory>, Arc<Machine>)>>);

impl Machines {
    /// The machine of that memory.
    pub(crate) fn of(&self, memory: &Arc<Memory>, library: &Library) -> Result<Arc<Machine>, BuildError> {
        let mut machines = self.0.lock();
        machines.retain(|(known, _)| known.strong_count() > 0);
        if let Some((_, machine)) = machines.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(memory)) {
            return Ok(Arc::clone(machine));
        }
        let machine = Arc::new(Machine::new(memory, library)?);
        machines.push((Arc::downgrade(memory), Arc::clone(&machine)));
        Ok(machine)
    }

    /// A crash may have left the device's lists half done: the next pool gets another.
    pub(crate) fn forget(&self, machine: &Arc<Machine>) {
        self.0.lock().retain(|(_, known)| !Arc::ptr_eq(known, machine));
    }
}
