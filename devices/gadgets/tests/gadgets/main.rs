//! The gadgets on a controller driver without a controller.

mod ethernet_descriptors;
mod host;
