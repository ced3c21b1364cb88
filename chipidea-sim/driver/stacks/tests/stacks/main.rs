//! Classes that were written for microcontrollers, on the controller's model, in virtual time.

mod board;
mod bus;
mod hid;
mod regression;
mod serial;
mod storage;
mod test_class;
