//! What waits for a client to read it.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::protocol::{Frame, MOST_IN_FLIGHT, URB_BYTES};

/// Data that wait. What a client of ours has not read it takes for in flight, and keeps that to half of this.
const MOST_BYTES: usize = 2 * MOST_IN_FLIGHT;
/// Frames that wait, likewise; more, and the client does not read.
const MOST_FRAMES: usize = MOST_BYTES / URB_BYTES;

/// Frames on their way to one client, from any thread, for one that writes them.
#[derive(Default)]
pub(crate) struct Outgoing {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Data of the frames.
    bytes: usize,
    ended: bool,
}

impl Outgoing {
    /// Adds a frame, unless it has ended. `false` if too much waits: it has ended by that.
    pub(crate) fn push(&self, frame: Frame) -> bool {
        let mut queue = self.queue.lock();
        if queue.ended {
            return true;
        }
        queue.bytes += frame.data.len();
        queue.frames.push_back(frame);
        let fits = queue.frames.len() <= MOST_FRAMES && queue.bytes <= MOST_BYTES;
        if !fits {
            *queue = Queue { ended: true, ..Queue::default() };
        }
        self.more.notify_one();
        fits
    }

    /// Waits for the next frame; `None` once it has ended.
    pub(crate) fn next(&self) -> Option<Frame> {
        let mut queue = self.queue.lock();
        loop {
            if queue.ended {
                return None;
            }
            if let Some(frame) = queue.frames.pop_front() {
                queue.bytes -= frame.data.len();
                return Some(frame);
            }
            self.more.wait(&mut queue);
        }
    }

    /// Nothing more is taken or given.
    pub(crate) fn end(&self) {
        self.queue.lock().ended = true;
        self.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_BYTES, MOST_FRAMES, Outgoing};
    use crate::protocol::{Frame, Kind};

    fn push(outgoing: &Outgoing, bytes: usize) -> bool {
        // Zeroes that nobody touches take no memory.
        outgoing.push(Frame::new(Kind::Complete, 0, &[], vec![0; bytes]))
    }

    #[test]
    fn too_much_data_end_it_and_what_was_read_does_not_count() {
        const MIB: usize = 1 << 20;
        let outgoing = Outgoing::default();
        for _ in 0..2 * MOST_BYTES / MIB {
            assert!(push(&outgoing, MIB));
            assert!(outgoing.next().is_some());
        }
        for _ in 0..MOST_BYTES / MIB {
            assert!(push(&outgoing, MIB));
        }
        assert!(!push(&outgoing, 1));
        assert!(outgoing.next().is_none());
    }

    #[test]
    fn too_many_frames_end_it() {
        let outgoing = Outgoing::default();
        for _ in 0..MOST_FRAMES {
            assert!(push(&outgoing, 0));
        }
        assert!(!push(&outgoing, 0));
        assert!(push(&outgoing, 0), "taken and dropped");
        assert!(outgoing.next().is_none());
    }
}
