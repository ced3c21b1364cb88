//! Another repository brings its own pool, driver or gadget.

use std::sync::{Arc, Mutex};

use pool::{AllocError, Block, DestroyError, Flags, FreeError, Metadata, PageSource, Pages, Policy, Pool};
use scenarios::{Bench, Verdict, expect_equal};
use usb::ch9::Request;
use usb::gadget::{Completion, Gadget, Stall, Udc};
use usb::{EndpointAddress, SetupPacket};

/// A pool that gives every block pages of its own. It keeps the contract of dma_pool.
struct PageEach {
    source: Arc<dyn PageSource>,
    bytes: u64,
    live: Mutex<Vec<Pages>>,
}

impl Pool for PageEach {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        // Pages come zeroed, whatever the flags say.
        let pages = self.source.alloc(self.bytes, flags)?;
        self.live.lock().unwrap().push(pages);
        Ok(Block { cpu: pages.cpu, dma: pages.dma })
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut live = self.live.lock().unwrap();
        let index = live.iter().position(|pages| pages.dma == block.dma).ok_or(FreeError::Foreign(block))?;
        self.source.free(live.swap_remove(index));
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        DestroyError::check_idle(self.pages())
    }

    fn pages(&self) -> usize {
        self.live.lock().unwrap().len()
    }
}

fn page_each() -> Policy {
    let about = "pages of its own for each block";
    Policy::new("page-each", about, Metadata::OutOfBand, 1, |_memory, source, geometry| {
        let bytes = geometry.layout(1, source.page_size())?.allocation;
        Ok(Box::new(PageEach { source, bytes, live: Mutex::default() }))
    })
}

#[test]
fn my_pool_keeps_its_contract() {
    let report = pool::contract::run(&page_each(), &pool::contract::Config::default());
    assert!(report.is_kept(), "{report}");
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

/// A gadget with one configuration and nothing in it, written on the bare trait.
struct Plain;

/// 1209:0001, vendor class, one configuration.
const DEVICE: [u8; 18] = [18, 1, 0, 2, 0xff, 0, 0, 64, 0x09, 0x12, 1, 0, 0, 1, 0, 0, 0, 1];
/// Value 1, self powered, one interface without endpoints.
const CONFIGURATION: [u8; 18] = [9, 2, 18, 0, 1, 1, 0, 0xc0, 0, 9, 4, 0, 0, 0, 0xff, 0, 0, 0];

impl Gadget for Plain {
    fn setup(&mut self, udc: &mut dyn Udc, setup: SetupPacket) -> Result<(), Stall> {
        let mut data = match (setup.standard(), setup.value.get() >> 8) {
            (Some(Request::GetDescriptor), 1) => DEVICE.to_vec(),
            (Some(Request::GetDescriptor), 2) => CONFIGURATION.to_vec(),
            (Some(Request::SetConfiguration), _) => Vec::new(),
            _ => return Err(Stall),
        };
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
    let run = Bench::new().session("my gadget", async |session| {
        session.boot(Plain)?;
        let device = session.enumerated().await?;
        expect_equal("idVendor", &device.descriptor().vendor.get(), &0x1209)
    });
    let run = run.unwrap();
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?} {:?}", run.failure, run.log);
    assert!(run.exercised.allocations > 32, "the queue heads and some dTDs");
}
