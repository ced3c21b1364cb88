//! Another repository brings its own pool, driver or gadget.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pool::{AllocError, Block, DestroyError, Flags, FreeError, Metadata, PageSource, Pages, Policy, Pool};
use scenarios::{Bench, Failure, Verdict};
use usb::gadget::{Completion, Gadget, Stall, Udc};
use usb::{EndpointAddress, SetupPacket};

/// A pool that gives every block a page of its own. It keeps the contract of dma_pool.
struct PageEach {
    source: Arc<dyn PageSource>,
    live: Mutex<Vec<Pages>>,
}

impl Pool for PageEach {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        // Pages come zeroed, whatever the flags say.
        let page = self.source.alloc(1, flags)?;
        self.live.lock().unwrap().push(page);
        Ok(Block { cpu: page.cpu, dma: page.dma })
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut live = self.live.lock().unwrap();
        let index = live.iter().position(|page| page.dma == block.dma).ok_or(FreeError::Foreign(block))?;
        self.source.free(live.swap_remove(index));
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        match self.pages() {
            0 => Ok(()),
            live => Err(DestroyError::Busy { live, owners: Vec::new() }),
        }
    }

    fn pages(&self) -> usize {
        self.live.lock().unwrap().len()
    }
}

fn page_each() -> Policy {
    Policy::new("page-each", "a page for each block", Metadata::OutOfBand, 1, |_memory, source, geometry| {
        geometry.layout(1, source.page_size())?;
        Ok(Box::new(PageEach { source, live: Mutex::default() }))
    })
}

#[test]
fn my_pool_breaks_an_assumption_of_ci_hdrc() {
    let run = Bench::new().pool(page_each()).endpoints(8).run("bootloader-to-ethernet").unwrap();
    assert_eq!(run.verdict, Verdict::ClientAssumptionViolated);
    assert_eq!(run.first_finding().unwrap().name(), "LayoutContract");
    let reason = run.reason().join("\n");
    assert!(reason.contains("slot 1 is ep0 IN dQH to the device"), "{reason}");
}

#[test]
fn my_driver_takes_its_queue_heads_as_one_array_and_is_fine_on_it() {
    let run = Bench::new()
        .pool(page_each())
        .driver("my driver", |side| {
            let config = chipidea_driver::Config {
                dqh_source: chipidea_driver::DqhSource::Static,
                ..chipidea_driver::Config::default()
            };
            let mut driver = chipidea_driver::ChipideaUdc::probe(side.mmio, side.dma, config)?;
            driver.start()?;
            Ok(Box::new(driver))
        })
        .run("bootloader-to-ethernet")
        .unwrap();
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?}", run.reason());
}

/// A gadget that answers nothing but its device descriptor.
struct Mute;

impl Gadget for Mute {
    fn setup(&mut self, udc: &mut dyn Udc, setup: SetupPacket) -> Result<(), Stall> {
        if setup.request != usb::ch9::Request::GetDescriptor.0 || setup.value.get() >> 8 != 1 {
            return Err(Stall);
        }
        let mut data = vec![18, 1, 0, 2, 0xff, 0, 0, 64, 0xfe, 0xca, 1, 0, 0, 1, 0, 0, 0, 0];
        data.truncate(setup.length.get().into());
        let request = usb::gadget::Request { data, ..Default::default() };
        udc.queue(EndpointAddress::r#in(0), request).map_err(|_| Stall)
    }

    fn complete(&mut self, _: &mut dyn Udc, _: Completion) {}
    fn reset(&mut self, _: &mut dyn Udc) {}
    fn disconnect(&mut self, _: &mut dyn Udc) {}
}

#[test]
fn my_gadget_is_enumerated() {
    let run = Bench::new()
        .session("mute", async |session| {
            session.boot(Mute)?;
            let device = session.enumerated().await?;
            if device.descriptor().vendor.get() != 0xcafe {
                return Err(Failure::new("another device"));
            }
            session.sleep(Duration::from_secs(1)).await;
            Ok(())
        })
        .unwrap();
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?} {:?}", run.failure, run.log);
    assert!(run.findings.is_empty());
    assert_ne!(run.exercised.allocations, 0);
}
