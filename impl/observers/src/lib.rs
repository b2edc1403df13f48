//! Observers: ways to find out whether a call whose answer was lost took effect.
//!
//! An observer is declared as a [`Way`] (an HTTP GET, an SQL query, a command) and a [`Reading`], which says which answers mean
//! "applied", "not applied" or "sealed". [`Observer::observe`] puts the question. Whatever fails, does not answer in time, or
//! answers something that fits no condition is [`Verdict::Unclear`], never [`Verdict::NotApplied`]: that one allows the
//! call to be sent again.
//!
//! What a way needs to know of the call comes from [`Template`]s; JSON is looked into by [`Pointer`]s.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod command;
mod engine;
mod error;
mod given;
mod http;
mod observer;
mod pointer;
mod secret;
mod sql;
mod template;
mod tls;
mod verdict;

pub use self::{
    command::Command,
    error::{AskError, Unusable},
    given::{Given, Missing},
    http::Http,
    observer::{Observer, Way},
    pointer::Pointer,
    secret::Secret,
    sql::Sql,
    template::{Shape, Template, TemplateError, Where},
    verdict::{Condition, ConditionError, Evidence, Reading, Source, Verdict},
};
