//! Scatter-gather tables and what their chunks come from.

mod append;
mod machine;
mod map;
mod sources;
mod tables;
mod threads;
