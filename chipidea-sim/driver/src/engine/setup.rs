//! SETUP packets, under the tripwire (`isr_tr_complete_handler`, `isr_setup_packet_handler`).

use usb::{EndpointAddress, SetupPacket};

use super::{Engine, MOST_ROUNDS};
use crate::error::EngineError;
use crate::fault::Fault;
use crate::registers::{ENDPTSETUPSTAT, UsbCmd};

impl Engine {
    /// Whether a SETUP of endpoint 0 waits. While it does, the controller answers with NAK whatever is primed: a user
    /// that nukes endpoint 0 now, before [`Engine::acknowledge_setup`], lets nothing of the transfer before slip out.
    #[must_use]
    pub fn setup_waits(&self) -> bool {
        self.registers.load(ENDPTSETUPSTAT) & 1 != 0
    }

    /// Acknowledges a SETUP of endpoint 0. Returns whether there was one: then flush or nuke both directions of
    /// endpoint 0, and [`Engine::read_setup`].
    pub fn acknowledge_setup(&mut self) -> bool {
        self.registers.test_and_clear(ENDPTSETUPSTAT, 1)
    }

    /// Reads the SETUP packet of endpoint 0. If another one comes while it does, the controller breaks the tripwire
    /// (USBCMD.SUTW), and it reads again.
    ///
    /// # Errors
    /// The tripwire never holds, or the dQH is not in memory.
    pub fn read_setup(&mut self) -> Result<SetupPacket, EngineError> {
        let head = self.endpoint(EndpointAddress::out(0))?.head;
        for _ in 0..MOST_ROUNDS {
            self.registers.test_and_update(|cmd: UsbCmd| cmd.with_setup_tripwire(true));
            let bytes = head.setup(&self.dma)?;
            let before = self.registers.test_and_update(|cmd: UsbCmd| cmd.with_setup_tripwire(false));
            if before.setup_tripwire() || self.has(Fault::NoSetupTripwire) {
                return Ok(SetupPacket::from_bytes(bytes));
            }
        }
        Err(EngineError::Tripwire { tries: MOST_ROUNDS })
    }
}
