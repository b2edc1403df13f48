//! Each row of the table of what an answer proves.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};
use settled::ToolReply;
use settled::protocol::{ErrorClass, Policy, ToolKind};
use settled_http::classify::{Class, Declared, Heard, Means, classify};
use settled_http::retry_after;

fn class(status: u16, retry_after: Option<&str>, declared: &Declared) -> Class {
    let headers: HeaderMap =
        retry_after.map(|text| (RETRY_AFTER, HeaderValue::from_str(text).unwrap())).into_iter().collect();
    let status = StatusCode::from_u16(status).unwrap();
    // 1994-11-06 08:49:37 UTC
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    classify(Heard::Response { status, headers: &headers }, declared, now)
}

const fn busy(seconds: u64) -> Class {
    Class::Busy { retry_after: Some(Duration::from_secs(seconds)) }
}

#[test]
fn each_row() {
    let rows: &[(u16, Option<&str>, Class)] = &[
        (200, None, Class::Done),
        (201, None, Class::Done),
        (204, Some("5"), Class::Done),
        (299, None, Class::Done),
        (425, None, Class::Busy { retry_after: None }),
        (429, None, Class::Busy { retry_after: None }),
        (429, Some("120"), busy(120)),
        (425, Some("Sun, 06 Nov 1994 08:50:07 GMT"), busy(30)),
        (429, Some("Sun, 06 Nov 1994 08:00:00 GMT"), busy(0)),
        (429, Some("soon"), Class::Busy { retry_after: None }),
        (408, None, Class::Unproven),
        (408, Some("1"), Class::Unproven),
        (400, None, Class::Rejected),
        (401, None, Class::Rejected),
        (404, None, Class::Rejected),
        (409, None, Class::Rejected),
        (422, None, Class::Rejected),
        (499, None, Class::Rejected),
        (101, None, Class::Unproven),
        (301, None, Class::Unproven),
        (307, None, Class::Unproven),
        (500, None, Class::Unproven),
        (502, None, Class::Unproven),
        (503, None, Class::Unproven),
        (503, Some("7"), Class::Unproven),
        (504, None, Class::Unproven),
        (599, None, Class::Unproven),
        (999, None, Class::Unproven),
    ];
    for (status, after, expected) in rows {
        assert_eq!(class(*status, *after, &Declared::new()), *expected, "{status} {after:?}");
    }
    let unheard = [
        (Heard::NoConnection, Class::Busy { retry_after: None }),
        (Heard::NoRequest, Class::NotRun),
        (Heard::NoAnswer, Class::Lost),
    ];
    for (heard, expected) in unheard {
        assert_eq!(classify(heard, &Declared::new(), SystemTime::now()), expected, "{heard:?}");
    }
}

#[test]
fn what_is_declared_goes_before_the_table() {
    let declared = Declared::new()
        .status(StatusCode::SERVICE_UNAVAILABLE, Means::Nothing)
        .status(StatusCode::SERVICE_UNAVAILABLE, Means::Busy)
        .status(StatusCode::CONFLICT, Means::Done)
        .status(StatusCode::BAD_REQUEST, Means::NotRun)
        .status(StatusCode::OK, Means::Nothing);
    assert_eq!(class(503, Some("7"), &declared), busy(7));
    assert_eq!(class(409, None, &declared), Class::Done);
    assert_eq!(class(400, None, &declared), Class::NotRun);
    assert_eq!(class(200, None, &declared), Class::Unproven);
    assert_eq!(class(500, None, &declared), Class::Unproven);
}

#[test]
fn final_errors_cover_rejections_only() {
    let body = Bytes::from_static(b"body");
    let reply = |class: Class, errors_final| {
        class.into_reply(body.clone(), &Policy { errors_final, ..Policy::new(ToolKind::Opaque) })
    };
    let unproven = ToolReply::Error(ErrorClass::Unproven, body.clone());
    for errors_final in [false, true] {
        assert_eq!(reply(Class::Rejected, errors_final), unproven);
        assert_eq!(reply(Class::Done, errors_final), ToolReply::Result(body.clone()));
        assert_eq!(reply(Class::NotRun, errors_final), ToolReply::Error(ErrorClass::NotRun, body.clone()));
        assert_eq!(
            reply(busy(3), errors_final),
            ToolReply::Busy { retry_after: Some(Duration::from_secs(3)), body: body.clone() }
        );
        assert_eq!(reply(Class::Lost, errors_final), ToolReply::ConnectionLost);
    }
    assert_eq!(reply(Class::Unproven, false), unproven);
    // To the core, every error would be final.
    assert_eq!(reply(Class::Unproven, true), ToolReply::ConnectionLost);
}

#[test]
fn a_wait_without_end_is_no_error() {
    let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("99999999999999999999999"))]);
    assert_eq!(retry_after::parse(&headers, SystemTime::now()), Some(Duration::MAX));
    assert_eq!(retry_after::parse(&HeaderMap::new(), SystemTime::now()), None);
    let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("-1"))]);
    assert_eq!(retry_after::parse(&headers, SystemTime::now()), None);
}
