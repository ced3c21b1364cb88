//! Speed of the whole path, with watch and ledger on: enumeration, bulk data, a check.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gadgets::source_sink::{BULK_IN, BULK_OUT, SourceSinkConfig, SourceSinkGadget};
use gadgets::{EthernetConfig, EthernetGadget};
use scenarios::{Bench, CheckOptions, Failure, Session, Verdict};
use usb::Speed;

/// Length of a bulk transfer on the host in bytes.
const TRANSFER: usize = 1 << 20;

/// From the pull-up to the selected configuration, on a board that is there.
fn enumeration(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("enumeration");
    for speed in [Speed::Full, Speed::High] {
        group.bench_function(BenchmarkId::from_parameter(speed), |bencher| {
            bencher.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                let run = Bench::new().speed(speed).session("enumeration", async |session| {
                    for _ in 0..times {
                        let begin = Instant::now();
                        session.boot(EthernetGadget::new(EthernetConfig::default()))?;
                        session.enumerated().await?;
                        spent += begin.elapsed();
                        session.halt()?;
                        session.disconnected().await?;
                    }
                    Ok(())
                });
                expect_no_failure(run);
                spent
            });
        });
    }
    group.bench_function("with a new bench", |bencher| {
        bencher.iter(|| {
            expect_no_failure(Bench::new().session("enumeration", async |session| {
                session.boot(EthernetGadget::new(EthernetConfig::default()))?;
                session.enumerated().await.map(drop)
            }));
        });
    });
    group.finish();
}

/// High-speed bulk: host controller, model, memory, driver, gadget, and back.
fn bulk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bulk");
    group.throughput(Throughput::Bytes(TRANSFER as u64));
    for direction in ["IN", "OUT"] {
        group.bench_function(direction, |bencher| {
            bencher.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                let run = Bench::new().session("bulk", async |session| {
                    let device = source_sink(session).await?;
                    let mut data = vec![0; TRANSFER];
                    let begin = Instant::now();
                    for _ in 0..times {
                        let timeout = Duration::from_secs(5);
                        let moved = match direction {
                            "IN" => device.bulk_in(BULK_IN.address().number, TRANSFER, timeout).await,
                            _ => device.bulk_out(BULK_OUT.address().number, std::mem::take(&mut data), timeout).await,
                        };
                        data = moved.map_err(|error| Failure::new(error.to_string()))?;
                    }
                    spent = begin.elapsed();
                    Ok(())
                });
                expect_no_failure(run);
                spent
            });
        });
    }
    group.finish();
}

async fn source_sink(session: &Session) -> Result<usb_host::Device, Failure> {
    let config = SourceSinkConfig { buflen: 64 * 1024, qlen: 8, ..SourceSinkConfig::default() };
    session.boot(SourceSinkGadget::new(config))?;
    session.enumerated().await
}

/// Every pool, every scenario, on all processors.
fn check(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check");
    group.sample_size(10);
    group.bench_function("everything", |bencher| {
        bencher.iter(|| {
            let report = scenarios::check(&CheckOptions::default(), &|_, _| {}).expect("the bench can be set up");
            assert!(!report.is_broken());
        });
    });
    group.finish();
}

fn expect_no_failure(run: Result<scenarios::Run, scenarios::BenchError>) {
    let run = run.expect("the bench can be set up");
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?} {:?}", run.failure, run.reason());
}

criterion_group!(benches, enumeration, bulk, check);
criterion_main!(benches);
