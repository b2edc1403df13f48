//! Which settled keys may be forgotten when: the positions of their frames, by time.
//!
//! An entry takes 8 bytes: the frame's position and some bits of the time, in a bucket of about a minute. Nothing is taken out
//! when a key is forgotten or gets a newer frame. Such an entry is *stale*, and whoever comes across it throws it away.

use std::collections::BTreeMap;

use settled_protocol::Time;

/// A bucket holds this many milliseconds, as a power of two.
const BUCKET: u32 = 16;
/// Within a bucket, times are told apart by so many bits.
const FINE: u32 = 10;
/// The bits that are left for a position.
const POSITION: u32 = u64::BITS - FINE;

#[derive(Debug, Default)]
pub(crate) struct Due {
    buckets: BTreeMap<u64, Vec<u64>>,
}

/// A place in the order by time, and by position where times are too close to be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    bucket: u64,
    packed: u64,
}

impl Point {
    pub fn new(time: Time, position: u64) -> Point {
        let fine = (time.0 >> (BUCKET - FINE)) & ((1 << FINE) - 1);
        Point { bucket: time.0 >> BUCKET, packed: fine << POSITION | position & ((1 << POSITION) - 1) }
    }

    pub fn position(self) -> u64 {
        self.packed & ((1 << POSITION) - 1)
    }
}

impl Due {
    /// Notes when the key whose frame is at `position` may be forgotten.
    pub fn push(&mut self, time: Time, position: u64) {
        let Point { bucket, packed } = Point::new(time, position);
        put(self.buckets.entry(bucket).or_default(), packed);
    }

    /// Up to `limit` points after `after` up to the one of `now`, in order.
    pub fn list(&mut self, now: Time, after: Option<Point>, limit: usize) -> Vec<Point> {
        let end = Point::new(now, u64::MAX);
        let from = after.map_or(0, |after| after.bucket);
        let mut found = Vec::new();
        if from > end.bucket {
            return found;
        }
        for (&bucket, points) in self.buckets.range_mut(from..=end.bucket) {
            // In order already, but for a few.
            points.sort_unstable();
            points.dedup();
            let begin = match after {
                Some(after) if after.bucket == bucket => points.partition_point(|packed| *packed <= after.packed),
                _ => 0,
            };
            let all = points.iter().skip(begin).map(|&packed| Point { bucket, packed });
            found.extend(all.take_while(|point| *point <= end).take(limit - found.len()));
            if found.len() == limit {
                break;
            }
        }
        found
    }

    /// Throws these points away. They are in order.
    pub fn remove(&mut self, stale: &[Point]) {
        let mut rest = stale;
        while let Some(&Point { bucket, .. }) = rest.first() {
            let (these, others) = rest.split_at(rest.partition_point(|point| point.bucket == bucket));
            rest = others;
            if let Some(points) = self.buckets.get_mut(&bucket) {
                points.retain(|packed| these.binary_search_by_key(packed, |point| point.packed).is_err());
                if points.is_empty() {
                    self.buckets.remove(&bucket);
                }
            }
        }
    }

    /// Keeps the points of a bucket whose positions are wanted.
    pub fn retain_in(&mut self, bucket: u64, mut wanted: impl FnMut(u64) -> bool) {
        if let Some(points) = self.buckets.get_mut(&bucket) {
            points.retain(|&packed| wanted(Point { bucket, packed }.position()));
            points.shrink_to_fit();
            if points.is_empty() {
                self.buckets.remove(&bucket);
            }
        }
    }

    /// The numbers of all buckets.
    pub fn buckets(&self) -> Vec<u64> {
        self.buckets.keys().copied().collect()
    }

    /// What is in a bucket.
    pub fn bucket(&self, bucket: u64) -> Vec<u64> {
        self.buckets.get(&bucket).cloned().unwrap_or_default()
    }

    /// Puts back what was in a bucket.
    pub fn restore(&mut self, bucket: u64, points: Vec<u64>) {
        self.buckets.insert(bucket, points);
    }
}

/// Grows by a quarter rather than by half of what there is then, as there are many buckets.
fn put(points: &mut Vec<u64>, packed: u64) {
    if points.len() == points.capacity() {
        points.reserve_exact((points.len() / 4).max(4));
    }
    points.push(packed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(points: &[Point]) -> Vec<u64> {
        points.iter().map(|point| point.position()).collect()
    }

    #[test]
    fn what_is_due_comes_in_order_and_in_parts() {
        let mut due = Due::default();
        for (position, time) in [(1, 500_000), (2, 100), (3, 70_000), (4, 300), (5, 100), (5, 100)] {
            due.push(Time(time), position);
        }
        assert_eq!(positions(&due.list(Time(10), None, 10)), Vec::<u64>::new());
        assert_eq!(positions(&due.list(Time(400_000), None, 10)), [2, 5, 4, 3]);
        assert_eq!(positions(&due.list(Time(u64::MAX), None, 10)), [2, 5, 4, 3, 1]);
        let mut after = None;
        let mut found = Vec::new();
        while let [first, ..] = due.list(Time(600_000), after, 1)[..] {
            after = Some(first);
            found.push(first);
        }
        assert_eq!(positions(&found), [2, 5, 4, 3, 1]);
        assert_eq!(positions(&due.list(Time(600_000), Some(Point::new(Time(100), 3)), 10)), [5, 4, 3, 1]);
        due.remove(&found[1..3]);
        assert_eq!(positions(&due.list(Time(600_000), None, 10)), [2, 3, 1]);
        due.buckets().into_iter().for_each(|bucket| due.retain_in(bucket, |position| position == 3));
        assert_eq!(positions(&due.list(Time(600_000), None, 10)), [3]);
        assert_eq!(due.buckets(), [1]);
        let points = due.bucket(1);
        due.remove(&found[3..4]);
        assert_eq!(due.buckets(), Vec::<u64>::new());
        due.restore(1, points);
        assert_eq!(positions(&due.list(Time(600_000), None, 10)), [3]);
    }
}
