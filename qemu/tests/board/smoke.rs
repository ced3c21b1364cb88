//! What every change is tested by.

use qemu::Glue;
use usb::Speed;

use crate::common::{ECM, RNDIS, ensure, manufacturer, network, with_board};

const MIB: usize = 1 << 20;

#[test]
#[ignore = "needs qemu/setup: run qemu/test"]
fn smoke_the_oldest_kernel_by_its_msm_glue_and_rndis() {
    let change = |config: &mut qemu::BoardConfig| (config.configuration, config.speed) = (Some(RNDIS), Speed::Full);
    with_board("6.1", change, |_, device| {
        let text = manufacturer(&device);
        ensure(text.ends_with(" with ci_hdrc_msm"), || text.clone())?;
        network(&device, "rndis_host", 4 * MIB)
    });
}

#[test]
#[ignore = "needs qemu/setup: run qemu/test"]
fn smoke_the_newest_kernel_by_its_pci_glue_and_ecm() {
    let change = |config: &mut qemu::BoardConfig| (config.configuration, config.glue) = (Some(ECM), Glue::Pci);
    with_board("newest", change, |_, device| {
        let text = manufacturer(&device);
        ensure(text.ends_with(" with ci_hdrc_pci"), || text.clone())?;
        network(&device, "cdc_ether", 4 * MIB)
    });
}
