//! A protocol of your own, checked: machines in place of those that ship.
