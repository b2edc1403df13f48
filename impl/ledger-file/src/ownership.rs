//! What the holder knows and decides of owners: leases, locks on files, and connections taken together.

use std::sync::Arc;
use std::time::Duration;

use settled::{LedgerError, Liveness, Renewal};
use settled_protocol::Epoch;

use crate::commit::{Write, Written};
use crate::frame::{self, KeyHash, Kind};
use crate::leases::Standing;
use crate::owners::Sign;
use crate::store::{Store, Ticket};

impl Store {
    /// Gives away the next epoch.
    pub async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        // A registration is no key's business.
        match self.write(Write::Register { lease }, KeyHash::NONE, None, Ticket::NONE, Vec::new()).await? {
            Written::Registered(epoch) => {
                self.leases.grant(epoch, Some(lease));
                Ok(epoch)
            }
            _ => Err(LedgerError::Unavailable("no epoch was given".to_owned())),
        }
    }

    /// Lets an owner's lease run on, unless it has run out.
    pub async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        if self.leases.look(epoch) == Standing::Unknown && self.may_live(epoch)? {
            self.leases.grant(epoch, Some(lease));
        }
        match self.leases.renew(epoch, lease) {
            Standing::Runs => return Ok(Renewal::Held),
            Standing::Lapsed { told: true } | Standing::Retired => {}
            Standing::Lapsed { told: false } | Standing::Unknown => self.end(epoch, false).await?,
        }
        Ok(Renewal::Fenced)
    }

    /// Notes for good that an owner has nothing queued and will never send anything again.
    pub async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        if self.leases.look(epoch) != Standing::Retired {
            self.end(epoch, true).await?;
        }
        self.owners.give_up(epoch);
        Ok(())
    }

    /// What is known of an owner.
    pub async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        match self.leases.look(epoch) {
            Standing::Retired => return Ok(Liveness::Gone),
            _ if !self.may_live(epoch)? => return Ok(Liveness::Gone),
            Standing::Runs => return Ok(Liveness::Alive),
            Standing::Lapsed { told: true } => {}
            Standing::Lapsed { told: false } => self.end(epoch, false).await?,
            Standing::Unknown => {
                // An earlier holder has registered it.
                self.leases.grant(epoch, None);
                return Ok(Liveness::Alive);
            }
        }
        Ok(Liveness::Lapsed)
    }

    /// Whether an owner's process may exist.
    fn may_live(&self, epoch: Epoch) -> Result<bool, LedgerError> {
        Ok(match self.owners.sign(epoch)? {
            Sign::Alive => true,
            Sign::Dead => false,
            Sign::None => self.owners.knows(epoch),
        })
    }

    /// Notes, durably, that a lease is over.
    async fn end(&self, epoch: Epoch, retired: bool) -> Result<(), LedgerError> {
        let frame = frame::bare(Kind::Ended { epoch, retired }, 0);
        let frame = frame.map_err(|e| LedgerError::Unavailable(e.to_string()))?;
        self.write(Write::Plain, KeyHash::NONE, None, Ticket::NONE, frame).await?;
        self.leases.ended(epoch, retired);
        Ok(())
    }

    /// Notes whom a guest says to be.
    pub fn connected(&self, connection: u64, epochs: &[Epoch]) {
        self.owners.connected(connection, epochs);
        // Those that an earlier holder has registered.
        epochs.iter().for_each(|epoch| self.leases.grant(*epoch, None));
    }

    /// Forgets a guest.
    pub fn disconnected(&self, connection: u64) {
        self.owners.disconnected(connection);
        // Of those who have died since, their files say so.
        self.leases.retain(|epoch| !self.owners.sign(epoch).is_ok_and(|sign| sign == Sign::Dead));
    }

    /// After a start: grants each owner whose process may live a lease, and forgets those who are gone.
    pub(crate) fn adopt(&self, seen: &SeenOwners) {
        let owners = Arc::clone(&self.owners);
        for epoch in owners.files() {
            if owners.sign(epoch).is_ok_and(|sign| sign == Sign::Dead) {
                continue;
            }
            match seen.over.get(&epoch) {
                Some(retired) => self.leases.ended(epoch, *retired),
                None => self.leases.grant(epoch, seen.leases.get(&epoch).copied()),
            }
        }
    }
}

/// Owners as the log tells of them.
#[derive(Debug, Default)]
pub(crate) struct SeenOwners {
    /// How long each one's lease was at first.
    pub leases: std::collections::HashMap<Epoch, Duration>,
    /// Those whose lease is over, and whether they have retired.
    pub over: std::collections::HashMap<Epoch, bool>,
}

impl SeenOwners {
    /// Takes note of a frame.
    pub fn note(&mut self, kind: &Kind) {
        match *kind {
            Kind::Registered { epoch, lease } if lease > 0 => {
                self.leases.insert(epoch, Duration::from_millis(lease));
            }
            Kind::Ended { epoch, retired } => {
                let over = self.over.entry(epoch).or_insert(retired);
                *over |= retired;
            }
            _ => {}
        }
    }
}
