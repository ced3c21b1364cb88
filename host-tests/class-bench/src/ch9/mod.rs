//! x
/// x
#[derive(Debug)]
pub struct Report;
pub(crate) async fn run(_: &crate::ClassHost) -> Report { Report }
