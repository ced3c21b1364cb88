//! A session with usbd-serial's port: the kernel log, a line of echo, and the chapter 9 check.

use std::time::Duration;

use usb_class_bench::{Bench, BenchError, Fault, Limits, every};
use usb_device::bus::UsbBusAllocator;
use usb_device::device::StringDescriptors;
use usb_device::prelude::{UsbDeviceBuilder, UsbVidPid};

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A microcontroller with little memory, on a cable that loses every 50th packet.
    let limits = Limits { endpoints_in: 8, endpoints_out: 8, packet_memory: Some(448), ..Limits::full_speed() };
    let bench = Bench::new().limits(limits).faults(every(50, Fault::LostPacket));
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut serial = usbd_serial::SerialPort::new(&allocator);
    let strings = StringDescriptors::default().manufacturer("Somebody").product("Serial port").serial_number("TEST");
    let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x27dd))
        .device_class(usbd_serial::USB_CLASS_CDC)
        .strings(&[strings])
        .map_err(|error| format!("{error:?}"))?
        .build();
    let firmware = || {
        if device.poll(&mut [&mut serial]) {
            let mut buffer = [0; 64];
            if let Ok(count) = serial.read(&mut buffer) {
                // What does not fit is lost, as on many a serial port.
                let _ = serial.write(&buffer[..count]);
            }
        }
    };
    let (log, echo, report) = bench.run(firmware, async |host| {
        let device = host.device().await?;
        device.bulk_out(1, b"hello".to_vec(), Duration::from_secs(1)).await?;
        let echo = device.bulk_in(2, 64, Duration::from_secs(1)).await?;
        Ok::<_, BenchError>((host.log(), echo, host.ch9().await))
    })??;
    for line in log {
        println!("[{:5}.{:06}] {}", line.time.as_secs(), line.time.subsec_micros(), line.text);
    }
    println!("echo: {}\n{report}", String::from_utf8_lossy(&echo));
    Ok(())
}
