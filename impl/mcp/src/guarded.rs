//! A guarded call: whether a call is one, which operation it is, its life, and what became of it.

pub(crate) mod admission;
pub(crate) mod call;
pub(crate) mod guard;
pub(crate) mod keys;
pub(crate) mod observe;
pub(crate) mod rounds;
pub(crate) mod tool;
