//! Carries out a model's counterexample with real processes.
