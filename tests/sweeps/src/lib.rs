//! A kill at every durable step of every process, failing disks, and starved processes.
