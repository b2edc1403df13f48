//! Stored HTTP messages.

use bytes::Bytes;
use settled_http::message::{is_kept, read_request, read_response, write_request, write_response};

/// Any stored message: never a panic, and what is read is written and read back.
pub fn any_message(bytes: &[u8]) {
    let stored = Bytes::copy_from_slice(bytes);
    if let Ok(request) = read_request(&stored) {
        assert!(bytes.ends_with(&request.body));
        let written = write_request(&request.method, &request.target, &request.headers, &request.body);
        let again = read_request(&written).expect("it was written");
        assert_eq!((&again.method, &again.target, &again.body), (&request.method, &request.target, &request.body));
        for (name, value) in &again.headers {
            assert!(is_kept(name, value), "{name} was kept");
            assert!(request.headers.get_all(name).iter().any(|was| was == value), "{name} came from nowhere");
        }
    }
    if let Ok(response) = read_response(&stored) {
        assert!(bytes.ends_with(&response.body));
        let written = write_response(response.status, &response.headers, &response.body, |_, _| true);
        let again = read_response(&written).expect("it was written");
        assert_eq!((again.status, &again.headers, &again.body), (response.status, &response.headers, &response.body));
    }
}
