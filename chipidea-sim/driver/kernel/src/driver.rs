//! udc.c as the bench's processor runs it.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use bus::Mmio;
use chipidea_driver::{Config, Workarounds};
use pool::DmaApi;
use usb::ch9::EndpointDescriptor;
use usb::gadget::{Completion, QueueError, Request, RequestError, UdcError};
use usb::{Direction, EndpointAddress, Gadget, Speed, TransferType, Udc, UdcDriver};

use crate::abi;
use crate::handle::{Handle, controller};
use crate::host::end_mapping;
use crate::shared::Shared;
use crate::udc_file::Loaded;

/// A controller with the kernel's driver, bound to a gadget.
pub struct KernelUdc {
    shared: Box<Shared>,
}

// SAFETY: its pointers are to itself and to what udc.c allocated for it, which one thread at a time uses; udc.c keeps nothing
// by thread, and the glue only what a call needs while it is under way.
unsafe impl Send for KernelUdc {}

impl KernelUdc {
    pub(crate) fn start(
        file: Arc<Loaded>,
        mmio: Arc<dyn Mmio>,
        dma: DmaApi,
        config: &Config,
    ) -> Result<Self, UdcError> {
        let name = CString::new(config.name.as_str()).unwrap_or_default();
        let mut udc = Self { shared: Shared::new(file, mmio, dma, name, config.headroom)? };
        if let Err(error) = udc.probe(config) {
            // The first failure is the one to tell.
            let _ = udc.shutdown();
            return Err(error);
        }
        Ok(udc)
    }

    fn probe(&self, config: &Config) -> Result<(), UdcError> {
        let shared = &*self.shared;
        let works_around = config.workarounds != Workarounds::NONE;
        let asked = abi::Config {
            name: shared.name.as_ptr(),
            capoffset: config.capoffset,
            interrupt_threshold: config.interrupt_threshold.into(),
            registers_shared: config.registers_shared.into(),
            disable_streaming: config.disable_streaming.into(),
            ahb_burst: config.ahb_burst.map_or(-1, i32::from),
            works_around: works_around.into(),
        };
        let mut made = ptr::null_mut();
        let numbers = shared.ask("ci_hdrc_gadget_init", controller, |calls, call, _| {
            // SAFETY: the name lives as long as the driver; `made` is written before the call returns.
            unsafe { (calls.probe)(call, &raw const asked, &raw mut made) }
        })?;
        shared.set_udc(made);
        shared.endpoints.set(u8::try_from(numbers).unwrap_or(0));
        shared.works_around.set(works_around);
        shared.ask("ci_udc_start", controller, |calls, call, udc| {
            // SAFETY: the driver was made above.
            unsafe { (calls.start)(call, udc) }
        })?;
        Ok(())
    }

    /// What udc.c did not give back at its removal: requests, mappings, memory.
    fn clear_up(&self) {
        let shared = &*self.shared;
        let left: Vec<_> = shared.state.borrow().mappings.iter().map(|mapping| mapping.buffer.dma).collect();
        left.into_iter().for_each(|dma| end_mapping(shared, dma));
        let requests = std::mem::take(&mut shared.state.borrow_mut().requests);
        if !requests.is_empty() {
            shared.log(format!("{} requests did not come back when the driver was removed", requests.len()));
        }
        let state = &mut *shared.state.borrow_mut();
        state.done.extend(requests.into_iter().map(|in_flight| Completion {
            endpoint: in_flight.endpoint,
            request: in_flight.request,
            status: Err(RequestError::Shutdown),
        }));
        state.buffers.release(&shared.dma);
    }
}

impl UdcDriver for KernelUdc {
    fn irq(&mut self, gadget: &mut dyn Gadget) {
        let shared = &*self.shared;
        shared.deliver(gadget);
        if shared.is_gone() {
            return;
        }
        let handled = shared.lend(gadget, || {
            shared.ask("udc_irq", controller, |calls, call, udc| {
                // SAFETY: the driver is there.
                unsafe { (calls.interrupt)(call, udc) }
            })
        });
        // It never refuses; `failure` tells a crash.
        drop(handled);
    }

    fn deliver(&mut self, gadget: &mut dyn Gadget) -> bool {
        self.shared.deliver(gadget)
    }

    fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.shared.state.borrow_mut().log)
    }

    fn failure(&self) -> Option<String> {
        self.shared.crash()
    }

    fn shutdown(&mut self) -> Result<(), UdcError> {
        let shared = &*self.shared;
        if shared.is_gone() {
            return Ok(());
        }
        let removed = shared.ask("ci_hdrc_gadget_destroy", controller, |calls, call, udc| {
            // SAFETY: the driver is there, and is not called again.
            unsafe { (calls.remove)(call, udc) }
        });
        self.clear_up();
        if shared.objects() > 0 && removed.is_ok() {
            shared.log(format!("{} objects of kmalloc were not freed", shared.objects()));
        }
        shared.release();
        removed?;
        match shared.state.borrow_mut().kept.take() {
            Some(kept) => Err(UdcError::Hardware(kept)),
            None => Ok(()),
        }
    }
}

impl Udc for KernelUdc {
    fn name(&self) -> &str {
        self.shared.name.to_str().unwrap_or_default()
    }

    fn max_speed(&self) -> Speed {
        Handle(&self.shared).max_speed()
    }

    fn endpoints(&self) -> u8 {
        Handle(&self.shared).endpoints()
    }

    fn speed(&self) -> Option<Speed> {
        Handle(&self.shared).speed()
    }

    fn match_endpoint(&self, kind: TransferType, direction: Direction, taken: &[EndpointAddress]) -> Option<u8> {
        Handle(&self.shared).match_endpoint(kind, direction, taken)
    }

    fn enable(&mut self, descriptor: &EndpointDescriptor) -> Result<(), UdcError> {
        Handle(&self.shared).enable(descriptor)
    }

    fn disable(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        Handle(&self.shared).disable(endpoint)
    }

    fn queue(&mut self, endpoint: EndpointAddress, request: Request) -> Result<(), QueueError> {
        Handle(&self.shared).queue(endpoint, request)
    }

    fn dequeue(&mut self, endpoint: EndpointAddress, id: u64) -> Result<(), UdcError> {
        Handle(&self.shared).dequeue(endpoint, id)
    }

    fn set_halt(&mut self, endpoint: EndpointAddress, halt: bool) -> Result<(), UdcError> {
        Handle(&self.shared).set_halt(endpoint, halt)
    }

    fn set_wedge(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        Handle(&self.shared).set_wedge(endpoint)
    }

    fn flush(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        Handle(&self.shared).flush(endpoint)
    }

    fn set_self_powered(&mut self, on: bool) {
        Handle(&self.shared).set_self_powered(on);
    }

    fn pullup(&mut self, on: bool) -> Result<(), UdcError> {
        Handle(&self.shared).pullup(on)
    }

    fn wakeup(&mut self) -> Result<(), UdcError> {
        Handle(&self.shared).wakeup()
    }
}
