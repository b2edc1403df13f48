//! Many devices that act offline: a world of replicas that merge operations.
