//! A device's attributes as files, the way the kernel lays them out (core/sysfs.c).

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use usb::Speed;

use crate::DeviceInfo;
use crate::host_device::HostDevice;
use crate::info::{devpath, name};
use crate::node::Node;
use crate::settings::Settings;

/// Major number of the nodes (`USB_DEVICE_MAJOR`).
pub(crate) const MAJOR: u32 = 189;

const LINKS: &str = "sys/bus/usb/devices";

/// The device's folder below `/sys`.
pub(crate) fn devpath_in_sys(info: &DeviceInfo) -> PathBuf {
    let mut path = PathBuf::from(format!("devices/platform/usbfs-shim.{}", info.bus));
    for length in 0..=info.ports.len() {
        path.push(name(info.bus, &info.ports[..length]));
    }
    path
}

fn folder(root: &Path, info: &DeviceInfo) -> PathBuf {
    root.join("sys").join(devpath_in_sys(info))
}

/// Writes a file that says something new. One that is there is replaced whole: a reader sees the old text or the new one.
fn write(folder: &Path, name: &str, contents: &[u8]) -> io::Result<()> {
    let path = folder.join(name);
    match fs::read(&path) {
        Ok(old) if old == contents => Ok(()),
        Ok(_) => {
            let new = folder.join(format!(".{name}.new"));
            fs::write(&new, contents)?;
            fs::rename(new, path)
        }
        Err(_) => fs::write(path, contents),
    }
}

fn line(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    write(folder, name, format!("{text}\n").as_bytes())
}

/// Makes the device's folder, then the links by which it is found, then the node.
pub(crate) fn add(root: &Path, device: &HostDevice, children: u8) -> io::Result<()> {
    let info = device.info();
    let folder = folder(root, info);
    fs::create_dir_all(&folder)?;
    if info.ports.is_empty() {
        controller(&folder)?;
    }
    let settings = device.settings().lock().clone();
    device_files(&folder, info, &settings, children)?;
    selected_files(root, device)?;
    link(&root.join(LINKS).join(info.name()), &Path::new("../../..").join(devpath_in_sys(info)))?;
    let node = root.join(info.node().trim_start_matches('/'));
    if let Some(parent) = node.parent() {
        fs::create_dir_all(parent)?;
    }
    // What a client reads there comes from the open file; a reader of the real file sees the descriptors too.
    fs::write(node, &info.descriptors)
}

/// The host controller above a root hub, with its driver: `lsusb -t` names it.
fn controller(root_hub: &Path) -> io::Result<()> {
    let Some(controller) = root_hub.parent() else { return Ok(()) };
    link(&controller.join("driver"), Path::new("../../../bus/platform/drivers/usbfs-shim"))
}

fn link(at: &Path, target: &Path) -> io::Result<()> {
    match symlink(target, at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Takes the device away, as [`add`] brought it, backwards.
pub(crate) fn remove(root: &Path, info: &DeviceInfo) -> io::Result<()> {
    fs::remove_file(root.join(info.node().trim_start_matches('/')))?;
    fs::remove_file(root.join(LINKS).join(info.name()))?;
    let folder = folder(root, info);
    for interface in interfaces(&folder, info)? {
        fs::remove_file(root.join(LINKS).join(interface))?;
    }
    fs::remove_dir_all(folder)
}

/// Names of the interfaces' folders that exist.
fn interfaces(folder: &Path, info: &DeviceInfo) -> io::Result<Vec<String>> {
    let prefix = interface_prefix(info);
    let names = fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| name.starts_with(&prefix)).collect())
}

/// `5-1.3:`; an interface of a root hub is `5-0:1.0`.
fn interface_prefix(info: &DeviceInfo) -> String {
    format!("{}-{}:", info.bus, devpath(&info.ports))
}

fn device_files(folder: &Path, info: &DeviceInfo, settings: &Settings, children: u8) -> io::Result<()> {
    let device = &settings.device;
    let speed = match info.speed {
        Speed::Low => "1.5",
        Speed::Full => "12",
        Speed::High => "480",
    };
    let version = device.bcd_usb.get();
    let hex = |value: u8| format!("{value:02x}");
    write(folder, "descriptors", &info.descriptors)?;
    let lines = [
        ("avoid_reset_quirk", "0".to_owned()),
        ("authorized", "1".to_owned()),
        ("bcdDevice", format!("{:04x}", device.bcd_device.get())),
        ("bDeviceClass", hex(device.class)),
        ("bDeviceProtocol", hex(device.protocol)),
        ("bDeviceSubClass", hex(device.sub_class)),
        ("bMaxPacketSize0", device.max_packet_size0.to_string()),
        ("bNumConfigurations", device.configurations.to_string()),
        ("busnum", info.bus.to_string()),
        ("dev", format!("{MAJOR}:{}", info.minor())),
        ("devnum", info.address.to_string()),
        ("devpath", devpath(&info.ports)),
        ("idProduct", format!("{:04x}", device.product.get())),
        ("idVendor", format!("{:04x}", device.vendor.get())),
        ("ltm_capable", "no".to_owned()),
        ("maxchild", children.to_string()),
        ("quirks", "0x0".to_owned()),
        ("removable", "unknown".to_owned()),
        ("rx_lanes", "1".to_owned()),
        ("speed", speed.to_owned()),
        ("tx_lanes", "1".to_owned()),
        ("uevent", uevent(info, settings).join("\n")),
        ("urbnum", "0".to_owned()),
        ("version", format!("{:2x}.{:02x}", version >> 8, version & 0xff)),
    ];
    for (name, text) in lines {
        line(folder, name, &text)?;
    }
    let strings = [("manufacturer", &info.manufacturer), ("product", &info.product), ("serial", &info.serial)];
    for (name, text) in strings {
        if let Some(text) = text {
            line(folder, name, text)?;
        }
    }
    let up = "../".repeat(devpath_in_sys(info).components().count());
    link(&folder.join("subsystem"), &Path::new(&up).join("bus/usb"))?;
    link(&folder.join("driver"), &Path::new(&up).join("bus/usb/drivers/usb"))
}

/// What the device's `uevent` says (core/usb.c, core/driver.c).
pub(crate) fn uevent(info: &DeviceInfo, settings: &Settings) -> Vec<String> {
    let device = &settings.device;
    vec![
        format!("MAJOR={MAJOR}"),
        format!("MINOR={}", info.minor()),
        format!("DEVNAME={}", info.node().trim_start_matches("/dev/")),
        "DEVTYPE=usb_device".to_owned(),
        "DRIVER=usb".to_owned(),
        format!("PRODUCT={:x}/{:x}/{:x}", device.vendor.get(), device.product.get(), device.bcd_device.get()),
        format!("TYPE={}/{}/{}", device.class, device.sub_class, device.protocol),
        format!("BUSNUM={:03}", info.bus),
        format!("DEVNUM={:03}", info.address),
    ]
}

/// The files that follow what is selected: the configuration's, and a folder for each interface.
pub(crate) fn selected_files(root: &Path, device: &HostDevice) -> io::Result<()> {
    let info = device.info();
    let settings = device.settings().lock().clone();
    let folder = folder(root, info);
    let configuration = settings.configuration();
    let lines = configuration.map(|has| {
        let of = &has.descriptor;
        [
            of.value.to_string(),
            format!("{:2}", of.interfaces),
            format!("{:2x}", of.attributes),
            format!("{}mA", u16::from(of.max_power) * 2),
        ]
    });
    let names = ["bConfigurationValue", "bNumInterfaces", "bmAttributes", "bMaxPower"];
    // Without a configuration they are there, and empty.
    for (at, name) in names.into_iter().enumerate() {
        let text = lines.as_ref().map(|lines| format!("{}\n", lines[at]));
        write(&folder, name, text.unwrap_or_default().as_bytes())?;
    }
    line(&folder, "configuration", "")?;

    let prefix = interface_prefix(info);
    let mut stale = interfaces(&folder, info)?;
    for (number, _) in configuration.iter().flat_map(|has| &has.interfaces) {
        let name = format!("{prefix}{}.{number}", settings.active);
        stale.retain(|old| *old != name);
        interface_files(&folder.join(&name), device, &settings, *number)?;
        let target = Path::new("../../..").join(devpath_in_sys(info)).join(&name);
        link(&root.join(LINKS).join(&name), &target)?;
    }
    for name in stale {
        fs::remove_file(root.join(LINKS).join(&name))?;
        fs::remove_dir_all(folder.join(name))?;
    }
    Ok(())
}

fn interface_files(folder: &Path, device: &HostDevice, settings: &Settings, number: u8) -> io::Result<()> {
    let Some(alternate) = settings.alternate(number, settings.selected(number)) else { return Ok(()) };
    fs::create_dir_all(folder)?;
    let of = &alternate.descriptor;
    let lines = [
        ("authorized", "1".to_owned()),
        ("bAlternateSetting", format!("{:2}", of.alternate)),
        ("bInterfaceClass", format!("{:02x}", of.class)),
        ("bInterfaceNumber", format!("{:02x}", of.number)),
        ("bInterfaceProtocol", format!("{:02x}", of.protocol)),
        ("bInterfaceSubClass", format!("{:02x}", of.sub_class)),
        ("bNumEndpoints", format!("{:02x}", of.endpoints)),
        ("supports_autosuspend", "1".to_owned()),
        ("uevent", format!("DEVTYPE=usb_interface\nINTERFACE={}/{}/{}", of.class, of.sub_class, of.protocol)),
    ];
    for (name, text) in lines {
        line(folder, name, &text)?;
    }
    let driver = folder.join("driver");
    let _ = fs::remove_file(&driver);
    match device.driver(number) {
        Some(name) => symlink(Path::new("/sys/bus/usb/drivers").join(name), driver),
        None => Ok(()),
    }
}
