//! A device of this process's bus: who holds which of its interfaces.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use usb::urb::Urb;

use crate::backend::{Backend, Done};
use crate::error::Errno;
use crate::gate::{Gate, Turn};
use crate::node::{Answer, Call, Holder, Node};
use crate::settings::Settings;
use crate::{AttachError, DeviceInfo};

/// Who asks: a client (0: this process) and one of its open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) client: u64,
    pub(crate) open: u64,
}

/// What holds an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Driver {
    /// A driver of the kernel.
    Kernel(String),
    /// An open file.
    Usbfs(Owner),
}

impl Driver {
    fn name(&self) -> &str {
        match self {
            Self::Kernel(name) => name,
            Self::Usbfs(_) => "usbfs",
        }
    }
}

struct Holders {
    gone: bool,
    opens: BTreeMap<Owner, Weak<dyn Holder>>,
    drivers: BTreeMap<u8, Driver>,
}

/// Called when a configuration or an alternate setting was selected.
pub(crate) type Selected = Box<dyn Fn(&HostDevice) + Send + Sync>;

/// A device and its backend.
pub(crate) struct HostDevice {
    info: DeviceInfo,
    settings: Mutex<Settings>,
    gate: Arc<Gate>,
    holders: Mutex<Holders>,
    selected: Selected,
}

impl HostDevice {
    pub(crate) fn new(info: DeviceInfo, backend: Arc<dyn Backend>, selected: Selected) -> Result<Self, AttachError> {
        let settings = Settings::parse(&info)?;
        let drivers = kernel_drivers(&info);
        Ok(Self {
            info,
            settings: Mutex::new(settings),
            gate: Gate::new(backend),
            holders: Mutex::new(Holders { gone: false, opens: BTreeMap::new(), drivers }),
            selected,
        })
    }

    /// The kernel's driver of an interface, as sysfs shows it.
    pub(crate) fn driver(&self, interface: u8) -> Option<String> {
        self.holders.lock().drivers.get(&interface).map(|driver| driver.name().to_owned())
    }

    /// The device left the bus: everyone who has it open is told.
    pub(crate) fn unplug(&self) {
        let opens = {
            let mut holders = self.holders.lock();
            holders.gone = true;
            holders.drivers.clear();
            std::mem::take(&mut holders.opens)
        };
        let held = self.gate.unplug();
        for (owner, holder) in opens {
            if let Some(holder) = holder.upgrade() {
                holder.gone(owner.open);
            }
        }
        held.end();
    }

    pub(crate) fn open_as(&self, owner: Owner, holder: Weak<dyn Holder>) -> Result<(), Errno> {
        let _turn = self.gate.turn();
        let mut holders = self.holders.lock();
        if holders.gone {
            return Err(Errno(libc::ENODEV));
        }
        holders.opens.insert(owner, holder);
        Ok(())
    }

    pub(crate) fn close_as(&self, owner: Owner) {
        let turn = self.gate.turn();
        let claimed: Vec<u8> = {
            let mut holders = self.holders.lock();
            holders.opens.remove(&owner);
            let claimed = holders.drivers.iter().filter(|(_, driver)| **driver == Driver::Usbfs(owner));
            claimed.map(|(interface, _)| *interface).collect()
        };
        for interface in claimed {
            // The file is closed whatever the device says to setting 0.
            let _ = self.release(&turn, owner, interface);
        }
    }

    pub(crate) fn call_as(&self, owner: Owner, call: Call) -> Result<Answer, Errno> {
        let turn = self.gate.turn();
        if self.holders.lock().gone {
            return Err(Errno(libc::ENODEV));
        }
        match call {
            Call::Claim(interface) => self.claim(owner, interface)?,
            Call::Release(interface) => self.release(&turn, owner, interface)?,
            Call::Driver(interface) => {
                let driver = self.driver(interface).ok_or(Errno(libc::ENODATA))?;
                return Ok(Answer { value: 0, driver });
            }
            Call::Disconnect(interface) => self.disconnect(&turn, interface)?,
            Call::Connect(interface) => return self.connect(interface),
            Call::SetConfiguration(value) => self.set_configuration(&turn, value)?,
            Call::SetInterface(interface, alternate) => {
                if self.settings.lock().alternate(interface, alternate).is_none() {
                    return Err(Errno(libc::EINVAL));
                }
                self.set_interface(&turn, interface, alternate)?;
            }
            Call::ClearHalt(endpoint) => turn.change(|backend| backend.clear_halt(endpoint))?,
            Call::Reset => self.reset(&turn)?,
        }
        Ok(Answer::default())
    }

    fn claim(&self, owner: Owner, interface: u8) -> Result<(), Errno> {
        if !self.settings.lock().has_interface(interface) {
            return Err(Errno(libc::ENOENT));
        }
        let mut holders = self.holders.lock();
        match holders.drivers.get(&interface) {
            Some(driver) if *driver == Driver::Usbfs(owner) => Ok(()),
            Some(_) => Err(Errno(libc::EBUSY)),
            None => {
                holders.drivers.insert(interface, Driver::Usbfs(owner));
                Ok(())
            }
        }
    }

    /// An interface goes back to setting 0 when its driver leaves (core/driver.c, `usb_unbind_interface`).
    fn release(&self, turn: &Turn<'_>, owner: Owner, interface: u8) -> Result<(), Errno> {
        if self.holders.lock().drivers.get(&interface) != Some(&Driver::Usbfs(owner)) {
            return Err(Errno(libc::EINVAL));
        }
        self.unbind(turn, interface);
        Ok(())
    }

    fn unbind(&self, turn: &Turn<'_>, interface: u8) {
        let gone = self.holders.lock().gone;
        if !gone && self.settings.lock().selected(interface) != 0 {
            // As the kernel: the driver leaves whatever the device answers.
            let _ = self.set_interface(turn, interface, 0);
        }
        self.holders.lock().drivers.remove(&interface);
    }

    fn disconnect(&self, turn: &Turn<'_>, interface: u8) -> Result<(), Errno> {
        if !self.settings.lock().has_interface(interface) {
            return Err(Errno(libc::EINVAL));
        }
        let driver = self.holders.lock().drivers.get(&interface).cloned();
        match driver {
            None => return Err(Errno(libc::ENODATA)),
            Some(Driver::Usbfs(owner)) => self.tell_lost(owner, interface),
            Some(Driver::Kernel(_)) => {}
        }
        self.unbind(turn, interface);
        (self.selected)(self);
        Ok(())
    }

    /// The driver of the kernel comes back, if there is one for the interface: 1, else 0 (`device_attach`).
    fn connect(&self, interface: u8) -> Result<Answer, Errno> {
        if !self.settings.lock().has_interface(interface) {
            return Err(Errno(libc::EINVAL));
        }
        let mut holders = self.holders.lock();
        if holders.drivers.contains_key(&interface) {
            return Err(Errno(libc::EBUSY));
        }
        let driver = self.info.kernel_drivers.iter().find(|(number, _)| *number == interface);
        if let Some((_, name)) = driver {
            holders.drivers.insert(interface, Driver::Kernel(name.clone()));
        }
        drop(holders);
        (self.selected)(self);
        Ok(Answer { value: u8::from(driver.is_some()), driver: String::new() })
    }

    fn set_configuration(&self, turn: &Turn<'_>, value: u8) -> Result<(), Errno> {
        if !self.holders.lock().drivers.is_empty() {
            return Err(Errno(libc::EBUSY));
        }
        if value != 0 && !self.settings.lock().has_configuration(value) {
            return Err(Errno(libc::EINVAL));
        }
        turn.change(|backend| backend.set_configuration(value))?;
        self.settings.lock().select(value);
        (self.selected)(self);
        Ok(())
    }

    fn set_interface(&self, turn: &Turn<'_>, interface: u8, alternate: u8) -> Result<(), Errno> {
        turn.change(|backend| backend.set_interface(interface, alternate))?;
        self.settings.lock().select_alternate(interface, alternate);
        (self.selected)(self);
        Ok(())
    }

    /// usbfs cannot keep an interface over a reset: it is unbound first (core/hub.c, `usb_reset_device`). Drivers of the
    /// kernel stay.
    fn reset(&self, turn: &Turn<'_>) -> Result<(), Errno> {
        let claimed: Vec<(u8, Owner)> = {
            let mut holders = self.holders.lock();
            let mut claimed = Vec::new();
            holders.drivers.retain(|interface, driver| match driver {
                Driver::Kernel(_) => true,
                Driver::Usbfs(owner) => {
                    claimed.push((*interface, *owner));
                    false
                }
            });
            claimed
        };
        for (interface, owner) in claimed {
            self.tell_lost(owner, interface);
        }
        turn.change(|backend| backend.reset())?;
        self.settings.lock().alternates.clear();
        (self.selected)(self);
        Ok(())
    }

    fn tell_lost(&self, owner: Owner, interface: u8) {
        let holder = self.holders.lock().opens.get(&owner).and_then(Weak::upgrade);
        if let Some(holder) = holder {
            holder.lost(owner.open, interface);
        }
    }
}

fn kernel_drivers(info: &DeviceInfo) -> BTreeMap<u8, Driver> {
    info.kernel_drivers.iter().map(|(interface, name)| (*interface, Driver::Kernel(name.clone()))).collect()
}

/// The number of this process as a client of its own bus.
const THIS_PROCESS: u64 = 0;

impl Node for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn settings(&self) -> &Mutex<Settings> {
        &self.settings
    }

    fn open(&self, open: u64, holder: Weak<dyn Holder>) -> Result<(), Errno> {
        self.open_as(Owner { client: THIS_PROCESS, open }, holder)
    }

    fn close(&self, open: u64) {
        self.close_as(Owner { client: THIS_PROCESS, open });
    }

    fn call(&self, open: u64, call: Call) -> Result<Answer, Errno> {
        self.call_as(Owner { client: THIS_PROCESS, open }, call)
    }

    fn submit(&self, urb: Urb, done: Done) -> Result<u64, Errno> {
        self.gate.submit(urb, done)
    }

    fn cancel(&self, id: u64) {
        self.gate.cancel(id);
    }
}
