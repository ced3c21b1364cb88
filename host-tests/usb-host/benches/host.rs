//! What this layer costs: bulk transfers through a port that does nothing, a whole enumeration in virtual time.
#![allow(missing_docs)]

#[path = "../tests/mock/mod.rs"]
mod mock;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use usb::ch9::{EndpointAddress, Speed};
use usb::urb::{Transfer, Urb};
use usb::wire::{DataPid, Handshake, HostAck, InReply, PortListener, Target, UsbPort};
use usb_host::controller::Progress;
use usb_host::{Host, HostConfig, HostController, MemoryLog, NoLog};

/// Takes every packet and gives full ones.
#[derive(Default)]
struct Trivial {
    toggle: AtomicBool,
}

impl UsbPort for Trivial {
    fn set_listener(&self, _: Option<Arc<dyn PortListener>>) {}
    fn set_vbus(&self, _: bool) {}
    fn attached(&self) -> Option<Speed> {
        Some(Speed::Full)
    }
    fn reset(&self, max: Speed) -> Option<Speed> {
        Some(max)
    }
    fn suspend(&self) {}
    fn resume(&self) {}
    fn setup(&self, _: Target, _: &[u8; 8]) -> Handshake {
        Handshake::Ack
    }
    fn data_out(&self, _: Target, _: DataPid, data: &[u8]) -> Handshake {
        black_box(data);
        Handshake::Ack
    }
    fn data_in(&self, _: Target, buffer: &mut [u8], _: HostAck) -> InReply {
        let len = buffer.len().min(512);
        buffer[..len].fill(0x55);
        let odd = self.toggle.fetch_xor(true, Ordering::Relaxed);
        InReply::Data { pid: if odd { DataPid::Data1 } else { DataPid::Data0 }, len }
    }
}

fn bulk(criterion: &mut Criterion) {
    let controller = HostController::new(Arc::new(Trivial::default()));
    controller.reset_port(Speed::High);
    let endpoints = [("out", EndpointAddress::out(1)), ("in", EndpointAddress::r#in(1))];
    let mut group = criterion.benchmark_group("bulk");
    for (name, endpoint) in endpoints {
        controller.enable_endpoint(1, endpoint, 512);
        for size in [512, 64 << 10, 1 << 20] {
            group.throughput(Throughput::Bytes(size as u64));
            let buffer = Arc::new(parking_lot::Mutex::new(vec![0; size]));
            group.bench_function(format!("{name}/{size}"), |bencher| {
                bencher.iter(|| {
                    let back = Arc::clone(&buffer);
                    let buffer = std::mem::take(&mut *buffer.lock());
                    let (transfer, zero_packet, short_not_ok) = (Transfer::Bulk, false, false);
                    let urb = Urb { address: 1, endpoint, transfer, buffer, zero_packet, short_not_ok };
                    controller.submit(
                        urb,
                        Box::new(move |done| {
                            assert_eq!((done.status, done.actual), (Ok(()), size));
                            *back.lock() = done.buffer;
                        }),
                    );
                    while controller.run() == Progress::More {}
                });
            });
        }
    }
    group.finish();
}

fn enumeration(criterion: &mut Criterion) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let mut group = criterion.benchmark_group("enumeration");
    group.bench_function("ethernet gadget", |bencher| {
        bencher.iter_batched(
            || (runtime(), mock::Mock::plugged(mock::ethernet())),
            |(runtime, mock)| {
                runtime.block_on(async {
                    let host = Host::new(mock, HostConfig::default(), Arc::new(MemoryLog::default()));
                    let task = host.clone();
                    tokio::spawn(async move { task.run().await });
                    black_box(host.device().await);
                });
                runtime
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("nothing attached", |bencher| {
        bencher.iter_batched(
            || (runtime(), mock::Mock::new(mock::ethernet())),
            |(runtime, mock)| {
                runtime.block_on(async {
                    let host = Host::new(mock, HostConfig::default(), Arc::new(NoLog));
                    let task = host.clone();
                    tokio::spawn(async move { task.run().await });
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                });
                runtime
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, bulk, enumeration);
criterion_main!(benches);
