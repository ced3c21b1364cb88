//! The gadgets on a controller driver without a controller.

mod ethernet_descriptors;
mod ethernet_network;
mod fastboot;
mod garbage;
mod host;
mod network_host;
mod rndis;
mod scripted;
mod source_sink;
