use pool::Policy; use crate::row::Row;
pub(crate) fn row(_policy: &Policy, _seed: u64) -> Row { loop {} }
