//! Checks what really happened against the protocol core and its properties.
