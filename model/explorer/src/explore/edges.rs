//! The edges between states, without budgets and faults, as they are recorded.

/// The edges that one thread has recorded.
#[derive(Default)]
pub struct Edges {
    /// From and to, of states that have not ended; in pieces that never move, so that nothing is kept in reserve.
    pub pairs: Vec<Vec<(u32, u32)>>,
    /// States that have not ended and that a state which has ended follows.
    pub ending: Vec<u32>,
    count: usize,
}

impl Edges {
    /// Records an edge.
    pub fn add(&mut self, source: u32, target: u32, ended: bool) {
        if ended {
            if self.ending.last() != Some(&source) {
                self.ending.push(source);
            }
            return;
        }
        self.count += 1;
        match self.pairs.last_mut() {
            Some(piece) if piece.len() < piece.capacity() => piece.push((source, target)),
            _ => {
                let mut piece = Vec::with_capacity((self.count / 8).clamp(256, 1 << 20));
                piece.push((source, target));
                self.pairs.push(piece);
            }
        }
    }

    /// How much memory it uses.
    pub fn bytes(&self) -> usize {
        let pairs: usize = self.pairs.iter().map(Vec::capacity).sum();
        pairs * size_of::<(u32, u32)>() + self.ending.capacity() * size_of::<u32>()
    }
}
