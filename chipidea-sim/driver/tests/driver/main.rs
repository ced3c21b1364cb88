//! The driver on the model: they meet in registers and memory only.

mod accesses;
mod bench;
mod bulk;
mod control;
mod debugfs;
mod errata;
mod failures;
mod power;
mod races;
mod raw;
