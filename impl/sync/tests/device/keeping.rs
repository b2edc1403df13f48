//! What a device keeps in its directory.

use settled_protocol::merge::{Change, View};
use settled_sync::device::Device;
use settled_sync::wire::{Answer, Became, Refusal, Uploaded};
use settled_sync::{DeviceError, Schema};

use crate::reference::Reference;
use crate::support::{Clock, SCHEMA, field, name, options, schema, set};

fn sync(device: &Device, server: &mut Reference) {
    let mut held = 0;
    while let Some(upload) = device.upload(held, 100) {
        let uploaded = server.upload(&upload, upload.now);
        held += uploaded.answers.iter().filter(|answer| matches!(answer.is, Became::Held { .. })).count();
        device.uploaded(&uploaded).unwrap();
    }
    device.pulled(&server.pull(device.cursor(), 1000)).unwrap();
}

fn title(device: &Device) -> Option<View> {
    match device.view(&name("task/1")) {
        Some(View::Map(fields)) => fields.get(&name("title")).map(|view| (**view).clone()),
        _ => None,
    }
}

#[test]
fn a_directory_is_one_process_s() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let device = Device::open(dir.path(), schema(), options("a", &clock)).unwrap();
    let second = Device::open(dir.path(), schema(), options("a", &clock)).err().unwrap();
    assert!(matches!(second, DeviceError::InUse { .. }), "{second}");
    drop(device);
    // The name is that of the first time, and the schema need not be given again.
    let again = Device::open(dir.path(), None, options("b", &clock)).unwrap();
    assert_eq!(again.schema(), &schema());
    drop(again);
    let nowhere = Device::open(&dir.path().join("nowhere"), None, options("b", &clock)).err().unwrap();
    assert!(matches!(nowhere, DeviceError::NoSchema), "{nowhere}");
    assert!(!dir.path().join("nowhere").exists());
    assert_eq!(Device::open(dir.path(), schema(), options("b", &clock)).unwrap().name(), name("a"));
}

#[test]
fn a_long_log_is_replaced_by_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let mut server = Reference::new(schema());
    let open = || Device::open(dir.path(), schema(), options("a", &clock)).unwrap();
    let mut device = open();
    for number in 0..2_000 {
        clock.set(number + 1_000_000);
        device.act(name("task/1"), field("title", set(number as i64))).unwrap();
        if number % 50 == 0 {
            sync(&device, &mut server);
        }
        if number % 300 == 0 {
            drop(device);
            device = open();
        }
    }
    device.act(name("votes"), Change::Count(3)).unwrap();
    let (views, pending) = (device.views(), device.pending());
    drop(device);
    let bytes: u64 = dir.path().read_dir().unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 400_000, "{bytes} bytes are kept");
    let device = open();
    assert_eq!((device.views(), device.pending()), (views, pending));
    sync(&device, &mut server);
    assert_eq!((server.log.len(), device.pending()), (2_001, 0));
}

#[test]
fn what_is_refused_is_kept_until_it_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let open = || Device::open(dir.path(), schema(), options("a", &clock)).unwrap();
    let device = open();
    let op_id = device.act(name("task/1"), field("title", set("x"))).unwrap();
    let upload = device.upload(0, 1).unwrap();
    let refused = Became::Refused { reason: Refusal::TooLarge, message: "too large".into() };
    let mut server = Reference::new(schema());
    let answers = vec![Answer { op_id, is: refused }];
    let uploaded = Uploaded { answers, ..server.upload(&upload, 0) };
    device.uploaded(&uploaded).unwrap();
    device.uploaded(&uploaded).unwrap();
    drop(device);
    let device = open();
    assert_eq!(device.refused().len(), 1);
    assert_eq!((device.pending(), device.view(&name("task/1"))), (0, None));
    device.forget_refused().unwrap();
    drop(device);
    assert_eq!(open().refused(), []);
}

#[test]
fn a_later_schema_shows_what_an_earlier_one_could_not() {
    let later =
        Schema::parse(&SCHEMA.replace("version = 1", "version = 2").replace("title =", "due = \"min\"\ntitle ="))
            .unwrap();
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let clock = Clock::default();
    let newer = Device::open(other.path(), later.clone(), options("newer", &clock)).unwrap();
    newer.act(name("task/1"), field("due", set(5))).unwrap();
    newer.act(name("task/1"), field("title", set("x"))).unwrap();
    // A server with the earlier schema holds what it does not know, and takes the rest.
    let mut server = Reference::new(schema());
    sync(&newer, &mut server);
    assert_eq!((newer.pending(), server.log.len()), (1, 1));
    server.schema = later.clone();
    sync(&newer, &mut server);
    assert_eq!((newer.pending(), server.log.len()), (0, 2));

    let device = Device::open(dir.path(), schema(), options("older", &clock)).unwrap();
    sync(&device, &mut server);
    assert_eq!(title(&device), Some(View::Value("x".into())));
    assert!(device.act(name("task/1"), field("due", set(1))).is_err());
    drop(device);
    let device = Device::open(dir.path(), later, options("older", &clock)).unwrap();
    assert_eq!(device.views(), newer.views());
    drop(device);
    let back = Device::open(dir.path(), schema(), options("older", &clock)).err().unwrap();
    assert!(matches!(back, DeviceError::Schema(_)), "{back}");
}

#[test]
fn a_clock_that_was_days_ahead_does_not_stay_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let day = 86_400_000;
    let now = 1_000 * day;
    let device = Device::open(dir.path(), schema(), options("a", &clock)).unwrap();
    let mut server = Reference::new(schema());
    clock.set(now + 300 * day);
    device.act(name("task/1"), field("title", set(1))).unwrap();
    device.uploaded(&server.upload(&device.upload(0, 9).unwrap(), now)).unwrap();
    assert!(server.log[0].redated && server.log[0].operation.time.millis == now);
    // The clock is set right; what is done now is dated now, after the other.
    clock.set(now + 1_000);
    device.act(name("task/1"), field("title", set(2))).unwrap();
    sync(&device, &mut server);
    assert_eq!((server.log[1].redated, server.log[1].operation.time.millis), (false, now + 1_000));
    assert_eq!(title(&device), Some(View::Value(2.into())));
}

#[test]
fn what_was_done_last_stays_shown_while_the_server_moves_what_was_done_before() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let day = 86_400_000;
    let now = 1_000 * day;
    let open = || Device::open(dir.path(), schema(), options("a", &clock)).unwrap();
    let mut server = Reference::new(schema());
    let device = open();
    clock.set(now - 3 * day);
    device.act(name("task/1"), field("title", set(1))).unwrap();
    let upload = device.upload(0, 9).unwrap();
    for title in 2..4 {
        device.act(name("task/1"), field("title", set(title))).unwrap();
    }
    device.uploaded(&server.upload(&upload, now)).unwrap();
    assert!(server.log[0].redated && server.log[0].operation.time.millis == now);
    assert_eq!((device.pending(), title(&device)), (2, Some(View::Value(3.into()))));
    drop(device);
    let device = open();
    assert_eq!((device.pending(), title(&device)), (2, Some(View::Value(3.into()))));
    sync(&device, &mut server);
    assert_eq!((device.pending(), title(&device)), (0, Some(View::Value(3.into()))));
}

#[test]
fn what_a_restored_server_has_lost_is_dropped_when_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let open = || Device::open(dir.path(), schema(), options("a", &clock)).unwrap();
    let device = open();
    let mut server = Reference::new(schema());
    device.act(name("votes"), Change::Count(1)).unwrap();
    sync(&device, &mut server);
    let mut restored = Reference::new(schema());
    device.act(name("votes"), Change::Count(5)).unwrap();
    assert_eq!((device.cursor(), device.last()), (1, Some(server.log[0].operation.op_id)));
    device.start_over().unwrap();
    assert_eq!((device.cursor(), device.last(), device.pending()), (0, None, 1));
    drop(device);
    let device = open();
    sync(&device, &mut restored);
    assert_eq!((device.cursor(), device.view(&name("votes"))), (1, Some(View::Count(5))));
}
