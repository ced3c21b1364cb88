//! Hot-plug callbacks of unmodified, vendored libusb, which listens to the kernel's netlink.

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use common::{Bench, new_bus};
use rusb::{Context, Device, Hotplug, HotplugBuilder, UsbContext};

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Arrived(u8, u8),
    Left(u8, u8),
}

struct Reporter(Sender<Event>);

impl Hotplug<Context> for Reporter {
    fn device_arrived(&mut self, device: Device<Context>) {
        self.0.send(Event::Arrived(device.bus_number(), device.address())).unwrap();
    }

    fn device_left(&mut self, device: Device<Context>) {
        self.0.send(Event::Left(device.bus_number(), device.address())).unwrap();
    }
}

/// Handles events until the wanted one came. Hangs, to be seen in the test's name, if it never does.
fn wait(context: &Context, events: &Receiver<Event>, wanted: &Event) {
    loop {
        context.handle_events(Some(Duration::from_millis(10))).unwrap();
        if events.try_iter().any(|event| event == *wanted) {
            return;
        }
    }
}

#[test]
fn both_ways_again_and_again() {
    assert!(rusb::has_hotplug());
    let bus = new_bus();
    let context = Context::new().unwrap();
    let (sender, events) = channel();
    let registration = HotplugBuilder::new().enumerate(true).register(&context, Box::new(Reporter(sender))).unwrap();
    let bench = Bench::loopback("hot");
    for _ in 0..5 {
        let attached = bench.attach(bus);
        wait(&context, &events, &Event::Arrived(bus, 7));
        let device = context.devices().unwrap().iter().find(|device| device.address() == 7).unwrap();
        let handle = device.open().unwrap();
        drop(attached);
        wait(&context, &events, &Event::Left(bus, 7));
        drop(handle);
    }
    drop(registration);
}
