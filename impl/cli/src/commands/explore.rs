//! `settled explore`: a protocol's states in a browser, move by move.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use clap::Args;
use settled_devices_model::DeviceWorld;
use settled_explorer::PlainState;
use settled_model::{Fault, Plain, PropertyName, Readable, Rules, System};
use stateright::{Model, Property};

use super::bounds::Bounds;
use super::protocol::load;
use crate::failure::{Exit, Failure};

/// Serves a page to walk through a protocol's states by hand: stateright's explorer.
#[derive(Debug, Args)]
pub struct ExploreArgs {
    /// The name of a shipped protocol, or a TOML file.
    #[arg(value_name = "NAME|FILE.toml")]
    protocol: String,
    /// Where to listen: a loopback address, since whoever reaches the page may use it. Port 0: any free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[command(flatten)]
    bounds: Bounds,
}

/// Runs the command. It ends when the process is told to.
pub fn run(args: ExploreArgs) -> Result<Exit, Failure> {
    let description = args.bounds.apply(load(&args.protocol)?)?;
    if !args.listen.ip().is_loopback() {
        return Err(Failure::input(format!("{}: only a loopback address is served, as 127.0.0.1", args.listen)));
    }
    let unusable = |error| Failure::input(format!("{}: {error}", args.listen));
    // The explorer ends in a panic where it can't listen, and doesn't tell which port it was given: so one is found first.
    let address = TcpListener::bind(args.listen).and_then(|listener| listener.local_addr()).map_err(unusable)?;
    let name = description.name.clone();
    std::thread::spawn(move || announce(address, &name));
    match &description.devices {
        Some(devices) => {
            let world = DeviceWorld::new(&description.name, devices, description.faults);
            let world = world.map_err(|error| Failure::input(format!("{}: {error}", description.name)))?;
            Page(Plain::readable(world)).checker().serve(address);
        }
        None => {
            Page(Plain::readable(Rules::new(description))).checker().serve(address);
        }
    }
    Ok(Exit::Good)
}

/// Tells the address once somebody answers there.
fn announce(address: SocketAddr, name: &str) {
    const PAUSE: Duration = Duration::from_millis(20);
    const TRIES: usize = 500;
    for _ in 0..TRIES {
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            let told = crate::output::line(format!("{name}: http://{address}/ (Ctrl-C ends it)"));
            if let Err(error) = told {
                eprintln!("settled: {error}");
            }
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// A system whose moves are shown in words. What a move is called depends on where it is made, so it carries its words.
struct Page<S: System>(Plain<S>);

/// A move, and what it is in words.
#[derive(Clone, Debug, PartialEq)]
struct Named<M> {
    what: (M, Option<Fault>),
    text: String,
}

impl<S: Readable + Send + 'static> Model for Page<S> {
    type State = <Plain<S> as Model>::State;
    type Action = Named<S::Move>;

    fn init_states(&self) -> Vec<Self::State> {
        self.0.init_states()
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        let mut moves = Vec::new();
        self.0.actions(state, &mut moves);
        for what in moves {
            // Moves that change nothing would only be in the way.
            let Some(next) = self.0.next_state(state, what) else {
                continue;
            };
            let said = self.0.system().say(&state.state, what.0, &next.state);
            let to = said.to.map(|to| format!(" → {to}")).unwrap_or_default();
            let fault = what.1.map(|fault| format!(" (fault: {})", fault.name())).unwrap_or_default();
            actions.push(Named { what, text: format!("{}{to}: {}{fault}", said.from, said.text) });
        }
    }

    fn next_state(&self, last: &Self::State, action: Self::Action) -> Option<Self::State> {
        self.0.next_state(last, action.what)
    }

    fn format_action(&self, action: &Self::Action) -> String {
        action.text.clone()
    }

    fn format_step(&self, last: &Self::State, action: Self::Action) -> Option<String> {
        self.next_state(last, action).map(|next| format!("{next:?}"))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.0.properties().into_iter().filter_map(|property| condition(property.name)).collect()
    }
}

impl<S: System> Page<S> {
    fn holds(&self, name: &str, state: &PlainState<S>) -> bool {
        let properties = self.0.properties();
        let property = properties.iter().find(|property| property.name == name);
        property.is_none_or(|property| (property.condition)(&self.0, state))
    }
}

/// Conditions are functions that capture nothing: so each property needs its own.
fn condition<S: Readable + Send + 'static>(name: &str) -> Option<Property<Page<S>>> {
    macro_rules! conditions {
        ($($variant:ident)*) => {
            match PropertyName::ALL.iter().find(|property| property.name() == name) {
                $(Some(PropertyName::$variant) => {
                    let name = PropertyName::$variant.name();
                    Some(Property::always(name, |page: &Page<S>, state: &PlainState<S>| {
                        page.holds(PropertyName::$variant.name(), state)
                    }))
                })*
                // Holds everywhere, so that the checker doesn't stop before everything has been explored.
                None => Some(Property::always("explored", |_, _| true)),
                Some(PropertyName::CanSettle) => None,
            }
        };
    }
    conditions! {
        AtMostOnce NoPhantomSuccess NoFalseFailure FaithfulReplay NoSuppression IntentFirst UnknownBlocks NoOverlap
        Convergence CausalRespect Settles BoundedRetries BoundedMemory
    }
}
