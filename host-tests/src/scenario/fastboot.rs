//! A fastboot session on the pool under test.

use gadgets::fastboot::Event;
use gadgets::{FastbootConfig, FastbootGadget};

use super::{Outcome, Scenario};
use crate::fastboot::Fastboot as Client;
use crate::random::shared_payload;
use crate::session::{Session, expect_equal};
use crate::shared::Shared;
use crate::verdict::Failure;

/// Length of the download in bytes.
const IMAGE: usize = 8 << 20;

/// Length of the gadget's requests: two dTDs and a part of a third.
const REQUEST: usize = 44 << 10;

pub(super) struct Fastboot;

impl Scenario for Fastboot {
    fn name(&self) -> &'static str {
        "fastboot"
    }

    fn about(&self) -> &'static str {
        "getvar, 8 MiB download, verified, flash and reboot, with the boot loader's gadget on the pool under test"
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let config = FastbootConfig { request_size: REQUEST, ..FastbootConfig::default() };
    let loader = Shared::new(FastbootGadget::new(config));
    session.boot(loader.clone())?;
    let device = session.enumerated().await?;
    let fastboot = Client::on(&device)?;
    expect_equal("getvar:product", &fastboot.command("getvar:product").await?, &"msm8916".to_owned())?;
    expect_equal("getvar:serialno", &fastboot.command("getvar:serialno").await?, &"0123abcd".to_owned())?;

    let image = shared_payload(session.seed(), IMAGE);
    fastboot.download(&image).await?;
    let intact = loader.with(|gadget| gadget.image() == image.as_slice());
    expect_equal("the downloaded image is intact", &intact, &true)?;

    fastboot.command("flash:boot").await?;
    let flashed = loader.with(|gadget| gadget.storage().read("boot").is_some_and(|stored| stored == image.as_slice()));
    expect_equal("the flashed image is intact", &flashed, &true)?;

    fastboot.command("reboot").await?;
    session.settle().await;
    expect_equal("the boot loader's last event", &loader.with(|gadget| gadget.take_event()), &Some(Event::Reboot))?;
    session.halt()?;
    session.disconnected().await
}
