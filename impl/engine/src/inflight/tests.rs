use tokio::sync::oneshot::{self, Receiver, Sender, error::TryRecvError};

use super::{Entered, InFlight};

type Table = InFlight<u8, u8, Sender<u8>>;

const KEY: u8 = 7;

fn enter(table: &Table, fingerprint: u8) -> (Entered<u8, u8, Sender<u8>>, Receiver<u8>) {
    let (waiter, told) = oneshot::channel();
    (table.enter(&KEY, fingerprint, waiter), told)
}

#[test]
fn an_answer_that_was_delivered_does_not_end_the_work_on_its_key() {
    let table = Table::new(1);
    let mut lead = table.lead(&KEY, 1).unwrap();
    drop(table.hold(&KEY));
    assert!(table.is_led(&KEY));
    assert!(table.lead(&KEY, 1).is_none(), "two would lead");
    let (joined, mut told) = enter(&table, 1);
    assert!(matches!(joined, Entered::Joined));
    for waiter in lead.take_joined() {
        waiter.send(5).unwrap();
    }
    assert_eq!(told.try_recv(), Ok(5));
}

#[test]
fn the_end_of_the_work_does_not_let_in_who_waits_for_a_delivery() {
    let table = Table::new(1);
    let (first, second) = (table.hold(&KEY), table.hold(&KEY));
    let lead = table.lead(&KEY, 1).unwrap();
    let (held_up, mut told) = enter(&table, 1);
    assert!(matches!(held_up, Entered::HeldUp));
    drop(lead);
    drop(first);
    assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
    assert!(matches!(enter(&table, 1).0, Entered::HeldUp));
    drop(second);
    assert_eq!(told.try_recv(), Err(TryRecvError::Closed), "now it looks again");
    assert!(matches!(enter(&table, 1).0, Entered::Leads(..)));
}

#[test]
fn who_asks_for_something_else_looks_again_when_the_work_has_ended() {
    let table = Table::new(1);
    let lead = table.lead(&KEY, 1).unwrap();
    let (other, mut told) = enter(&table, 2);
    assert!(matches!(other, Entered::Other));
    assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
    drop(lead);
    assert_eq!(told.try_recv(), Err(TryRecvError::Closed));
    assert!(!table.is_led(&KEY));
}
