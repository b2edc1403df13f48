//! What holds for the whole process: `lease`, `in_progress`, `patience`, `[retries]`.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use settled::RetryBudget;
use toml::Spanned;

use super::{Wrong, span};

/// How long a call that is under way is waited for with `in_progress = "answer"` and no `patience`.
const PATIENCE: Duration = Duration::from_secs(1);

/// A lease that is shorter could not be renewed in time by a busy machine.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetriesTable {
    budget: Option<Spanned<String>>,
    burst: Option<Spanned<u32>>,
}

impl RetriesTable {
    pub(super) fn check(self) -> Result<RetryBudget, Wrong> {
        let without = RetryBudget::default();
        let per_mille = match self.budget {
            Some(budget) => per_mille(&budget)?,
            None => without.per_mille,
        };
        let burst = self.burst.map_or(without.burst, Spanned::into_inner);
        Ok(RetryBudget { per_mille, burst })
    }
}

/// A share such as `10%`, in thousandths.
fn per_mille(share: &Spanned<String>) -> Result<u32, Wrong> {
    let text = share.get_ref();
    let wrong = || {
        let problem =
            format!("`{text}` is not a share of the requests: write one such as `10%` or `2.5%`, at most `100%`");
        Wrong::new(share.span(), "retries.budget", problem)
    };
    let number = text.strip_suffix('%').ok_or_else(wrong)?.trim();
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(tenths) || tenths.len() > 1 {
        return Err(wrong());
    }
    let whole: u32 = whole.parse().map_err(|_| wrong())?;
    let tenths: u32 = tenths.parse().map_err(|_| wrong())?;
    whole
        .checked_mul(10)
        .and_then(|thousandths| thousandths.checked_add(tenths))
        .filter(|share| *share <= 1000)
        .ok_or_else(wrong)
}

pub(super) fn check_lease(lease: Spanned<String>) -> Result<Duration, Wrong> {
    let duration = span("lease", &lease)?;
    if duration < SHORTEST_LEASE {
        let problem = "is too short: a busy machine could not renew it in time; make it at least `1s`";
        return Err(Wrong::new(lease.span(), "lease", problem));
    }
    Ok(duration)
}

pub(super) fn check_metrics(address: Spanned<String>) -> Result<SocketAddr, Wrong> {
    let text = address.get_ref();
    text.parse().map_err(|_| {
        let problem = format!("`{text}` is not an address and a port: write it such as `127.0.0.1:9464`");
        Wrong::new(address.span(), "metrics", problem)
    })
}

pub(super) fn check_patience(
    in_progress: Option<Spanned<String>>,
    patience: Option<Spanned<String>>,
) -> Result<Option<Duration>, Wrong> {
    let answers = match &in_progress {
        None => false,
        Some(value) => match value.get_ref().as_str() {
            "wait" => false,
            "answer" => true,
            other => {
                let problem = format!(
                    "`{other}` is not known: write `wait` (a call that is under way already is waited for) or `answer` (the \
                     caller is told that it is in progress)"
                );
                return Err(Wrong::new(value.span(), "in_progress", problem));
            }
        },
    };
    match patience {
        Some(patience) if !answers => {
            let problem = "belongs to `in_progress = \"answer\"`: add that, or leave this out";
            Err(Wrong::new(patience.span(), "patience", problem))
        }
        Some(patience) => span("patience", &patience).map(Some),
        None => Ok(answers.then_some(PATIENCE)),
    }
}
