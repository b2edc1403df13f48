//! States as they wait for their turn: in few bytes, one after the other, if the system can write them so.

use crate::system::System;

/// The states of a part of a layer. They are added one by one and dropped all at once.
pub struct Waiting<T> {
    packed: Pieces<u8>,
    whole: Pieces<T>,
}

/// Where one of them is.
#[derive(Clone, Copy)]
pub struct Place {
    piece: u32,
    at: u32,
    /// Its length in bytes; [`WHOLE`] if it is not written as bytes.
    bytes: u32,
}

const WHOLE: u32 = u32::MAX;

impl<T: Clone> Waiting<T> {
    /// None.
    pub fn new() -> Self {
        Waiting { packed: Pieces::new(), whole: Pieces::new() }
    }

    /// Adds one. `scratch` is overwritten.
    pub fn add<S: System<State = T>>(&mut self, system: &S, state: T, scratch: &mut Vec<u8>) -> Place {
        scratch.clear();
        if system.pack(&state, scratch) {
            let (piece, at) = self.packed.room(scratch.len());
            self.packed.pieces[piece].extend_from_slice(scratch);
            Place { piece: piece as u32, at: at as u32, bytes: scratch.len() as u32 }
        } else {
            let (piece, at) = self.whole.room(1);
            self.whole.pieces[piece].push(state);
            Place { piece: piece as u32, at: at as u32, bytes: WHOLE }
        }
    }

    /// Looks at one. `None`: the system can't read what it has written.
    pub fn with<S: System<State = T>, R>(&self, system: &S, place: Place, look: impl FnOnce(&T) -> R) -> Option<R> {
        let (piece, at) = (place.piece as usize, place.at as usize);
        if place.bytes == WHOLE {
            self.whole.pieces.get(piece)?.get(at).map(look)
        } else {
            let bytes = self.packed.pieces.get(piece)?.get(at..at + place.bytes as usize)?;
            system.unpack(bytes).as_ref().map(look)
        }
    }

    /// How much memory they use, without what whole states keep on the heap.
    pub fn bytes(&self) -> usize {
        self.packed.room + self.whole.room * size_of::<T>()
    }
}

/// A list in pieces that never move, so that nothing is copied and little is kept in reserve.
struct Pieces<X> {
    pieces: Vec<Vec<X>>,
    /// How many there is room for in all.
    room: usize,
}

impl<X> Pieces<X> {
    fn new() -> Self {
        Pieces { pieces: Vec::new(), room: 0 }
    }

    /// The piece that has room for this many more, and the position of the first of them.
    fn room(&mut self, more: usize) -> (usize, usize) {
        if self.pieces.last().is_none_or(|piece| piece.capacity() - piece.len() < more) {
            let size = (self.room / 8).clamp(1 << 10, 1 << 20).max(more);
            self.pieces.push(Vec::with_capacity(size));
            self.room += size;
        }
        let last = self.pieces.len() - 1;
        (last, self.pieces[last].len())
    }
}
