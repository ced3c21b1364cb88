//! What leaves a model after its lock is released.

/// Calls to be made once the model's lock is open: interrupt levels, hints to the host. In order, at most a few.
///
/// `E` is the model's own small `Copy` type. The list keeps its room between uses if it is reused.
#[derive(Debug)]
pub struct Effects<E>(Vec<E>);

impl<E> Effects<E> {
    /// An empty list; it takes no memory until something is added.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds one, unless it is the last one already.
    pub fn push(&mut self, effect: E)
    where
        E: PartialEq,
    {
        if self.0.last() != Some(&effect) {
            self.0.push(effect);
        }
    }

    /// Hands each to `deliver`, in order. To be called without the lock.
    pub fn deliver(self, deliver: impl FnMut(E)) {
        self.0.into_iter().for_each(deliver);
    }
}

impl<E> Default for Effects<E> {
    fn default() -> Self {
        Self::new()
    }
}
