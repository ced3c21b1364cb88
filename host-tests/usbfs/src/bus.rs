//! The bus of this process: its devices, and those who watch it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::backend::Backend;
use crate::error::Errno;
use crate::host_device::HostDevice;
use crate::hub::{Hub, Ports};
use crate::info::name;
use crate::node::{Node, NodeRef};
use crate::process::this_process;
use crate::root::{self, Role};
use crate::uevents::{self, Action};
use crate::{AttachError, DeviceInfo, client, sysfs, takeover};

/// Who is told of devices: the connections of other processes. Called with the bus locked; never blocks.
pub(crate) trait Watcher: Send + Sync {
    fn attached(&self, number: u64, device: &Arc<HostDevice>);
    fn detached(&self, number: u64);
    fn selected(&self, number: u64, device: &HostDevice);
}

struct Attachment {
    number: u64,
    device: Arc<HostDevice>,
}

#[derive(Default)]
struct Bus {
    /// By bus and address.
    devices: BTreeMap<(u8, u8), Attachment>,
    /// What is plugged into each hub, by bus and the hub's ports.
    hubs: BTreeMap<(u8, Vec<u8>), Ports>,
    watchers: Vec<Weak<dyn Watcher>>,
    next: u64,
}

static BUS: Mutex<Option<Bus>> = Mutex::new(None);

/// A device on the bus. Dropping it unplugs the device: transfers in flight end with -ESHUTDOWN, what its clients ask
/// then is answered with ENODEV, and everyone who listens for hot-plug hears of it.
pub struct Attached {
    bus: u8,
    address: u8,
    ports: Vec<u8>,
}

impl Attached {
    /// Bus number.
    #[must_use]
    pub fn bus(&self) -> u8 {
        self.bus
    }

    /// Device address.
    #[must_use]
    pub fn address(&self) -> u8 {
        self.address
    }

    /// The device's name in sysfs: `5-1.3`.
    #[must_use]
    pub fn name(&self) -> String {
        name(self.bus, &self.ports)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        detach(self.bus, self.address);
    }
}

/// Puts a device on this process's bus, where every libusb program of this process finds it, and, once the bus is
/// [served](crate::serve), those of other processes.
///
/// # Errors
/// The place is taken or is none, the descriptors are none, or the bus's files cannot be written.
pub fn attach(info: DeviceInfo, backend: Arc<dyn Backend>) -> Result<Attached, AttachError> {
    info.check()?;
    takeover::keep();
    let root = &root::host()?.path;
    let mut bus = BUS.lock();
    let bus = bus.get_or_insert_default();
    bus.check_free(&info)?;
    let (number, address, ports) = (info.bus, info.address, info.ports.clone());
    bus.add_hubs(root, &info)?;
    bus.add(root, info, backend, 0)?;
    Ok(Attached { bus: number, address, ports })
}

impl Bus {
    fn check_free(&self, info: &DeviceInfo) -> Result<(), AttachError> {
        if self.devices.contains_key(&(info.bus, info.address)) {
            return Err(AttachError::Taken { bus: info.bus, address: info.address });
        }
        let taken = |ports: &[u8]| {
            let is_hub = self.hubs.contains_key(&(info.bus, ports.to_vec()));
            let is_device = self.devices.values().any(|has| {
                let has = has.device.info();
                has.bus == info.bus && has.ports == ports
            });
            (is_hub, is_device)
        };
        for length in 1..=info.ports.len() {
            let ports = &info.ports[..length];
            let whole = length == info.ports.len();
            if let (is_hub, true) = taken(ports)
                && (whole || !is_hub)
            {
                return Err(AttachError::Port(name(info.bus, ports)));
            }
        }
        Ok(())
    }

    /// The root hub and the hubs between it and the device. Once there, they stay.
    fn add_hubs(&mut self, root: &Path, info: &DeviceInfo) -> Result<(), AttachError> {
        for length in 0..info.ports.len() {
            let (ports, port) = (&info.ports[..length], info.ports[length]);
            let key = (info.bus, ports.to_vec());
            if !self.hubs.contains_key(&key) {
                let plugged = Ports::default();
                let hub = Hub::new(ports.is_empty(), plugged.clone());
                let address = self.hub_address(info, ports)?;
                let hub_info = hub.info(info.bus, address, ports);
                self.add(root, hub_info, Arc::new(hub), DeviceInfo::HUB_PORTS)?;
                self.hubs.insert(key.clone(), plugged);
            }
            if let Some(plugged) = self.hubs.get(&key) {
                let whole = length + 1 == info.ports.len();
                plugged.lock().insert(port, if whole { info.speed } else { usb::Speed::High });
            }
        }
        Ok(())
    }

    /// 1 for the root hub; the others take the highest free one, out of the way of the devices' own.
    fn hub_address(&self, info: &DeviceInfo, ports: &[u8]) -> Result<u8, AttachError> {
        if ports.is_empty() {
            return Ok(1);
        }
        let free = |address: &u8| *address != info.address && !self.devices.contains_key(&(info.bus, *address));
        (2..=127).rev().find(free).ok_or(AttachError::Taken { bus: info.bus, address: 127 })
    }

    fn add(
        &mut self,
        root: &Path,
        info: DeviceInfo,
        backend: Arc<dyn Backend>,
        children: u8,
    ) -> Result<(), AttachError> {
        self.next += 1;
        let number = self.next;
        let key = (info.bus, info.address);
        let device = Arc::new(HostDevice::new(info, backend, Box::new(move |device| selected(number, device)))?);
        let unwritten = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", root.display()));
        sysfs::add(root, &device, children).map_err(unwritten)?;
        for watcher in self.live_watchers() {
            watcher.attached(number, &device);
        }
        self.devices.insert(key, Attachment { number, device: device.clone() });
        uevents::send(Action::Add, device.info(), &device.settings().lock());
        Ok(())
    }

    fn live_watchers(&mut self) -> Vec<Arc<dyn Watcher>> {
        self.watchers.retain(|watcher| watcher.strong_count() > 0);
        self.watchers.iter().filter_map(Weak::upgrade).collect()
    }
}

fn detach(number: u8, address: u8) {
    let Ok(root) = root::host() else { return };
    let device = {
        let mut bus = BUS.lock();
        let Some(bus) = bus.as_mut() else { return };
        let Some(attachment) = bus.devices.remove(&(number, address)) else { return };
        let info = attachment.device.info();
        // Files that somebody removed already need no removal.
        let _ = sysfs::remove(&root.path, info);
        if let Some((port, hub)) = info.ports.split_last()
            && let Some(plugged) = bus.hubs.get(&(number, hub.to_vec()))
        {
            plugged.lock().remove(port);
        }
        for watcher in bus.live_watchers() {
            watcher.detached(attachment.number);
        }
        attachment.device
    };
    device.unplug();
    uevents::send(Action::Remove, device.info(), &device.settings().lock());
}

/// A configuration, an alternate setting or a driver changed: sysfs and other processes follow.
fn selected(number: u64, device: &HostDevice) {
    let mut bus = BUS.lock();
    let Some(bus) = bus.as_mut() else { return };
    let info = device.info();
    if bus.devices.get(&(info.bus, info.address)).is_none_or(|has| has.number != number) {
        return;
    }
    if let Ok(root) = root::host() {
        // The selection holds on the device whether or not its files could be written.
        let _ = sysfs::selected_files(&root.path, device);
    }
    for watcher in bus.live_watchers() {
        watcher.selected(number, device);
    }
}

/// From now on the watcher hears of devices; first of those that are there.
pub(crate) fn watch(watcher: &Arc<dyn Watcher>) {
    let mut bus = BUS.lock();
    let bus = bus.get_or_insert_default();
    for attachment in bus.devices.values() {
        watcher.attached(attachment.number, &attachment.device);
    }
    bus.watchers.push(Arc::downgrade(watcher));
}

/// The device with a node's bus and address, here or at the process that serves the bus.
pub(crate) fn find(number: u8, address: u8) -> Result<NodeRef, Errno> {
    let root = root::root().ok_or(Errno(libc::ENOENT))?;
    match root.role {
        // A forked child has the devices' files, not the threads that move them.
        Role::Host if root.process != this_process() => Err(Errno(libc::ENODEV)),
        Role::Host => {
            let bus = BUS.lock();
            let found = bus.as_ref().and_then(|bus| bus.devices.get(&(number, address)));
            found.map(|attachment| attachment.device.clone() as NodeRef).ok_or(Errno(libc::ENOENT))
        }
        Role::Client => client::find(number, address),
    }
}

/// A listener for hot-plug was opened: events of another process's bus must reach it.
pub(crate) fn connect() {
    if root::root().is_some_and(|root| root.role == Role::Client) {
        // Without a bus there is nothing to hear.
        let _ = client::connect();
    }
}
