//! Owners: leases by the server's clock, and who is known to be gone.

use std::time::Duration;

use settled::presence::Presence;
use settled::{LedgerError, Liveness, Renewal};
use settled_protocol::Epoch;
use tokio_postgres::types::Type;

use crate::error::from_postgres;
use crate::lane::Lane;
use crate::migrate::in_schema;
use crate::row;

/// A lease that lasts longer than this lasts this long.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The statements about owners.
pub(crate) struct Owners {
    patience: i32,
    here: Presence,
    register: String,
    renew: String,
    gone: String,
    look: String,
}

fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.min(LONGEST).as_millis()).unwrap_or(i64::MAX)
}

impl Owners {
    pub fn new(schema: &str, patience: i32) -> Owners {
        Owners {
            patience,
            here: Presence::of_this_process(),
            register: in_schema("SELECT :schema.register($1, $2, $3)", schema),
            renew: in_schema(
                "UPDATE :schema.owners SET lease_until = clock_timestamp() + $2 * interval '1 millisecond' \
                 WHERE epoch = $1 AND gone_at IS NULL AND lease_until > clock_timestamp()",
                schema,
            ),
            gone: in_schema(
                "UPDATE :schema.owners SET gone_at = clock_timestamp() WHERE epoch = $1 AND gone_at IS NULL",
                schema,
            ),
            look: in_schema(
                "SELECT gone_at IS NOT NULL, lease_until > clock_timestamp(), presence FROM :schema.owners WHERE epoch = $1",
                schema,
            ),
        }
    }

    pub async fn register(&self, lane: &Lane, lease: Duration) -> Result<Epoch, LedgerError> {
        let (lease, presence) = (millis(lease), row::to_bytes(&self.here)?);
        let row = lane.ask(async |live| {
            let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                [(&self.patience, Type::INT4), (&lease, Type::INT8), (&presence, Type::BYTEA)];
            live.client.query_typed_one(&self.register, &parameters).await
        });
        row::epoch(row::column(&row.await?, 0)?)
    }

    pub async fn renew(&self, lane: &Lane, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        let (epoch, lease) = (i64::from(epoch.0), millis(lease));
        let renewed = lane.ask(async |live| {
            live.client.execute_typed(&self.renew, &[(&epoch, Type::INT8), (&lease, Type::INT8)]).await
        });
        Ok(if renewed.await? == 1 { Renewal::Held } else { Renewal::Fenced })
    }

    pub async fn retire(&self, lane: &Lane, epoch: Epoch) -> Result<(), LedgerError> {
        let epoch = i64::from(epoch.0);
        lane.ask(async |live| live.client.execute_typed(&self.gone, &[(&epoch, Type::INT8)]).await).await.map(drop)
    }

    pub async fn liveness(&self, lane: &Lane, epoch: Epoch) -> Result<Liveness, LedgerError> {
        let stored = i64::from(epoch.0);
        let found =
            lane.ask(async |live| live.client.query_typed_opt(&self.look, &[(&stored, Type::INT8)]).await).await?;
        let Some(found) = found else {
            // Only those that are known to be gone are ever deleted.
            return Ok(Liveness::Gone);
        };
        if found.try_get(0).map_err(|e| from_postgres(&e))? {
            return Ok(Liveness::Gone);
        }
        let presence: Presence = row::from_bytes(row::column(&found, 2)?)?;
        if presence.has_ended(&self.here) {
            // On other hosts this can't be seen, so they must be told.
            self.retire(lane, epoch).await?;
            return Ok(Liveness::Gone);
        }
        Ok(if row::column(&found, 1)? { Liveness::Alive } else { Liveness::Lapsed })
    }
}
