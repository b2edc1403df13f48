//! Reports: read, and shown in a terminal or as a page.

mod compare;
mod grid;
mod html;
mod mark;
mod ongoing;
mod read;
#[cfg(test)]
mod schema;
mod table;
mod words;

pub use compare::{compare, compare_in};
pub use html::html;
pub use ongoing::{Ongoing, OngoingError};
pub use read::{ReadError, read};
pub use table::{table, table_in};
