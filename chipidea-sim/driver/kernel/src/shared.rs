//! A driver's state on this side, which calls into udc.c and calls back from it share.
//!
//! One thread at a time runs a driver, and it is entered again from within: udc.c calls the gadget, which queues requests. So
//! everything is behind shared references, and nothing stays borrowed while udc.c or a gadget runs.

use std::any::Any;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::ffi::{CString, c_int, c_void};
use std::panic::resume_unwind;
use std::ptr;
use std::sync::Arc;

use bus::Mmio;
use c_bridge::parts::{Call, Crash, Mirror};
use chipidea_driver::buffer::{Buffer, Buffers};
use pool::{DmaApi, DmaPool};
use usb::gadget::{Completion, Request, UdcError};
use usb::{EndpointAddress, Gadget};

use crate::abi::{Calls, Context, Udc};
use crate::handle::Handle;
use crate::host::HOST;
use crate::udc_file::Loaded;

/// Lines of the log that are kept until somebody takes them; later ones are dropped.
const MOST_LINES: usize = 256;
/// Slots of endpoints.
const SLOTS: usize = 32;

/// A request that udc.c has.
pub(crate) struct InFlight {
    pub(crate) token: u64,
    pub(crate) endpoint: EndpointAddress,
    pub(crate) request: Request,
    /// `struct usb_request`, once it is queued.
    pub(crate) handle: *mut c_void,
}

/// A request's data where the controller reaches it.
pub(crate) struct Mapping {
    pub(crate) buffer: Buffer,
    pub(crate) data: *mut u8,
    pub(crate) length: usize,
    pub(crate) receives: bool,
}

pub(crate) struct State {
    pub(crate) requests: Vec<InFlight>,
    pub(crate) next_token: u64,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) buffers: Buffers,
    /// What came back and was not delivered yet.
    pub(crate) done: VecDeque<Completion>,
    pub(crate) log: Vec<String>,
    /// The slot of the request that is being queued, and the next number of a dTD for each.
    pub(crate) slot: u32,
    pub(crate) numbers: [u16; SLOTS],
    /// What could not be given back.
    pub(crate) kept: Option<String>,
    /// Why the driver answers no more.
    pub(crate) crash: Option<String>,
}

/// A driver.
pub(crate) struct Shared {
    pub(crate) file: Arc<Loaded>,
    pub(crate) mmio: Arc<dyn Mmio>,
    pub(crate) dma: DmaApi,
    pub(crate) mirror: Mirror,
    pub(crate) name: CString,
    /// Endpoint numbers, endpoint 0 included.
    pub(crate) endpoints: Cell<u8>,
    pub(crate) works_around: Cell<bool>,
    /// udc.c's pools, by the number that it has for a pointer, less one. Never taken out: a driver has two.
    pub(crate) pools: RefCell<Vec<Arc<DmaPool>>>,
    pub(crate) state: RefCell<State>,
    /// The gadget, while its driver may call it and it is not called already.
    gadget: Cell<Option<*mut (dyn Gadget + 'static)>>,
    /// A panic on its way through frames of C.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    context: UnsafeCell<Context>,
    /// Null before the probe and after the removal.
    udc: Cell<*mut Udc>,
}

impl Shared {
    pub(crate) fn new(
        file: Arc<Loaded>,
        mmio: Arc<dyn Mmio>,
        dma: DmaApi,
        name: CString,
        headroom: u16,
    ) -> Result<Box<Self>, UdcError> {
        let mirror = Mirror::new(dma.memory());
        let mirror = mirror.map_err(|error| UdcError::NoMemory(format!("memory cannot be mapped again: {error}")))?;
        let state = State {
            requests: Vec::new(),
            next_token: 1,
            mappings: Vec::new(),
            buffers: Buffers::new(headroom),
            done: VecDeque::new(),
            log: Vec::new(),
            slot: 0,
            numbers: [0; SLOTS],
            kept: None,
            crash: None,
        };
        let mut shared = Box::new(Self {
            file,
            mmio,
            dma,
            mirror,
            name,
            endpoints: Cell::new(0),
            works_around: Cell::new(true),
            pools: RefCell::default(),
            state: RefCell::new(state),
            gadget: Cell::new(None),
            panic: Cell::new(None),
            context: UnsafeCell::new(Context::new(&raw const HOST, ptr::null_mut())),
            udc: Cell::new(ptr::null_mut()),
        });
        let driver = ptr::from_ref(&*shared).cast::<c_void>().cast_mut();
        *shared.context.get_mut() = Context::new(&raw const HOST, driver);
        Ok(shared)
    }

    /// Calls into udc.c: the result, which is not negative, or what `refused` makes of it.
    pub(crate) fn ask(
        &self,
        function: &str,
        refused: impl FnOnce(c_int) -> UdcError,
        body: impl FnOnce(&Calls, *mut Call, *mut Udc) -> c_int,
    ) -> Result<c_int, UdcError> {
        match self.call(function, body)? {
            error if error < 0 => Err(refused(error)),
            result => Ok(result),
        }
    }

    /// Calls into udc.c and looks at how the call ended. After one that did not come back the driver answers no more.
    fn call(&self, function: &str, body: impl FnOnce(&Calls, *mut Call, *mut Udc) -> c_int) -> Result<c_int, UdcError> {
        if let Some(words) = self.crash() {
            return Err(UdcError::Hardware(words));
        }
        let mut call = Call::with(self.context.get().cast());
        let result = body(&self.file.calls, &raw mut call, self.udc.get());
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
        match Crash::of(&call, function, &self.mirror, &self.file.names) {
            None => Ok(result),
            Some(crash) => {
                let words = self.state.borrow_mut().crash.get_or_insert(crash.words).clone();
                Err(UdcError::Hardware(words))
            }
        }
    }

    pub(crate) fn crash(&self) -> Option<String> {
        self.state.borrow().crash.clone()
    }

    /// The driver is there from now on.
    pub(crate) fn set_udc(&self, udc: *mut Udc) {
        self.udc.set(udc);
    }

    /// Whether it is not there yet, or no more.
    pub(crate) fn is_gone(&self) -> bool {
        self.udc.get().is_null()
    }

    /// Objects of kmalloc that are in use.
    pub(crate) fn objects(&self) -> u64 {
        // SAFETY: outside of calls nobody writes to it.
        unsafe { (*self.context.get()).live_count }
    }

    pub(crate) fn log(&self, line: String) {
        let log = &mut self.state.borrow_mut().log;
        if log.len() < MOST_LINES {
            log.push(line);
        }
    }

    /// Does `work` while udc.c may call `gadget`.
    pub(crate) fn lend<T>(&self, gadget: &mut dyn Gadget, work: impl FnOnce() -> T) -> T {
        let gadget: *mut (dyn Gadget + '_) = gadget;
        // SAFETY: only the lifetime changes; it is taken out again before the reference ends, also when `work` panics.
        let gadget: *mut (dyn Gadget + 'static) = unsafe { std::mem::transmute(gadget) };
        let _lent = Lent { shared: self, before: self.gadget.replace(Some(gadget)) };
        work()
    }

    /// Calls the gadget, if it can be called now, and then hands out what came back meanwhile.
    pub(crate) fn with_gadget<T>(&self, work: impl FnOnce(&mut dyn Gadget) -> T) -> Option<T> {
        let pointer = self.gadget.take()?;
        // Also when the gadget panics.
        let _lent = Lent { shared: self, before: Some(pointer) };
        // SAFETY: lent by `lend`, which is under way, to nobody else: the cell is empty.
        let gadget = unsafe { &mut *pointer };
        let result = work(gadget);
        self.deliver(gadget);
        Some(result)
    }

    /// Hands out what came back. What the gadget takes back meanwhile waits: no gadget keeps us here for ever.
    pub(crate) fn deliver(&self, gadget: &mut dyn Gadget) -> bool {
        let waiting = self.state.borrow().done.len();
        for _ in 0..waiting {
            let Some(completion) = self.state.borrow_mut().done.pop_front() else { break };
            gadget.complete(&mut Handle(self), completion);
        }
        waiting > 0
    }

    /// Takes a request that udc.c is done with, or never got.
    pub(crate) fn take_request(&self, token: u64) -> Option<InFlight> {
        let requests = &mut self.state.borrow_mut().requests;
        let index = requests.iter().position(|in_flight| in_flight.token == token)?;
        Some(requests.remove(index))
    }

    /// Frees what udc.c allocated.
    pub(crate) fn release(&self) {
        self.udc.set(ptr::null_mut());
        // SAFETY: no call is under way, and none is made from now on.
        unsafe { (self.file.calls.release)(self.context.get()) };
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.release();
    }
}

/// Puts the cell back as it was.
struct Lent<'a> {
    shared: &'a Shared,
    before: Option<*mut (dyn Gadget + 'static)>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.shared.gadget.set(self.before);
    }
}
