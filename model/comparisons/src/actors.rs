//! At-most-once calls the way stateright's actor framework asks for them: a client, perhaps a guard that knows calls by their
//! key, and a tool, each an [`Actor`] behind an unreliable network.
//!
//! It is what one would write first, and it shows what can't be said in it: an actor handles a message in one step, so no crash
//! falls between a save, an effect and the answer; and how often a fault may happen is not bounded one by one.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use stateright::Expectation;
use stateright::actor::{Actor, ActorModel, ActorModelState, Id, LossyNetwork, Network, Out, model_timeout};

/// What stands between client and tool, and what may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// How often the client sends its call in all, if no answer comes.
    pub calls: u8,
    /// Whether a guard stands between them. If not, the tool can't tell a repeated call from a new one.
    pub guarded: bool,
    /// Whether the tool itself carries out a key only once.
    pub deduplicates: bool,
    /// Whether the network delivers any message again and again.
    pub duplicates: bool,
    /// Whether the network loses messages.
    pub loses: bool,
    /// How many actors may be down at once.
    pub crashes: usize,
}

impl Setting {
    /// The protocol `mcp-2025-11-25`: a client that calls the tool directly, and calls again when no answer comes.
    pub const DIRECT: Setting =
        Setting { calls: 2, guarded: false, deduplicates: false, duplicates: false, loses: true, crashes: 0 };

    /// A guard in front of a tool about which nothing can be found out.
    pub const GUARDED: Setting = Setting { guarded: true, crashes: 1, ..Setting::DIRECT };
}

/// A client, a guard or a tool.
#[derive(Clone, Debug)]
pub enum Node {
    /// Calls, and calls again when no answer comes.
    Client {
        /// To whom.
        server: Id,
        /// How often in all.
        calls: u8,
    },
    /// Sends each key to the tool at most once, and answers all calls with that key.
    Guard {
        /// The tool.
        tool: Id,
    },
    /// Makes the effects.
    Tool {
        /// Whether it makes only one for each key.
        deduplicates: bool,
    },
}

/// What an actor knows. It is also what it saves, after each change: the framework has no step between the two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Knows {
    /// A client.
    Client {
        /// How often it has called.
        calls: u8,
        /// What it was told.
        told: Option<Answer>,
    },
    /// A guard.
    Guard {
        /// Whether the call was sent to the tool.
        sent: bool,
        /// What is known of it.
        outcome: Option<Answer>,
        /// Who waits.
        waits: Option<Id>,
    },
    /// A tool.
    Tool {
        /// How many effects it has made. It stops counting at 2.
        effects: u8,
    },
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// It happened.
    Done,
    /// It can't be said.
    Unknown,
}

/// A message. There is one logical call, so the key is left out; a request id tells its repetitions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// Do it.
    Call(u8),
    /// The answer to that.
    Answer(u8, Answer),
}

impl Actor for Node {
    type Msg = Message;
    type State = Knows;
    type Timer = ();
    type Random = ();
    type Storage = Knows;

    fn on_start(&self, _: Id, saved: &Option<Knows>, out: &mut Out<Self>) -> Knows {
        match (self, saved) {
            (Node::Client { .. }, None) => {
                let mut state = Knows::Client { calls: 0, told: None };
                self.call(&mut state, out);
                state
            }
            (Node::Client { .. }, Some(saved)) => {
                out.set_timer((), model_timeout());
                saved.clone()
            }
            (Node::Guard { .. }, None) => Knows::Guard { sent: false, outcome: None, waits: None },
            // Whether a call that was sent took effect is not known; and who waited has lost the connection.
            (Node::Guard { .. }, Some(Knows::Guard { sent, outcome, .. })) => {
                Knows::Guard { sent: *sent, outcome: outcome.or(sent.then_some(Answer::Unknown)), waits: None }
            }
            (Node::Tool { .. }, None) => Knows::Tool { effects: 0 },
            (Node::Guard { .. } | Node::Tool { .. }, Some(saved)) => saved.clone(),
        }
    }

    fn on_msg(&self, _: Id, state: &mut Cow<Knows>, from: Id, message: Message, out: &mut Out<Self>) {
        match (self, state.as_ref().clone(), message) {
            (Node::Client { .. }, Knows::Client { calls, told: None }, Message::Answer(_, answer)) => {
                save(state, Knows::Client { calls, told: Some(answer) }, out);
                out.cancel_timer(());
            }
            (Node::Guard { .. }, Knows::Guard { outcome: Some(answer), .. }, Message::Call(id)) => {
                out.send(from, Message::Answer(id, answer));
            }
            (Node::Guard { tool }, Knows::Guard { sent, outcome: None, .. }, Message::Call(_)) => {
                save(state, Knows::Guard { sent: true, outcome: None, waits: Some(from) }, out);
                if !sent {
                    out.send(*tool, Message::Call(0));
                    out.set_timer((), model_timeout());
                }
            }
            (Node::Guard { .. }, Knows::Guard { sent: true, outcome, waits }, Message::Answer(_, Answer::Done))
                if outcome != Some(Answer::Done) =>
            {
                save(state, Knows::Guard { sent: true, outcome: Some(Answer::Done), waits: None }, out);
                out.cancel_timer(());
                if let Some(client) = waits {
                    out.send(client, Message::Answer(0, Answer::Done));
                }
            }
            (Node::Tool { deduplicates }, Knows::Tool { effects }, Message::Call(id)) => {
                if effects == 0 || !deduplicates && effects < 2 {
                    save(state, Knows::Tool { effects: effects + 1 }, out);
                }
                out.send(from, Message::Answer(id, Answer::Done));
            }
            _ => {}
        }
    }

    fn on_timeout(&self, _: Id, state: &mut Cow<Knows>, _: &(), out: &mut Out<Self>) {
        match (self, state.as_ref().clone()) {
            (Node::Client { calls: most, .. }, Knows::Client { calls, told: None }) if calls < *most => {
                self.call(state.to_mut(), out);
            }
            // It is never sent again: nothing can be found out about it.
            (Node::Guard { .. }, Knows::Guard { sent, outcome: None, waits }) => {
                save(state, Knows::Guard { sent, outcome: Some(Answer::Unknown), waits: None }, out);
                if let Some(client) = waits {
                    out.send(client, Message::Answer(0, Answer::Unknown));
                }
            }
            _ => {}
        }
    }
}

impl Node {
    fn call(&self, state: &mut Knows, out: &mut Out<Self>) {
        if let (Node::Client { server, .. }, Knows::Client { calls, .. }) = (self, &mut *state) {
            *calls += 1;
            out.send(*server, Message::Call(*calls));
            out.save(state.clone());
            out.set_timer((), model_timeout());
        }
    }
}

fn save(state: &mut Cow<Knows>, now: Knows, out: &mut Out<Node>) {
    out.save(now.clone());
    *state = Cow::Owned(now);
}

/// The model, with the properties "at-most-once" and "no phantom success".
pub fn model(setting: Setting) -> ActorModel<Node> {
    let client = Node::Client { server: Id::from(1), calls: setting.calls };
    let tool = Node::Tool { deduplicates: setting.deduplicates };
    let network = if setting.duplicates {
        Network::new_unordered_duplicating([])
    } else {
        Network::new_unordered_nonduplicating([])
    };
    ActorModel::new((), ())
        .actor(client)
        .actors(setting.guarded.then(|| Node::Guard { tool: Id::from(2) }))
        .actor(tool)
        .init_network(network)
        .lossy_network(if setting.loses { LossyNetwork::Yes } else { LossyNetwork::No })
        .max_crashes(setting.crashes)
        .property(Expectation::Always, "at-most-once", |_, state| effects(state) <= 1)
        .property(Expectation::Always, "no phantom success", |_, state| {
            let told = |its: &Knows| matches!(its, Knows::Client { told: Some(Answer::Done), .. });
            effects(state) > 0 || !state.actor_states.iter().any(|its| told(its))
        })
        // Violated properties must not end the exploration while anything is unexplored.
        .property(Expectation::Always, "explored", |_, _| true)
}

fn effects(state: &ActorModelState<Node>) -> u8 {
    let of = |its: &Knows| if let Knows::Tool { effects } = its { *effects } else { 0 };
    state.actor_states.iter().map(|its| of(its)).sum()
}
