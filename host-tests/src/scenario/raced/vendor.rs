//! What the gadgets of these scenarios say about themselves: Gadget Zero's numbers, one vendor interface.

use gadgets::composite::Identity;
use gadgets::configuration::{Configuration, SELF_POWERED};
use gadgets::endpoint::Endpoint;
use gadgets::strings::Strings;
use gadgets::vendor;
use zerocopy::IntoBytes;

/// A device whose interface has these endpoints.
pub(super) fn identity(endpoints: &'static [Endpoint]) -> Identity {
    let interface = vendor::interface(0, 0, endpoints.len() as u8);
    let body = move |speed| {
        let endpoints = endpoints.iter().flat_map(|endpoint| endpoint.at(speed).as_bytes().to_vec());
        interface.as_bytes().iter().copied().chain(endpoints).collect()
    };
    let configurations = vec![Configuration::new(1, SELF_POWERED, body)];
    Identity { device: vendor::device(0x0602), strings: Strings::new(), configurations }
}
