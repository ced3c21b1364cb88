//! Unmodified programs of the distribution.

mod common;

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use common::{Bench, new_bus};
use usb::ch9::DescriptorType;
use usbfs_shim::Server;

static SERVER: LazyLock<Server> = LazyLock::new(|| usbfs_shim::serve().unwrap());

/// A program that sees the bus. Where it is not installed the test says what to install and passes, but not on CI.
#[allow(clippy::print_stderr, reason = "whoever runs the tests must know what was not tested")]
fn installed(program: &str, package: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found: Option<PathBuf> =
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.exists());
    if let Some(found) = found {
        return Some(SERVER.command(found).unwrap());
    }
    assert!(std::env::var_os("CI").is_none(), "{program} is not installed: install Debian's package {package}");
    eprintln!("not tested: {program} is not installed. Install Debian's package {package}.");
    None
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text + &errors
}

#[test]
fn lsusb_lists_the_device_its_hub_and_its_root_hub() {
    let Some(mut lsusb) = installed("lsusb", "usbutils") else { return };
    let attached = Bench::loopback("ls").attach(new_bus());
    let text = output(&mut lsusb);
    let bus = attached.bus();
    for line in [
        format!("Bus {bus:03} Device 007: ID 1209:0001 "),
        format!("Bus {bus:03} Device 001: ID 1d6b:0002 "),
        format!("Bus {bus:03} Device 127: ID 1d6b:0104 "),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn lsusb_shows_every_descriptor() {
    let Some(mut lsusb) = installed("lsusb", "usbutils") else { return };
    let bench = Bench::loopback("every");
    let attached = bench.attach(new_bus());
    let text = output(lsusb.args(["-v", "-s", &format!("{}:7", attached.bus())]));
    let words: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let count = |wanted: &str| words.iter().filter(|line| line.starts_with(wanted)).count();
    for line in [
        "iManufacturer 1 Somebody",
        "iProduct 2 Test device",
        "iSerial 3 every",
        "bNumInterfaces 2",
        "MaxPower 100mA",
        "Device Status: 0x0000",
        "bEndpointAddress 0x84 EP 4 IN",
    ] {
        assert_eq!(count(line), 1, "{line}\n{text}");
    }
    let descriptors = bench.info(1, 7, &[1]).descriptors;
    let endpoints = usb::ch9::descriptors(&descriptors).filter(|(kind, _)| *kind == DescriptorType::Endpoint).count();
    assert_eq!(count("Endpoint Descriptor:"), endpoints, "{text}");
    assert!(!text.contains("can't get") && !text.contains("Couldn't"), "{text}");
}

#[test]
fn lsusb_shows_hubs_with_their_ports() {
    let Some(mut lsusb) = installed("lsusb", "usbutils") else { return };
    let attached = Bench::loopback("hub").attach(new_bus());
    let text = output(lsusb.args(["-v", "-s", &format!("{}:1", attached.bus())]));
    assert!(text.contains("Hub Port Status:") && text.contains("Port 1: 0000.0503"), "{text}");
}

#[test]
fn lsusb_draws_the_tree() {
    let Some(mut lsusb) = installed("lsusb", "usbutils") else { return };
    let attached = Bench::loopback("tree").attach(new_bus());
    let text = output(lsusb.arg("-t"));
    // Class names need the hardware database, and releases differ in how many digits they print.
    let after = |line: &str, key: &str| -> Option<u32> {
        let rest = line.split_once(key)?.1.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let place = |line: &str| (after(line, "Port "), after(line, "Dev "), after(line, "If "));
    let mut lines = text.lines().skip_while(|line| after(line, "Bus ") != Some(attached.bus().into()));
    let root = lines.next().expect("the bus");
    assert!(place(root) == (Some(1), Some(1), None) && root.contains("Driver=usbfs-shim/15p, 480M"), "{text}");
    let hub = lines.next().expect("the hub");
    assert!(place(hub) == (Some(1), Some(127), Some(0)) && hub.contains("Driver=hub/15p, 480M"), "{text}");
    let interfaces: Vec<_> = lines.take(2).map(place).collect();
    assert_eq!(interfaces, [(Some(3), Some(7), Some(0)), (Some(3), Some(7), Some(1))], "{text}");
}

/// As PyUSB does it: libusb and with it libudev come by `dlopen`, where RTLD_NEXT does not see them.
#[test]
fn a_libusb_that_is_loaded_as_a_plug_in_lists_the_device() {
    let Some(mut python) = installed("python3", "python3") else { return };
    let attached = Bench::loopback("plug-in").attach(new_bus());
    let program = "import ctypes as c
usb = c.CDLL('libusb-1.0.so.0')
print('init', usb.libusb_init(None))
devices = c.POINTER(c.c_void_p)()
usb.libusb_get_device_list.restype = c.c_ssize_t
for at in range(usb.libusb_get_device_list(None, c.byref(devices))):
    device = c.c_void_p(devices[at])
    print(usb.libusb_get_bus_number(device), usb.libusb_get_device_address(device))
";
    let text = output(python.args(["-c", program]));
    let (bus, device) = (attached.bus(), attached.address());
    assert!(text.starts_with("init 0\n") && text.contains(&format!("\n{bus} {device}\n")), "{text}");
}

/// AddressSanitizer takes over the same functions of libc, and wants to be the first to.
#[test]
fn a_program_with_address_sanitizer_sees_the_bus() {
    let attached = Bench::loopback("asan").attach(new_bus());
    let (source, program) = (SERVER.root().join("asan.c"), SERVER.root().join("asan"));
    let text = r#"#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
int main(int count, char **arguments) {
    int descriptor = open(arguments[1], O_RDWR), speed = ioctl(descriptor, 0x551f, 0);
    volatile char *byte = malloc(1);
    printf("%d\n", speed);
    fflush(stdout);
    return byte[speed - 2];
}
"#;
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").args(["-fsanitize=address", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success(), "a C compiler with AddressSanitizer");
    let node = format!("/dev/bus/usb/{:03}/{:03}", attached.bus(), attached.address());
    let output = SERVER.command(&program).unwrap().arg(node).output().unwrap();
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "3\n", "{error}");
    assert!(error.contains("heap-buffer-overflow"), "it still finds what it is there for: {error}");
}

#[test]
fn fastboot_reads_a_variable_and_flashes() {
    let Some(mut fastboot) = installed("fastboot", "fastboot") else { return };
    let bench = Bench::fastboot("fb1");
    let _attached = bench.attach(new_bus());
    let text = output(fastboot.args(["-s", "fb1", "getvar", "product"]));
    assert!(text.contains("product: bench"), "{text}");

    let image: Vec<u8> = (0..32u32 << 20).map(|at| (at ^ at >> 9) as u8).collect();
    let file = SERVER.root().join("image");
    std::fs::write(&file, &image).unwrap();
    let Some(mut fastboot) = installed("fastboot", "fastboot") else { return };
    let text = output(fastboot.args(["-s", "fb1", "flash", "system"]).arg(&file));
    assert!(text.contains("Sending") && text.contains("OKAY"), "{text}");
    assert!(bench.downloaded() == image, "what arrived is what was sent");
}
