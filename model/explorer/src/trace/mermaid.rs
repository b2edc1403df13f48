//! A trace as a Mermaid sequence diagram.
