//! What stays in memory of each key: 16 bytes besides the key's own.

use settled_protocol::Version;

use crate::frame::Stand;

/// The latest frame of a key, and how things stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// From the highest bit: the position (44), the generation's lowest bits (20).
    place: u64,
    /// From the highest bit: settled (1), the version (47), the chain's bytes (16).
    stand: u64,
}

/// The largest version that a slot can hold: versions begin with the milliseconds since 1970.
pub(crate) const MAX_VERSION: Version = Version((1 << 47) - 1);

/// The largest position that a slot can hold.
pub(crate) const MAX_POSITION: u64 = (1 << 44) - 1;

/// The length of a slot as [`Slot::to_bytes`] writes it.
pub(crate) const SLOT_BYTES: usize = 16;

impl Slot {
    /// `bytes` are those of the key's chain.
    pub fn new(position: u64, of: &Stand, bytes: u64) -> Slot {
        let generation = u64::from(of.generation);
        let place = (position & MAX_POSITION) << 20 | generation & 0xf_ffff;
        let stand = u64::from(of.settled) << 63 | (of.version.0 & MAX_VERSION.0) << 16 | u64::from(round(bytes));
        Slot { place, stand }
    }

    pub fn position(self) -> u64 {
        self.place >> 20
    }

    pub fn version(self) -> Version {
        Version(self.stand >> 16 & MAX_VERSION.0)
    }

    pub fn settled(self) -> bool {
        self.stand >> 63 == 1
    }

    /// Whether it is of this generation, as far as 20 bits tell: generations grow by the seconds between them.
    pub fn is_of(self, generation: u32) -> bool {
        self.place & 0xf_ffff == u64::from(generation & 0xf_ffff)
    }

    /// Bytes of the key's chain, to a thousandth.
    pub fn bytes(self) -> u64 {
        let code = self.stand & 0xffff;
        (code & 0x7ff) << (code >> 11)
    }

    pub fn to_bytes(self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&self.place.to_le_bytes());
        bytes[8..].copy_from_slice(&self.stand.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; SLOT_BYTES]) -> Slot {
        let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
        Slot { place: u64::from_le_bytes([a, b, c, d, e, f, g, h]), stand: u64::from_le_bytes(rest) }
    }
}

/// 11 bits of a number and 5 of where they stand in it.
fn round(bytes: u64) -> u16 {
    let width = u64::BITS - bytes.leading_zeros();
    let shift = width.saturating_sub(11).min(31);
    let mantissa = (bytes >> shift).min(0x7ff);
    (shift as u16) << 11 | mantissa as u16
}

#[cfg(test)]
mod tests {
    use settled_protocol::Time;

    use super::*;

    #[test]
    fn a_slot_holds_what_is_put_in() {
        for (version, generation, settled, bytes) in
            [(1, 1, false, 0), (MAX_VERSION.0, 0x7fff, true, 2047), (1_796_011_445_413, u32::MAX, true, 1 << 40)]
        {
            let of = Stand { version: Version(version), generation, settled, keep_until: Some(Time(1)) };
            let slot = Slot::new(MAX_POSITION, &of, bytes);
            assert_eq!((slot.position(), slot.version(), slot.settled()), (MAX_POSITION, of.version, settled));
            assert!(slot.is_of(generation) && !slot.is_of(generation.wrapping_add(1)));
            assert_eq!(slot.bytes(), bytes);
            assert_eq!(Slot::from_bytes(slot.to_bytes()), slot);
        }
    }

    #[test]
    fn bytes_are_right_to_a_thousandth() {
        for bytes in (0..60_000).chain((10..41).map(|i| (1 << i) - 1)) {
            let of = Stand { version: Version(1), generation: 1, settled: true, keep_until: None };
            let kept = Slot::new(0, &of, bytes).bytes();
            assert!(kept <= bytes && bytes - kept <= bytes / 1000, "{bytes}: {kept}");
        }
    }
}
