//! The recorded session: a boot loader with fastboot, then Linux with its Ethernet gadget.

use std::time::Duration;

use gadgets::fastboot::Event;
use gadgets::{EthernetConfig, EthernetGadget, FastbootConfig, FastbootGadget};

use super::{Needs, Outcome, Scenario};
use usb_host::net::NetDevice;

use crate::fastboot::Fastboot;
use crate::session::{Session, expect_equal};
use crate::shared::Shared;
use crate::verdict::Failure;

/// From the first line of the record to the disconnect.
const IN_BOOT_LOADER: Duration = Duration::from_millis(13_630);
/// From the disconnect to Linux's pull-up: 24.27 s to `new full-speed…`, less debounce and reset.
const LINUX_BOOTS: Duration = Duration::from_millis(24_110);
/// From `New USB device found` to the end of the record.
const SETTLES: Duration = Duration::from_millis(100);

pub(super) struct BootloaderToEthernet;

impl Scenario for BootloaderToEthernet {
    fn name(&self) -> &'static str {
        "bootloader-to-ethernet"
    }

    fn about(&self) -> &'static str {
        "the session recorded in 2023: boot loader with fastboot, `fastboot boot`, then Linux's Ethernet gadget"
    }

    fn needs(&self) -> Needs {
        Needs { endpoints: 4, first_device_number: 91, ..Needs::default() }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let loader = Shared::new(FastbootGadget::new(FastbootConfig::default()));
    session.boot_loader(loader.clone())?;
    let device = session.enumerated().await?;
    let found = session.now();
    expect_ids(&device, 0x18d1, 0xd00d)?;

    let fastboot = Fastboot::on(&device)?;
    let image = vec![0x5a; 3 * 4096];
    fastboot.download(&image).await?;
    fastboot.command("boot").await?;
    session.settle().await;
    let boots = matches!(loader.with(|gadget| gadget.take_event()), Some(Event::Boot(booted)) if booted == image);
    expect_equal("the boot loader starts the image", &boots, &true)?;
    session.sleep((found + IN_BOOT_LOADER).saturating_sub(session.now())).await;
    session.halt()?;
    session.disconnected().await?;

    session.sleep(LINUX_BOOTS).await;
    session.boot(EthernetGadget::new(EthernetConfig { seed: session.seed(), ..EthernetConfig::default() }))?;
    let device = session.enumerated().await?;
    expect_ids(&device, 0x0525, 0xa4a2)?;
    let network = NetDevice::bind(&device).await.map_err(|error| Failure::new(error.to_string()))?;
    session.sleep(SETTLES).await;
    drop(network);
    Ok(())
}

fn expect_ids(device: &usb_host::Device, vendor: u16, product: u16) -> Result<(), Failure> {
    let descriptor = device.descriptor();
    expect_equal("idVendor:idProduct", &(descriptor.vendor.get(), descriptor.product.get()), &(vendor, product))
}
