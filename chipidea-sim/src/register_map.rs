//! The register table: name, place, reset value and what a write does, as data.

use crate::config::{Config, Layout};
use crate::registers::{UsbMode, otgsc};

/// A register of the model; also the index of its first word in [`RegisterFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the specification's, see the table")]
pub(crate) enum Reg {
    Id,
    HwGeneral,
    HwHost,
    HwDevice,
    HwTxBuf,
    HwRxBuf,
    SbusCfg,
    AhbMode,
    GenConfig,
    GenConfig2,
    CapLength,
    HcsParams,
    HccParams,
    DciVersion,
    DccParams,
    TestMode,
    UsbCmd,
    UsbSts,
    UsbIntr,
    FrIndex,
    DeviceAddr,
    EndptListAddr,
    TtCtrl,
    BurstSize,
    UlpiViewport,
    PortSc,
    DevLc,
    OtgSc,
    UsbMode,
    EndptSetupStat,
    EndptPrime,
    EndptFlush,
    EndptStat,
    EndptComplete,
    PhyCtrl,
    PhySecCtrl,
    ResetLine,
    /// The last one: it is an array.
    EndptCtrl,
}

const WORDS: usize = Reg::EndptCtrl as usize + 16;

/// What a 32-bit write does, bit by bit. Bits in none of the masks are read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteMasks {
    /// Bits that keep what is written.
    pub keep: u32,
    /// Bits that a 1 clears.
    pub clear: u32,
    /// Bits that do something and read back as the hardware decides.
    pub command: u32,
}

impl WriteMasks {
    const READ_ONLY: Self = Self { keep: 0, clear: 0, command: 0 };
    const STORAGE: Self = Self::keep(!0);

    const fn keep(keep: u32) -> Self {
        Self { keep, clear: 0, command: 0 }
    }

    const fn clear(clear: u32) -> Self {
        Self { keep: 0, clear, command: 0 }
    }

    const fn command(command: u32) -> Self {
        Self { keep: 0, clear: 0, command }
    }
}

/// One register of a model, for tests and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The specification's name, without the number in an array.
    pub name: &'static str,
    /// Byte offset of the first in the window.
    pub offset: u64,
    /// How many there are, 4 bytes apart.
    pub count: u8,
    /// Value after power-on (of number 0 in an array); status bits that follow VBUS aside.
    pub reset: u32,
    /// What a write does.
    pub write: WriteMasks,
    /// Whether USBCMD.RST resets it too.
    pub reset_by_rst: bool,
    reg: Reg,
}

#[derive(Clone, Copy)]
enum Place {
    /// From the start of the window, if the capability registers leave room.
    Identification(u64),
    /// From the start of the window.
    Window(u64),
    /// From the start of the window, in the non-LPM layout (msm parts are non-LPM).
    Vendor(u64),
    /// From the capability registers: non-LPM, LPM.
    Cap(u64, u64),
    /// From the operational registers: non-LPM, LPM.
    Op(u64, u64),
    /// From the operational registers, in the LPM layout only.
    LpmOp(u64),
}

/// Length of the capability block (CAPLENGTH).
const CAP_LENGTH: u64 = 0x40;
/// The bits of USBSTS that this model raises.
const STATUS_BITS: u32 = 0x157;
/// A port in the 16-bit parallel interface mode (PTW).
const PORTSC_RESET: u32 = 0x1000_0000;
/// RXE and TXE of endpoint 0, which is always enabled.
pub(crate) const ENDPTCTRL0_ENABLED: u32 = 0x0080_0080;

type Row = (Reg, &'static str, Place, u32, WriteMasks, bool);

#[rustfmt::skip]
const TABLE: [Row; Reg::EndptCtrl as usize + 1] = {
    use Place::{Cap, Identification, LpmOp, Op, Vendor, Window};
    const RO: WriteMasks = WriteMasks::READ_ONLY;
    [
        // register, name, place, reset value, write, reset by USBCMD.RST
        (Reg::Id, "ID", Identification(0x00), 0, RO, false),
        (Reg::HwGeneral, "HWGENERAL", Identification(0x04), 0x35, RO, false),
        (Reg::HwHost, "HWHOST", Identification(0x08), 0, RO, false),
        (Reg::HwDevice, "HWDEVICE", Identification(0x0c), 0, RO, false),
        (Reg::HwTxBuf, "HWTXBUF", Identification(0x10), 0x8007_0908, RO, false),
        (Reg::HwRxBuf, "HWRXBUF", Identification(0x14), 0x0000_0808, RO, false),
        (Reg::SbusCfg, "SBUSCFG", Window(0x90), 0, WriteMasks::keep(0x7), false),
        (Reg::AhbMode, "AHBMODE", Window(0x98), 0, WriteMasks::STORAGE, false),
        (Reg::GenConfig, "GENCONFIG", Window(0x9c), 0, WriteMasks::STORAGE, false),
        (Reg::GenConfig2, "GENCONFIG2", Window(0xa0), 0, WriteMasks::STORAGE, false),
        (Reg::CapLength, "CAPLENGTH", Cap(0x00, 0x00), 0x0100_0000 | CAP_LENGTH as u32, RO, false),
        (Reg::HcsParams, "HCSPARAMS", Cap(0x04, 0x04), 0, RO, false),
        (Reg::HccParams, "HCCPARAMS", Cap(0x08, 0x08), 0, RO, false),
        (Reg::DciVersion, "DCIVERSION", Cap(0x20, 0x20), 0x1, RO, false),
        (Reg::DccParams, "DCCPARAMS", Cap(0x24, 0x24), 0, RO, false),
        (Reg::TestMode, "TESTMODE", Cap(0x38, 0xfc), 0, WriteMasks::keep(0x1), true),
        (Reg::UsbCmd, "USBCMD", Op(0x00, 0x00), 0x0008_0000, WriteMasks { keep: 0x02ff_6001, clear: 0, command: 0x2 }, true),
        (Reg::UsbSts, "USBSTS", Op(0x04, 0x04), 0, WriteMasks::clear(STATUS_BITS), true),
        (Reg::UsbIntr, "USBINTR", Op(0x08, 0x08), 0, WriteMasks::keep(0x0001_05ff), true),
        (Reg::FrIndex, "FRINDEX", Op(0x0c, 0x0c), 0, RO, true),
        (Reg::DeviceAddr, "DEVICEADDR", Op(0x14, 0x14), 0, WriteMasks::command(0xff00_0000), true),
        (Reg::EndptListAddr, "ENDPTLISTADDR", Op(0x18, 0x18), 0, WriteMasks::keep(0xffff_f800), true),
        (Reg::TtCtrl, "TTCTRL", Op(0x1c, 0x1c), 0, WriteMasks::keep(0x7f00_0000), true),
        (Reg::BurstSize, "BURSTSIZE", Op(0x20, 0x20), 0x1010, WriteMasks::keep(0xffff), true),
        (Reg::UlpiViewport, "ULPI_VIEWPORT", Op(0x30, 0x30), 0x0800_0000, WriteMasks::command(!0), true),
        (Reg::PortSc, "PORTSC", Op(0x44, 0x44), PORTSC_RESET, WriteMasks { keep: 0xf3f0_d000, clear: 0x2a, command: 0x000f_0040 }, true),
        (Reg::DevLc, "DEVLC", LpmOp(0x84), 0, WriteMasks::keep(0xf8c0_0000), true),
        // OTGSC looks at the cable, not at the controller: RST leaves it alone.
        (Reg::OtgSc, "OTGSC", Op(0x64, 0xc4), otgsc::ID | otgsc::BSE | 0x20, WriteMasks { keep: 0x7f00_00ff, clear: otgsc::CHANGES, command: 0 }, false),
        (Reg::UsbMode, "USBMODE", Op(0x68, 0xc8), 0, WriteMasks { keep: 0x7038, clear: 0, command: 0x3 }, true),
        (Reg::EndptSetupStat, "ENDPTSETUPSTAT", Op(0x6c, 0xd8), 0, WriteMasks::clear(0xffff), true),
        (Reg::EndptPrime, "ENDPTPRIME", Op(0x70, 0xdc), 0, WriteMasks::command(!0), true),
        (Reg::EndptFlush, "ENDPTFLUSH", Op(0x74, 0xe0), 0, WriteMasks::command(!0), true),
        (Reg::EndptStat, "ENDPTSTAT", Op(0x78, 0xe4), 0, RO, true),
        (Reg::EndptComplete, "ENDPTCOMPLETE", Op(0x7c, 0xe8), 0, WriteMasks::clear(!0), true),
        (Reg::PhyCtrl, "PHYCTRL", Vendor(0x240), 0, WriteMasks::STORAGE, false),
        (Reg::PhySecCtrl, "PHYSECCTRL", Vendor(0x278), 0, WriteMasks::STORAGE, false),
        (Reg::ResetLine, "RESETLINE", Window(0x1000), 0, WriteMasks::keep(0x3), false),
        (Reg::EndptCtrl, "ENDPTCTRL", Op(0x80, 0xec), ENDPTCTRL0_ENABLED, WriteMasks { keep: 0x008d_008d, clear: 0, command: 0x0040_0040 }, true),
    ]
};

/// The registers of one controller, with their places in its window.
#[derive(Clone, Debug)]
pub(crate) struct RegisterMap {
    registers: Vec<Register>,
    /// For each word of the window the row in `registers`, [`NONE`] for none.
    words: Vec<u8>,
}

const NONE: u8 = u8::MAX;

impl RegisterMap {
    pub(crate) fn new(config: &Config) -> Self {
        let cap = u64::from(config.cap_offset);
        let op = cap + CAP_LENGTH;
        let lpm = config.layout == Layout::Lpm;
        let mut registers = Vec::with_capacity(TABLE.len());
        for (reg, name, place, reset, write, reset_by_rst) in TABLE {
            let offset = match place {
                Place::Identification(at) => (cap >= 0x18).then_some(at),
                Place::Window(at) => Some(at),
                Place::Vendor(at) => (!lpm).then_some(at),
                Place::Cap(non_lpm, with_lpm) => Some(cap + if lpm { with_lpm } else { non_lpm }),
                Place::Op(non_lpm, with_lpm) => Some(op + if lpm { with_lpm } else { non_lpm }),
                Place::LpmOp(at) => lpm.then_some(op + at),
            };
            let count = if reg == Reg::EndptCtrl { config.endpoints } else { 1 };
            let Some(offset) = offset.filter(|offset| offset + 4 * u64::from(count) <= config.window) else {
                continue;
            };
            let reset = match reg {
                Reg::Id => config.identification(),
                Reg::HwHost => u32::from(config.host_capable),
                Reg::HwDevice => 1 | u32::from(config.endpoints) << 1,
                Reg::HccParams => config.hccparams(),
                Reg::DccParams => config.dccparams(),
                Reg::UsbMode if !config.host_capable => u32::from(UsbMode::DEVICE),
                _ => reset,
            };
            registers.push(Register { name, offset, count, reset, write, reset_by_rst, reg });
        }
        let mut words = Vec::new();
        for (row, register) in registers.iter().enumerate() {
            let first = (register.offset / 4) as usize;
            let end = first + usize::from(register.count);
            if words.len() < end {
                words.resize(end, NONE);
            }
            words[first..end].fill(row as u8);
        }
        Self { registers, words }
    }

    pub(crate) fn registers(&self) -> &[Register] {
        &self.registers
    }

    /// The register at the word-aligned `offset`, and its number in an array.
    pub(crate) fn find(&self, offset: u64) -> Option<(&Register, u8)> {
        let row = *self.words.get(usize::try_from(offset / 4).ok()?)?;
        let register = self.registers.get(usize::from(row))?;
        Some((register, ((offset - register.offset) / 4) as u8))
    }
}

impl Register {
    pub(crate) fn reg(&self) -> Reg {
        self.reg
    }
}

/// The value of every register.
#[derive(Clone, Debug)]
pub(crate) struct RegisterFile([u32; WORDS]);

impl RegisterFile {
    pub(crate) fn new(map: &RegisterMap) -> Self {
        let mut file = Self([0; WORDS]);
        for register in map.registers() {
            file.0[register.reg as usize] = register.reset;
        }
        file
    }

    /// USBCMD.RST: what it resets is as after power-on.
    pub(crate) fn reset(&mut self, map: &RegisterMap) {
        for register in map.registers().iter().filter(|register| register.reset_by_rst) {
            let first = register.reg as usize;
            self.0[first..first + usize::from(register.count)].fill(0);
            self.0[first] = register.reset;
        }
    }

    pub(crate) fn get(&self, reg: Reg) -> u32 {
        self.0[reg as usize]
    }

    pub(crate) fn set(&mut self, reg: Reg, value: u32) {
        self.0[reg as usize] = value;
    }

    /// The `index`-th of an array, below 16.
    pub(crate) fn get_at(&self, reg: Reg, index: u8) -> u32 {
        self.0[reg as usize + usize::from(index & 15)]
    }

    /// Sets the `index`-th of an array, below 16.
    pub(crate) fn set_at(&mut self, reg: Reg, index: u8, value: u32) {
        self.0[reg as usize + usize::from(index & 15)] = value;
    }
}
