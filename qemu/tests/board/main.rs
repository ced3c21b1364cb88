//! Boards with stock kernels. They need what `qemu/setup` brings, and are run by `qemu/test`: `smoke` on every change, all
//! of them by `qemu/test --all`.

#![cfg(target_os = "linux")]

mod cable;
mod common;
mod explain;
mod functions;
mod leftovers;
mod matrix;
mod observed;
mod smoke;
