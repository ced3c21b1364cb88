//! What ci_hdrc shows of its structures in debugfs (`drivers/usb/chipidea/debug.c`), in the form that it has from Linux 5.15
//! to 7.3.

use std::fmt::Write;

use pool::CpuFault;
use usb::gadget::DebugFile;
use usb::{Direction, EndpointAddress};

use super::Engine;
use crate::dqh;
use crate::dtd;
use crate::endpoint::Endpoint;
use crate::error::EngineError;
use crate::registers::{OtgSc, PortSc, USBINTR, USBSTS, UsbCmd, UsbMode};

impl Engine {
    /// The files `qheads`, `requests` and `registers`. Registers are read, which changes none of them.
    ///
    /// # Errors
    /// [`EngineError::ShutDown`], or memory that the processor does not reach.
    pub fn debugfs(&self) -> Result<Vec<DebugFile>, EngineError> {
        if self.is_shut_down() {
            return Err(EngineError::ShutDown);
        }
        Ok(vec![
            DebugFile { name: "qheads", text: self.qheads()? },
            DebugFile { name: "requests", text: self.requests()? },
            DebugFile { name: "registers", text: self.registers_file() },
        ])
    }

    /// `ci_qheads_show`.
    fn qheads(&self) -> Result<String, EngineError> {
        let mut text = String::new();
        for number in 0..self.endpoints() {
            let rx = self.endpoint(EndpointAddress::out(number))?;
            let tx = self.endpoint(EndpointAddress::r#in(number))?;
            // As the kernel does, the low 32 bits.
            let (rx_dma, tx_dma) = (rx.head.block.dma.0 as u32, tx.head.block.dma.0 as u32);
            put(&mut text, format_args!("EP={number:02}: RX={rx_dma:08X} TX={tx_dma:08X}"));
            for (index, (rx, tx)) in self.head_words(rx)?.iter().zip(self.head_words(tx)?).enumerate() {
                put(&mut text, format_args!(" {index:04X}:    {rx:08X}    {tx:08X}"));
            }
        }
        Ok(text)
    }

    fn head_words(&self, endpoint: &Endpoint) -> Result<Vec<u32>, CpuFault> {
        (0..dqh::SIZE / 4).map(|word| self.dma.load_u32(endpoint.head.block.cpu.offset(4 * word))).collect()
    }

    /// `ci_requests_show`: of each endpoint, all RX before all TX, the dTDs that are queued.
    fn requests(&self) -> Result<String, EngineError> {
        let mut text = String::new();
        for direction in [Direction::Out, Direction::In] {
            for endpoint in self.endpoints.iter().filter(|endpoint| endpoint.address.direction == direction) {
                let side = if direction == Direction::Out { "RX" } else { "TX" };
                for descriptor in &endpoint.descriptors {
                    let dma = descriptor.link();
                    put(&mut text, format_args!("EP={:02}: TD={dma:08X} {side}", endpoint.address.number));
                    for word in 0..dtd::SIZE / 4 {
                        let value = self.dma.load_u32(descriptor.block.cpu.offset(4 * word))?;
                        put(&mut text, format_args!(" {word:04X}:    {value:08X}"));
                    }
                }
            }
        }
        Ok(text)
    }

    /// `ci_registers_show`.
    fn registers_file(&self) -> String {
        let registers = &self.registers;
        let mut values = vec![
            ("USBINTR", registers.load(USBINTR)),
            ("USBSTS", registers.load(USBSTS)),
            ("USBMODE", registers.read::<UsbMode>().into()),
            ("USBCMD", registers.read::<UsbCmd>().into()),
            ("PORTSC", registers.read::<PortSc>().into()),
        ];
        if registers.otg() {
            values.push(("OTGSC", registers.read::<OtgSc>().into()));
        }
        let mut text = String::new();
        for (name, value) in values {
            put(&mut text, format_args!("{name} reg: {value:08x}"));
        }
        text
    }
}

/// Adds a line.
fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}
