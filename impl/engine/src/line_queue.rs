//! Lines on their way to a thread that writes them: recording one never waits, and nothing goes missing unsaid.

use std::time::Duration;

use crate::sync::{Condvar, Mutex, lock, wait, wait_briefly};

/// The lines that wait for the writer.
pub struct LineQueue<L> {
    queue: Mutex<Queue<L>>,
    /// Only the writer waits on this.
    arrived: Condvar,
    /// Those who flush wait on this.
    written: Condvar,
    /// How many lines may wait before lines are left out.
    room: usize,
    /// When so many wait, the writer takes them at once.
    plenty: usize,
    /// How long the writer gathers lines after the first one: waking it for each line would cost the calls more than the line.
    gathering: Duration,
}

struct Queue<L> {
    lines: Vec<L>,
    /// Lines that came while there was no room.
    left_out: u64,
    /// Lines that were ever queued.
    queued: u64,
    /// Lines that were ever taken to the file.
    done: u64,
    /// The writer waits for a first line.
    idle: bool,
    /// Somebody waits for the file to have everything.
    hurry: bool,
    closed: bool,
    /// The writer is gone.
    ended: bool,
}

impl<L> LineQueue<L> {
    /// An empty queue.
    pub fn new(room: usize, plenty: usize, gathering: Duration) -> LineQueue<L> {
        let queue = Queue {
            lines: Vec::new(),
            left_out: 0,
            queued: 0,
            done: 0,
            idle: false,
            hurry: false,
            closed: false,
            ended: false,
        };
        let (arrived, written) = (Condvar::new(), Condvar::new());
        LineQueue { queue: Mutex::new(queue), arrived, written, room, plenty, gathering }
    }

    /// Queues a line, or leaves it out if there is no room. Before the first line for which there is room again goes what `gap`
    /// makes of how many were left out.
    pub fn push(&self, line: L, gap: impl FnOnce(u64, &L) -> L) {
        let mut queue = lock(&self.queue);
        if queue.lines.len() >= self.room || queue.ended {
            queue.left_out += 1;
            return;
        }
        let before = queue.lines.len();
        if queue.left_out > 0 {
            let gap = gap(std::mem::take(&mut queue.left_out), &line);
            queue.lines.push(gap);
            queue.queued += 1;
        }
        queue.lines.push(line);
        queue.queued += 1;
        let is_plenty = before < self.plenty && queue.lines.len() >= self.plenty;
        let wake = std::mem::take(&mut queue.idle) || is_plenty;
        drop(queue);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// Returns once every line pushed before is written, or the writer is gone.
    pub fn flush(&self) {
        let mut queue = lock(&self.queue);
        let wanted = queue.queued;
        queue.hurry = true;
        self.arrived.notify_one();
        while queue.done < wanted && !queue.ended {
            queue = wait(&self.written, queue);
        }
    }

    /// The writer is to end once it has taken everything.
    pub fn close(&self) {
        lock(&self.queue).closed = true;
        self.arrived.notify_one();
    }

    /// For the writer: the next lines, once there are some and they have been gathered; none if there will be none any more.
    pub fn take(&self, taken: &mut Vec<L>) {
        let mut queue = lock(&self.queue);
        while queue.lines.is_empty() && !queue.closed {
            // Everything is in the file.
            queue.hurry = false;
            queue.idle = true;
            queue = wait(&self.arrived, queue);
        }
        queue.idle = false;
        let gathered = |queue: &mut Queue<L>| queue.hurry || queue.closed || queue.lines.len() >= self.plenty;
        let mut queue = wait_briefly(&self.arrived, &self.queue, queue, self.gathering, gathered);
        queue.hurry = false;
        std::mem::swap(&mut queue.lines, taken);
    }

    /// For the writer: these many more are written.
    pub fn wrote(&self, lines: usize) {
        lock(&self.queue).done += lines as u64;
        self.written.notify_all();
    }

    /// For the writer: nothing will be written any more, and nobody must wait for it.
    pub fn end(&self) {
        lock(&self.queue).ended = true;
        self.written.notify_all();
    }
}

impl<L> std::fmt::Debug for LineQueue<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineQueue").field("room", &self.room).finish_non_exhaustive()
    }
}
