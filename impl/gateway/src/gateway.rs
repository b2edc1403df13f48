//! Everything that the connections share.

use std::sync::{Arc, PoisonError, RwLock};

use settled::Engine;

use crate::flag::Flag;
use crate::live::Streams;
use crate::places::Places;
use crate::setup::Setup;

/// Everything that the connections share.
pub(crate) struct Gateway {
    pub(crate) engine: Engine,
    pub(crate) streams: Streams,
    pub(crate) places: Places,
    /// This process is to end.
    pub(crate) draining: Flag,
    setup: RwLock<Arc<Setup>>,
}

impl Gateway {
    pub(crate) fn new(engine: Engine, setup: Setup) -> Gateway {
        Gateway {
            engine,
            streams: Streams::default(),
            places: Places::default(),
            draining: Flag::default(),
            setup: RwLock::new(Arc::new(setup)),
        }
    }

    /// What counts for a request that comes now.
    pub(crate) fn setup(&self) -> Arc<Setup> {
        self.setup.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on, this counts.
    pub(crate) fn change(&self, setup: Setup) {
        *self.setup.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(setup);
    }
}
