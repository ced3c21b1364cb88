//! Numbered packets both ways, and what must have come of them.

use std::sync::Arc;

use gadgets::Composite;
use parking_lot::Mutex;
use usb::Speed;
use usb::urb::UrbError;
use usb_host::Device;

use super::numbered::{IN, Numbered, OUT, number, packet};
use super::{Pending, bus};
use crate::schedule::Act;
use crate::shared::Shared;
use crate::verdict::Failure;

/// Names of the acts of [`Traffic::acts`].
pub(super) const ACTS: [&str; 3] = ["in", "out", "bus"];

/// A host that moves numbered packets.
#[derive(Clone)]
pub(super) struct Traffic {
    device: Device,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    ins: Vec<Pending>,
    outs: Vec<Pending>,
    /// Number of the next OUT packet.
    next: u32,
}

/// The ends of a host's transfers.
pub(super) struct Ends {
    /// Numbers that came in; the host's error for what did not.
    pub(super) ins: Vec<Result<Option<u32>, UrbError>>,
    /// How the OUT packets ended, by their numbers from 0.
    pub(super) outs: Vec<Result<(), UrbError>>,
}

impl Traffic {
    pub(super) fn new(device: &Device) -> Self {
        Self { device: device.clone(), state: Arc::default() }
    }

    fn max_packet(&self) -> usize {
        if self.device.speed() == Speed::High { 512 } else { 64 }
    }

    /// Asks for a packet.
    pub(super) fn r#in(&self) {
        let pending = Pending::bulk(&self.device, IN, vec![0; self.max_packet()]);
        self.state.lock().ins.push(pending);
    }

    /// Sends a packet.
    pub(super) fn out(&self) {
        let number = {
            let mut state = self.state.lock();
            state.next += 1;
            state.next - 1
        };
        let pending = Pending::bulk(&self.device, OUT, packet(number, self.max_packet()));
        self.state.lock().outs.push(pending);
    }

    /// One packet in, one packet out, and what the host has to do now.
    pub(super) fn acts(&self) -> Vec<Act> {
        let (ins, outs) = (self.clone(), self.clone());
        let [r#in, out, _] = ACTS;
        vec![Act::new(r#in, move || ins.r#in()), Act::new(out, move || outs.out()), bus(&self.device)]
    }

    /// Waits for everything that was asked for and sent, in that order.
    ///
    /// # Errors
    /// [`Failure`] for the first that does not end.
    pub(super) async fn ends(&self) -> Result<Ends, Failure> {
        let (ins, outs) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.ins), std::mem::take(&mut state.outs))
        };
        let mut ends = Ends { ins: Vec::new(), outs: Vec::new() };
        for pending in ins {
            let result = pending.end(&self.device).await?;
            ends.ins.push(result.map(|data| number(&data, self.max_packet())));
        }
        for pending in outs {
            ends.outs.push(pending.end(&self.device).await?.map(drop));
        }
        Ok(ends)
    }
}

/// Every transfer ended well, IN packets came in order, OUT packets were taken in order, and only what was withdrawn is
/// missing.
pub(super) fn expect_in_order(ends: &Ends, gadget: &Shared<Composite<Numbered>>) -> Result<(), Failure> {
    gadget.with(|gadget| {
        let numbered = gadget.functions();
        if let Some((endpoint, error)) = numbered.errors.first() {
            return Err(Failure::new(format!("a request of the gadget's on {endpoint} failed: {error}")));
        }
        let mut expected = 0;
        for result in &ends.ins {
            let number = match result {
                Ok(Some(number)) => *number,
                Ok(None) => return Err(Failure::new("an IN packet is not one of the gadget's")),
                Err(error) => return Err(Failure::new(format!("a bulk transfer on {IN}, error {}", error.errno()))),
            };
            while expected < number && numbered.withdrawn.contains(&expected) {
                expected += 1;
            }
            if number != expected {
                return Err(Failure::new(format!("IN packet {expected} was due, {number} came")));
            }
            expected += 1;
        }
        let mut missing = numbered.withdrawn_out;
        let mut taken = numbered.taken.iter();
        for (number, result) in (0_u32..).zip(&ends.outs) {
            if let Err(error) = result {
                return Err(Failure::new(format!("a bulk transfer on {OUT}, error {}", error.errno())));
            }
            // What a request that was taken back had received already is gone with it.
            let mut here = taken.clone();
            match here.next() {
                Some(Some(came)) if *came == number => taken = here,
                _ if missing > 0 => missing -= 1,
                came => {
                    return Err(Failure::new(format!("OUT packet {number} was due at the gadget, there is {came:?}")));
                }
            }
        }
        if taken.next().is_some() { Err(Failure::new("an OUT packet came twice")) } else { Ok(()) }
    })
}
