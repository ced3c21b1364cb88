//! A rusb program that knows nothing of any virtual bus: what the tests preload the library into.
//!
//! `rusb_program list`, or `rusb_program COMMAND BUS ADDRESS`: `loop` moves data to and fro, `hang` reads what never comes,
//! `claim` holds interface 0 until its input ends, `watch` names the devices that come and go, `speed` measures.

#![allow(clippy::print_stdout, reason = "its output is what the tests read")]

use std::io::Read;
use std::time::{Duration, Instant};

use rusb::{Context, Device, DeviceHandle, Hotplug, HotplugBuilder, UsbContext};

const LONG: Duration = Duration::from_secs(60);

struct Names;

impl Hotplug<Context> for Names {
    fn device_arrived(&mut self, device: Device<Context>) {
        println!("arrived {} {}", device.bus_number(), device.address());
    }

    fn device_left(&mut self, device: Device<Context>) {
        println!("left {} {}", device.bus_number(), device.address());
    }
}

fn main() -> rusb::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize| arguments.get(at).and_then(|text| text.parse::<u8>().ok()).ok_or(rusb::Error::InvalidParam);
    let context = Context::new()?;
    let open = || -> rusb::Result<DeviceHandle<Context>> {
        let (bus, address) = (number(1)?, number(2)?);
        let devices = context.devices()?;
        let found = devices.iter().find(|device| (device.bus_number(), device.address()) == (bus, address));
        found.ok_or(rusb::Error::NotFound)?.open()
    };
    match arguments.first().map(String::as_str) {
        Some("list") => {
            for device in context.devices()?.iter() {
                println!("{} {} {:?}", device.bus_number(), device.address(), device.port_numbers()?);
            }
        }
        Some("loop") => {
            let handle = open()?;
            handle.claim_interface(0)?;
            for size in [1, 512, 16 << 10, (1 << 20) + 1] {
                let sent: Vec<u8> = (0..size).map(|at| (at / 3) as u8).collect();
                let mut received = vec![0; size];
                handle.write_bulk(0x01, &sent, LONG)?;
                let length = handle.read_bulk(0x81, &mut received, LONG)?;
                println!("{size} {}", length == size && sent == received);
            }
        }
        Some("hang") => {
            let handle = open()?;
            handle.claim_interface(1)?;
            println!("reading");
            println!("{:?}", handle.read_bulk(0x82, &mut [0; 64], LONG));
            println!("{:?}", handle.read_control(0x80, 6, 0x0100, 0, &mut [0; 18], LONG));
        }
        Some("claim") => {
            let handle = open()?;
            println!("{:?}", handle.claim_interface(0));
            std::io::stdin().read_to_end(&mut Vec::new()).map_err(|_| rusb::Error::Io)?;
        }
        Some("watch") => {
            let _registration = HotplugBuilder::new().register(&context, Box::new(Names))?;
            println!("watching");
            loop {
                context.handle_events(Some(LONG))?;
            }
        }
        Some("speed") => speed(&open()?)?,
        _ => return Err(rusb::Error::InvalidParam),
    }
    Ok(())
}

/// Small transfers, a timeout's price, and bulk throughput of one thread.
fn speed(handle: &DeviceHandle<Context>) -> rusb::Result<()> {
    handle.claim_interface(0)?;
    handle.claim_interface(1)?;
    let mut buffer = [0; 64];
    let start = Instant::now();
    for _ in 0..2000 {
        handle.write_bulk(0x01, b"getvar:version", LONG)?;
        handle.read_bulk(0x81, &mut buffer, LONG)?;
    }
    println!("4000 small bulk transfers: {:?}", start.elapsed());

    let (start, cpu) = (Instant::now(), cpu_time());
    let result = handle.read_bulk(0x82, &mut buffer, Duration::from_millis(300));
    println!("300 ms timeout: {result:?} after {:?}, {:?} of CPU", start.elapsed(), cpu_time() - cpu);

    for size in [16 << 10, 64 << 10, 1 << 20] {
        let mut data = vec![7; size];
        let rounds = (256 << 20) / size;
        let start = Instant::now();
        for _ in 0..rounds {
            handle.write_bulk(0x01, &data, LONG)?;
            handle.read_bulk(0x81, &mut data, LONG)?;
        }
        let rate = (2 * rounds * size) as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("bulk in transfers of {} KiB, out and in: {rate:.0} MB/s", size >> 10);
    }
    Ok(())
}

/// CPU time of the whole process.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let own: u64 = text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    Duration::from_nanos(own)
}
