//! A ULPI PHY's registers and the viewport to them (ULPI 1.1 §4; Linux: `drivers/usb/chipidea/ulpi.c`).

use bitfield_struct::bitfield;

/// ULPI_VIEWPORT.
#[bitfield(u32)]
struct Viewport {
    /// ULPIDATWR.
    write_data: u8,
    /// ULPIDATRD.
    read_data: u8,
    /// ULPIADDR.
    address: u8,
    /// ULPIPORT.
    #[bits(3)]
    port: u8,
    /// ULPISS: the interface is in its normal state.
    sync: bool,
    __: bool,
    /// ULPIRW: write.
    write: bool,
    /// ULPIRUN.
    run: bool,
    /// ULPIWU.
    wakeup: bool,
}

/// Set and clear addresses follow the write address of these registers. The last two are Qualcomm's.
const GROUPS: [u8; 9] = [0x04, 0x07, 0x0a, 0x0d, 0x10, 0x16, 0x19, 0x88, 0x96];
/// Reset, in Function Control: clears itself.
const FUNCTION_CONTROL_RESET: u8 = 1 << 5;

/// The PHY.
#[derive(Clone, Debug)]
pub(crate) struct Phy([u8; 256]);

impl Phy {
    pub(crate) fn new() -> Self {
        let mut registers = [0; 256];
        for (address, value) in [(0x00, 0x24), (0x01, 0x04), (0x04, 0x41), (0x0a, 0x06), (0x0d, 0x1f), (0x10, 0x1f)] {
            registers[address] = value;
        }
        Self(registers)
    }

    /// What the viewport reads after `value` was written to it. Wake-up and the access itself take no time.
    pub(crate) fn viewport(&mut self, value: u32, before: u32) -> u32 {
        let mut viewport = Viewport::from_bits(value).with_read_data(Viewport::from_bits(before).read_data());
        if viewport.run() {
            if viewport.write() {
                self.write(viewport.address(), viewport.write_data());
            } else {
                viewport.set_read_data(self.read(viewport.address()));
            }
        }
        viewport.with_run(false).with_wakeup(false).with_sync(true).into_bits()
    }

    /// The write, set and clear addresses read the same register.
    fn read(&self, address: u8) -> u8 {
        let (base, _) = place(address);
        self.0[usize::from(base)]
    }

    fn write(&mut self, address: u8, data: u8) {
        // Vendor and product id, and the interrupt status, are read-only.
        if matches!(address, 0x00..=0x03 | 0x13..=0x15) {
            return;
        }
        let (base, operation) = place(address);
        let register = &mut self.0[usize::from(base)];
        match operation {
            Operation::Write => *register = data,
            Operation::Set => *register |= data,
            Operation::Clear => *register &= !data,
        }
        if base == 0x04 {
            *register &= !FUNCTION_CONTROL_RESET;
        }
    }
}

enum Operation {
    Write,
    Set,
    Clear,
}

fn place(address: u8) -> (u8, Operation) {
    match GROUPS.into_iter().find(|base| (*base..base + 3).contains(&address)) {
        Some(base) if address == base + 1 => (base, Operation::Set),
        Some(base) if address == base + 2 => (base, Operation::Clear),
        _ => (address, Operation::Write),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_msm_glues_traffic() {
        let mut phy = Phy::new();
        assert_eq!(phy.viewport(0xa0000000, 0), 0x28000000, "wake-up clears at once");
        assert_eq!(phy.viewport(0x601600aa, 0), 0x281600aa, "run clears at once");
        assert_eq!(phy.viewport(0x40160000, 0), 0x0816aa00, "scratch reads back");
    }

    #[test]
    fn set_and_clear_addresses() {
        let mut phy = Phy::new();
        phy.write(0x17, 0xf0);
        phy.write(0x18, 0x30);
        assert_eq!(phy.read(0x16), 0xc0);
        assert_eq!(phy.read(0x18), 0xc0);
        phy.write(0x00, 0xff);
        assert_eq!(phy.read(0x00), 0x24, "the vendor id is read-only");
        phy.write(0x05, FUNCTION_CONTROL_RESET);
        assert_eq!(phy.read(0x04), 0x41, "the PHY's reset bit clears itself");
    }
}
