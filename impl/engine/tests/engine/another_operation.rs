//! A key begins another operation, with other arguments, while a call's own operation still waits to be sent.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Fault, Faulty, Play, Script, done, ends, key, options, result, spawn_call, with_arguments};
use settled::protocol::{Ends, Key, ToolKind};
use settled::{Answer, Engine, Ledger, MemoryLedger, Operation, Resource};

fn waiting(arguments: &'static str) -> Operation {
    let resource = Some(Resource { scope: "test".to_owned(), name: "account 1".to_owned() });
    Operation { resource, ..with_arguments(ends(ToolKind::Opaque, Ends::OnFailure), arguments) }
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_not_told_the_outcome_of_another_operation() {
    let memory = Arc::new(MemoryLedger::new());
    let (options, _alerts) = options();
    let start = async |failing| {
        let ledger = Faulty::new(memory.clone(), Fault::Before, failing, 1);
        Engine::start(Arc::new(ledger), options.clone()).await.unwrap()
    };
    // Of each, the store fails that is to send the operation in its turn; a few milliseconds later it is tried again.
    let (first, second) = (start(2).await, start(3).await);
    let (tool_of_first, tool_of_second) = (Script::new([]), Script::new([]));

    let told_first = spawn_call(&first, waiting("{\"cents\":4200}"), &tool_of_first);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(second.cancel(&key()).await.unwrap());
    let told_second = spawn_call(&second, waiting("{\"cents\":7}"), &tool_of_second);

    assert_eq!(told_first.await.unwrap().unwrap().answer, Answer::Expired);
    assert_eq!(told_second.await.unwrap().unwrap().answer, done("ok", false));
    assert_eq!((tool_of_first.sends(), tool_of_second.sends()), (0, 1));
}

/// The cancel is stored, word of that is lost, and before it is tried again another operation begins under the key.
#[tokio::test(start_paused = true)]
async fn a_cancel_is_not_carried_over_to_the_next_operation_under_the_key() {
    let memory = Arc::new(MemoryLedger::new());
    let (options, _alerts) = options();
    let start = async |ledger: Arc<dyn Ledger>| Engine::start(ledger, options.clone()).await.unwrap();
    let (first, second) = (start(memory.clone()).await, start(memory.clone()).await);
    let failing = Faulty { reads_too: true, ..Faulty::new(memory.clone(), Fault::After, 1, 1) };
    let cancels = start(Arc::new(failing)).await;
    let tool = Script::new([Play::Effect(Duration::from_secs(5), result("held"))]);
    let holds = Operation { key: Key::new("test", "charge", "before").unwrap(), ..waiting("{}") };
    let held = spawn_call(&first, holds, &tool);
    tokio::time::sleep(Duration::from_millis(2)).await;

    let told_first = spawn_call(&first, waiting("{\"cents\":4200}"), &tool);
    tokio::time::sleep(Duration::from_millis(2)).await;
    let cancelled = tokio::spawn(async move { cancels.cancel(&key()).await });
    assert!(matches!(told_first.await.unwrap().unwrap().answer, Answer::Failed { .. }));
    let told_second = spawn_call(&second, waiting("{\"cents\":7}"), &tool);

    assert!(!cancelled.await.unwrap().unwrap());
    assert_eq!(held.await.unwrap().unwrap().answer, done("held", false));
    assert_eq!((told_second.await.unwrap().unwrap().answer, tool.sends()), (done("ok", false), 2));
}
