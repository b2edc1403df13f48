//! What the checker is measured against: the same questions, put to plain stateright and to Spin.
