//! One call of the tool, however it came.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use super::control::{Control, Order, Point};
use super::effects::{self, Effect};

/// What a call asks for.
#[derive(Clone, Debug, Deserialize)]
pub struct Wish {
    pub run: String,
    pub step: String,
}

/// The tool.
#[derive(Clone)]
pub struct Tool {
    pub control: Control,
    effects: Arc<PathBuf>,
}

/// There is to be no answer: the connection ends.
#[derive(Debug, thiserror::Error)]
#[error("the connection ends here")]
pub struct Cut;

impl Tool {
    pub fn new(control: Control, effects: PathBuf) -> Self {
        Self { control, effects: Arc::new(effects) }
    }

    /// Has the effect happen. It goes on when the caller has gone: an effect does not know of its caller.
    pub async fn step(&self, wish: Wish) -> Result<(), Cut> {
        let mut owed = Owed { tool: self.clone(), wish: Some(wish.clone()) };
        let tool = self.clone();
        let done = tokio::spawn(async move { tool.carry_out(&wish).await }).await;
        owed.wish = None;
        done.unwrap_or(Err(Cut))
    }

    async fn carry_out(&self, wish: &Wish) -> Result<(), Cut> {
        let Wish { run, step } = wish;
        if self.control.reach(Point::Called, run, step).await != Order::Go {
            return Err(Cut);
        }
        let effect = Effect { run: run.clone(), step: step.clone(), process: std::process::id() };
        let path = Arc::clone(&self.effects);
        let written = tokio::task::spawn_blocking(move || effects::append(&path, &effect)).await;
        if !matches!(written, Ok(Ok(()))) {
            return Err(Cut);
        }
        if self.control.reach(Point::Effected, run, step).await != Order::Go {
            return Err(Cut);
        }
        self.control.reach(Point::Answered, run, step).await;
        Ok(())
    }

    /// How often it has happened.
    pub fn applied(&self, run: &str, step: &str) -> std::io::Result<usize> {
        let all = effects::read(&self.effects)?;
        Ok(all.iter().filter(|effect| effect.run == run && effect.step == step).count())
    }
}

/// Tells the harness if whoever is owed an answer goes away.
struct Owed {
    tool: Tool,
    wish: Option<Wish>,
}

impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(wish) = self.wish.take() {
            let control = self.tool.control.clone();
            tokio::spawn(async move { control.reach(Point::Abandoned, &wish.run, &wish.step).await });
        }
    }
}
