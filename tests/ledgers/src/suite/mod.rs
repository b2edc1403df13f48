//! The cases. One table names them all: each ledger's tests are made from it, so that none can leave one out.

mod budget;
mod contents;
mod due;
mod epochs;
mod forgetting;
mod history;
mod leases;
mod lines;
mod races;
mod stores;
mod waits;

use std::sync::Arc;

use settled::{Change, Entry, Ledger, Stored};
use settled_protocol::{Durable, Key};

use crate::run::Views;

/// A view of the ledger under test.
type View = Arc<dyn Ledger>;

macro_rules! table {
    ($dollar:tt $($group:ident: $($case:ident),+;)+) => {
        /// Every case by its name. A case panics if the promise is broken.
        pub mod cases {
            $(
                #[allow(missing_docs)] // the names say it
                pub mod $group {
                    $(
                        pub async fn $case(views: std::sync::Arc<crate::Views>) {
                            crate::suite::$group::$case(&views).await;
                        }
                    )+
                }
            )+
        }

        /// Makes a test of each case, for the ledger that `views` (the path of an `async fn() -> Views`) opens.
        #[macro_export]
        macro_rules! conformance {
            ($dollar views:path) => {
                $(
                    mod $group {
                        $(
                            #[test]
                            fn $case() {
                                $crate::run($dollar views, $crate::cases::$group::$case);
                            }
                        )+
                    }
                )+
            };
        }
    };
}

table! { $
    epochs:
        none_is_handed_out_twice,
        none_is_handed_out_twice_at_once,
        time_is_shared_and_never_goes_back;
    leases:
        a_new_owner_is_alive_to_all,
        a_lease_that_is_not_renewed_runs_out,
        a_renewed_lease_runs_on,
        a_renewal_counts_from_when_it_is_made,
        a_lapsed_owner_is_fenced_for_good,
        one_owner_s_end_is_not_another_s,
        a_retired_owner_is_gone,
        a_lapsed_owner_may_retire,
        odd_lengths_are_leases_too,
        a_lapsed_owner_can_still_store;
    stores:
        a_claim_is_stored_once,
        only_the_version_held_can_be_replaced,
        every_state_comes_back,
        what_a_change_leaves_out_stays_as_it_was,
        a_new_generation_inherits_nothing,
        a_refused_change_leaves_no_trace,
        versions_begin_anywhere,
        scans_filter_and_are_in_order;
    history:
        all_changes_are_told_in_order,
        generations_share_a_history,
        a_history_is_its_key_s_alone;
    forgetting:
        only_the_version_named_is_forgotten,
        a_forgotten_key_can_be_claimed_anew,
        a_tombstone_is_all_but_empty,
        a_new_operation_replaces_a_tombstone,
        a_tombstone_can_be_prolonged_and_forgotten,
        a_forgotten_operation_leaves_its_line,
        one_of_many_forgets_wins;
    due:
        those_whose_time_is_over_are_due,
        unsettled_ones_never_are,
        pages_hold_each_once_in_one_order,
        pages_go_on_after_what_was_forgotten,
        the_latest_change_decides,
        tombstones_are_due_again,
        far_times_are_far;
    lines:
        the_first_to_claim_is_first,
        only_the_settled_leave,
        a_place_is_kept,
        a_new_generation_goes_to_the_back,
        resources_are_told_apart,
        who_sees_itself_first_stays_first;
    budget:
        both_views_draw_from_one_bucket,
        requests_fill_it_up_to_its_size,
        many_draws_at_once_take_no_more_than_there_is;
    contents:
        nothing_at_all_comes_back,
        every_byte_comes_back,
        eight_megabytes_come_back,
        odd_texts_come_back,
        the_longest_keys_come_back,
        extreme_numbers_come_back,
        similar_keys_are_told_apart;
    races:
        one_of_many_claims_wins,
        advances_never_share_a_version,
        what_was_read_is_never_taken_back,
        many_keys_at_once;
    waits:
        a_change_is_noticed,
        a_forgotten_key_is_noticed,
        no_change_is_missed_between_look_and_wait,
        many_wait_for_one_key,
        without_a_change_waiting_ends,
        waiting_is_no_busy_loop;
}

async fn store(ledger: &View, change: Change) {
    let what = format!("{} {}", change.key, change.event);
    let record = change.record;
    let stored = ledger.compare_and_set(change).await.unwrap();
    assert_eq!(stored, Stored::Durable(Durable::attest(&record)), "{what}");
}

async fn refuse(ledger: &View, change: Change) {
    let what = format!("{} {}", change.key, change.event);
    assert_eq!(ledger.compare_and_set(change).await.unwrap(), Stored::Refused, "{what}");
}

/// What both views hold of a key: they must agree.
async fn held(views: &Views, key: &Key) -> Option<Entry> {
    let entry = views.a.get(key).await.unwrap();
    assert_eq!(views.b.get(key).await.unwrap(), entry);
    entry
}

/// What both views tell of a key's history: they must agree.
async fn told(views: &Views, key: &Key) -> Vec<Change> {
    let changes = views.a.history(key).await.unwrap();
    assert_eq!(views.b.history(key).await.unwrap(), changes);
    changes
}
