//! A gadget whose answers show which SETUP it was asked.

use gadgets::composite::Answer;
use gadgets::{Composite, Functions};
use usb::gadget::{Completion, Stall, Udc};
use usb::{Direction, SetupPacket};

use super::vendor::identity;

/// What it was asked, in order.
#[derive(Debug, Default)]
pub(super) struct Echo {
    pub(super) asked: Vec<SetupPacket>,
    /// OUT data, with its SETUP.
    pub(super) received: Vec<(SetupPacket, Vec<u8>)>,
}

/// `length` bytes that only `setup` is answered with.
pub(super) fn answer(setup: SetupPacket, length: usize) -> Vec<u8> {
    setup.to_bytes().into_iter().cycle().take(length).collect()
}

/// The gadget: vendor requests on endpoint 0, nothing else.
pub(super) fn gadget() -> Composite<Echo> {
    Composite::with_functions(identity(&[]), Echo::default())
}

impl Functions for Echo {
    fn set_alternate(&mut self, _: &mut dyn Udc, _: u8, _: u8, alternate: u8) -> Result<(), Stall> {
        if alternate == 0 { Ok(()) } else { Err(Stall) }
    }

    fn alternate(&self, _: u8, _: u8) -> u8 {
        0
    }

    fn disable(&mut self, _: &mut dyn Udc) {}

    fn control(&mut self, _: &mut dyn Udc, _: u8, setup: SetupPacket) -> Result<Answer, Stall> {
        self.asked.push(setup);
        Ok(match (setup.direction(), setup.length.get()) {
            (Direction::In, length) => Answer::Data(answer(setup, usize::from(length))),
            (Direction::Out, 0) => Answer::Done,
            (Direction::Out, _) => Answer::Receive,
        })
    }

    fn received(&mut self, _: &mut dyn Udc, setup: SetupPacket, data: &[u8]) {
        self.received.push((setup, data.to_vec()));
    }

    fn complete(&mut self, _: &mut dyn Udc, _: Completion) {}
}
