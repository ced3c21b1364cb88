//! The controller as the machine sees it: one lock, registers, effects after the lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bus::{AccessKind, IrqLine, Mmio, Width};
use devices::{Device, DmaPort};
use parking_lot::Mutex;
use usb::wire::PortListener;

use crate::config::Config;
use crate::core::{Core, Effect};
use crate::errata::Struck;
use crate::pause::{PAUSES, Pause};
use crate::register_map::{Register, RegisterMap};
use crate::trace::{RegisterEvent, SOURCE};

/// A Chipidea device controller: registers ([`Mmio`]), machine side ([`Device`]), and upstream port
/// ([`usb::UsbPort`]).
///
/// All methods may be called from any thread, and from within the calls that the controller makes to its interrupt
/// line and to its [`PortListener`]: it makes them with its lock open.
pub struct Chipidea {
    map: RegisterMap,
    window: u64,
    dma: DmaPort,
    irq: Arc<dyn IrqLine>,
    listener: Mutex<Option<Arc<dyn PortListener>>>,
    core: Mutex<Core>,
}

impl Chipidea {
    /// A controller after power-on. It reaches memory by `dma`, whose trace also takes its own events, and drives the
    /// level of `irq`.
    #[must_use]
    pub fn new(config: Config, dma: DmaPort, irq: Arc<dyn IrqLine>) -> Arc<Self> {
        let config = config.sanitised();
        let map = RegisterMap::new(&config);
        let core = Mutex::new(Core::new(&config, &map));
        Arc::new(Self { map, window: config.window, dma, irq, listener: Mutex::default(), core })
    }

    /// The registers that this controller has, by rising offset within each block.
    #[must_use]
    pub fn registers(&self) -> &[Register] {
        self.map.registers()
    }

    /// What its errata did since it was made, the first of it (64 at most).
    #[must_use]
    pub fn struck(&self) -> Vec<Struck> {
        self.core.lock().errata.struck.clone()
    }

    pub(crate) fn listen(&self, listener: Option<Arc<dyn PortListener>>) {
        *self.listener.lock() = listener;
    }

    /// One access or burst under the lock, then its effects without it.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Core, &DmaPort) -> R) -> R {
        let (result, effects) = {
            let mut core = self.core.lock();
            let result = work(&mut core, &self.dma);
            core.settle();
            (result, std::mem::take(&mut core.effects))
        };
        effects.deliver(|effect| self.deliver(effect));
        result
    }

    fn deliver(&self, effect: Effect) {
        if effect == Effect::Interrupt {
            return self.show_level();
        }
        let listener = self.listener.lock().clone();
        let Some(listener) = listener else {
            return;
        };
        match effect {
            Effect::Interrupt => {}
            Effect::AttachChanged => listener.attach_changed(),
            Effect::Ready(endpoint) => listener.ready(endpoint),
            Effect::RemoteWakeup => listener.remote_wakeup(),
        }
    }

    /// Shows the level as it is now, not as it was when the effect was noted: of two threads that deliver, the last to
    /// call the line then leaves the right level on it.
    fn show_level(&self) {
        let mut level = self.core.lock().level();
        loop {
            self.irq.set(level);
            let now = self.core.lock().level();
            if now == level {
                return;
            }
            level = now;
        }
    }

    /// The words that an access of `width` bytes at `offset` touches, with the shift of each in the access's bytes
    /// counted from the first word.
    fn words(&self, offset: u64, width: Width) -> impl Iterator<Item = (u64, u32)> {
        let first = offset & !3;
        let end = offset.saturating_add(width as u64).min(self.window);
        (0..3).map(move |word| (first.saturating_add(4 * u64::from(word)), 32 * word)).filter(move |(at, _)| *at < end)
    }

    fn trace(&self, access: AccessKind, offset: u64, value: u32) {
        self.dma.trace().emit(SOURCE, || {
            let found = self.map.find(offset);
            RegisterEvent {
                name: found.map(|(register, _)| register.name),
                index: found.filter(|(register, _)| register.count > 1).map(|(_, index)| index),
                offset,
                access,
                value,
            }
        });
    }
}

impl Mmio for Chipidea {
    fn read(&self, offset: u64, width: Width) -> u64 {
        let bytes = self.with(|core, _| {
            let mut bytes = 0_u128;
            for (at, shift) in self.words(offset, width) {
                let value =
                    self.map.find(at).map_or(0, |(register, index)| core.registers.get_at(register.reg(), index));
                self.trace(AccessKind::Read, at, value);
                bytes |= u128::from(value) << shift;
            }
            bytes
        });
        (bytes >> (8 * (offset & 3))) as u64 & mask(width)
    }

    fn write(&self, offset: u64, width: Width, value: u64) {
        let shift_in = 8 * (offset & 3);
        let bytes = u128::from(value & mask(width)) << shift_in;
        let all_lanes = u128::from(mask(width)) << shift_in;
        self.with(|core, dma| {
            for (at, shift) in self.words(offset, width) {
                // One word's share.
                let (value, lanes) = ((bytes >> shift) as u32, (all_lanes >> shift) as u32);
                self.trace(AccessKind::Write, at, value);
                if let Some((register, index)) = self.map.find(at) {
                    core.write(dma, &self.map, register, index, value, lanes);
                }
            }
        });
    }
}

const fn mask(width: Width) -> u64 {
    u64::MAX >> (64 - 8 * width as u32)
}

impl Device for Chipidea {
    fn step(&self, now: Duration) {
        self.with(|core, _| core.step(now));
    }

    fn pauses(&self) -> &'static [&'static str] {
        &PAUSES
    }

    fn pause(&self, place: usize) {
        if let Some(pause) = Pause::ALL.get(place) {
            self.with(|core, _| core.pause_at(*pause));
        }
    }

    fn go_on(&self) {
        self.with(|core, dma| core.go_on(dma));
    }

    /// VBUS stays as the host has it.
    fn power_on(&self) {
        self.with(|core, _| core.power_on(&self.map));
    }
}

impl fmt::Debug for Chipidea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chipidea").field("dma", &self.dma).finish_non_exhaustive()
    }
}
