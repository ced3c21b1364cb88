//! A model of the Chipidea (ci_hdrc) USB device controller: registers, dQH and dTD engine, upstream port.
mod config;
mod controller;
mod core;
mod descriptor;
mod engine;
mod kinds;
mod layout;
mod port;
mod register_map;
mod registers;
mod slot;
mod trace;
mod transfer;
mod ulpi;

pub use config::{Config, Layout};
pub use controller::Chipidea;
pub use kinds::{BUFFER, DQH, DTD};
pub use layout::ENDPTLISTADDR;
pub use register_map::{Register, WriteMasks};
pub use trace::{Refused, RegisterEvent};
