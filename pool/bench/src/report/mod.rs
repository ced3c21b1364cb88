//! Reports for people and for programs.

mod json;
mod text;

pub use json::json;
pub use text::write_text;
