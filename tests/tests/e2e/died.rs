//! What a VM leaves that dies while it records.

use jportal_tests::died::{Way, die, moment};
use jportal_tests::place;

/// The long form: `cargo run -p jportal-tests --bin jportal-died`.
#[test]
fn what_a_dying_vm_leaves_is_whole_and_the_beginning_of_what_ran() {
    let test = "what_a_dying_vm_leaves_is_whole_and_the_beginning_of_what_ran";
    let Some(place) = place::installed(test) else { return };
    for (n, way) in (0..).zip(Way::ALL.into_iter().cycle().take(8)) {
        let left = die(&place, way, moment(7, n)).unwrap_or_else(|e| panic!("{e}"));
        assert!(left.trace > 1 << 20, "{}: {left:?}", way.name());
    }
}
