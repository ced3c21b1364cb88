//! A pool that others have used before the driver comes: seen, not judged.
//!
//! Linux's drivers that rely on an order have pools of their own, and get fresh pages. What they would see of a shared pool
//! is nobody's promise, and so no defect of anybody.

use std::collections::BTreeSet;

use bus::Owner;
use gadgets::{EthernetConfig, EthernetGadget};
use pool::{AddressOrder, Finding, Found, NEIGHBOUR};
use usb::Speed;

use super::{Outcome, Scenario};
use crate::session::Session;
use crate::sides;
use crate::verdict::Failure;

pub(super) struct Aged;

impl Scenario for Aged {
    fn name(&self) -> &'static str {
        "aged"
    }

    fn about(&self) -> &'static str {
        "pools that others have used, and share; reported, not judged: where the dQHs are, and what the host sees"
    }

    fn speeds(&self) -> &'static [Speed] {
        &[Speed::High]
    }

    fn is_judged(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let gadget = EthernetGadget::new(EthernetConfig { seed: session.seed(), ..EthernetConfig::default() });
    let outcome = match session.boot_aged(gadget) {
        Ok(()) => session.enumerated().await.map(drop),
        Err(failure) => Err(failure),
    };
    session.note(queue_heads(session));
    session.note(layout(session));
    session.note(match outcome {
        Ok(()) => "the host enumerates the device".to_owned(),
        Err(failure) => format!("the host: {failure}"),
    });
    Ok(())
}

/// Where the driver's dQHs are, in the order of the device's slots.
fn queue_heads(session: &Session) -> String {
    let (kind, _) = sides::queue_heads();
    let heads = session.board.ledger.claims_of(kind);
    let Some((_, first, pool)) = heads.first() else { return format!("the driver named no {kind}") };
    let Some(pool) = pool else { return format!("{} {kind}s in coherent memory, from {first}", heads.len()) };
    let addresses: Vec<_> = heads.iter().map(|&(_, at, _)| at).collect();
    let page_size = session.page_size();
    let pages: BTreeSet<u64> = addresses.iter().map(|at| at.0 / page_size).collect();
    let order = AddressOrder::of(&addresses);
    let on = if pages.len() == 1 { "one page".to_owned() } else { format!("{} pages", pages.len()) };
    format!("{} {kind}s from pool {pool} on {on}: {order}", heads.len())
}

/// Whether the device finds them where it looks for them.
fn layout(session: &Session) -> String {
    let (_, register) = sides::queue_heads();
    let findings = session.board.ledger.findings();
    let broken = findings.iter().find_map(|finding| match finding {
        Finding::LayoutContract(layout) => Some(layout),
        _ => None,
    });
    match broken {
        Some(layout) => {
            let wanted = Owner::new(layout.contract.kind, layout.slot);
            let found = match &layout.found {
                Found::Claimed(owner) if owner.kind.name == NEIGHBOUR.name => owner.to_string(),
                found => found.to_string(),
            };
            format!("{register} does not hold: slot {}, {wanted} to the device, is {found}", layout.slot)
        }
        None => format!("{register} holds"),
    }
}
