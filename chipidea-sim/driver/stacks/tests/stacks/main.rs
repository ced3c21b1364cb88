//! Classes that were written for microcontrollers, on the controller's model, in virtual time.

// Links the critical sections that embassy-usb enters.
use critical_section as _;

mod board;
mod bus;
mod embassy;
mod hid;
mod races;
mod regression;
mod serial;
mod storage;
mod test_class;
