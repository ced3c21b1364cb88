//! Speed of unmodified rusb on a simulated board: small transfers, bulk, and what a timeout costs.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
use linux::benches;

#[cfg(target_os = "linux")]
criterion::criterion_main!(benches);

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;

    use criterion::{Criterion, Throughput, criterion_group};
    use gadgets::source_sink::{BULK_IN, BULK_OUT, SourceSinkConfig, SourceSinkGadget};
    use rusb::{Context, DeviceHandle, UsbContext};
    use scenarios::{Bench, VirtualBoard, VirtualBus};

    const LONG: Duration = Duration::from_secs(60);
    /// Small transfers in one measurement.
    const SMALL: usize = 4000;

    fn plugged() -> (VirtualBus, VirtualBoard, DeviceHandle<Context>) {
        let bus = VirtualBus::start().expect("a bus");
        let config = SourceSinkConfig { buflen: 64 << 10, qlen: 8, ..SourceSinkConfig::default() };
        let board = bus.plug(Bench::new(), SourceSinkGadget::new(config)).expect("the board is set up");
        let place = board.wait(LONG).expect("the device comes");
        let devices = Context::new().expect("libusb starts").devices().expect("libusb lists devices");
        let device = devices.iter().find(|device| (device.bus_number(), device.address()) == place);
        let handle = device.expect("rusb lists the device").open().expect("the device opens");
        handle.claim_interface(0).expect("the interface is free");
        (bus, board, handle)
    }

    fn rusb(criterion: &mut Criterion) {
        let (_bus, _board, handle) = plugged();
        let (source, sink) = (BULK_IN.address().to_byte(), BULK_OUT.address().to_byte());
        let mut group = criterion.benchmark_group("rusb");
        group.sample_size(10);
        group.bench_function("4000 transfers of 64 bytes", |bencher| {
            bencher.iter(|| {
                for _ in 0..SMALL {
                    handle.write_bulk(sink, &[0; 64], LONG).expect("the sink takes it");
                }
            });
        });
        let mut data = vec![0; 1 << 20];
        group.throughput(Throughput::Bytes(data.len() as u64));
        group.bench_function("1 MiB IN", |bencher| {
            bencher.iter(|| handle.read_bulk(source, &mut data, LONG).expect("the source gives it"));
        });
        group.bench_function("1 MiB OUT", |bencher| {
            bencher.iter(|| handle.write_bulk(sink, &data, LONG).expect("the sink takes it"));
        });
        group.finish();
    }

    criterion_group!(benches, rusb);
}
