// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Translates the losses that the compilers report into the causes of the flow.

use jportal_capture::schema::ambiguities;
use jportal_flow::Cause;

/// The cause for one of [`ambiguities`].
pub(crate) const fn cause(ambiguity: u16) -> Cause {
    match ambiguity {
        ambiguities::CONDITIONAL_MOVE => Cause::ConditionalMove,
        ambiguities::EMPTY_DIAMOND => Cause::EmptyDiamond,
        ambiguities::FOLDED_COMPARES => Cause::FoldedCompares,
        ambiguities::TRICHOTOMY => Cause::Trichotomy,
        ambiguities::CLIPPING => Cause::Clipping,
        ambiguities::EMPTY_LOOP => Cause::EmptyLoop,
        ambiguities::ARRAY_FILL => Cause::ArrayFill,
        ambiguities::SHARED_TARGET => Cause::SharedTarget,
        ambiguities::CONDITIONAL_EXPRESSION => Cause::ConditionalExpression,
        ambiguities::TOO_MANY => Cause::TooManyMarkers,
        ambiguities::UNKNOWN_INSTRUCTION => Cause::UnknownInstruction,
        ambiguities::STRING_CONCATENATION => Cause::StringConcatenation,
        ambiguities::PREPARED_EXCEPTION => Cause::PreparedException,
        _ => Cause::OtherFold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_vm_image::markers::ambiguity_name;

    #[test]
    fn every_fold_that_the_vm_names_has_a_cause_of_that_name() {
        let known = (0..=u16::MAX).filter(|&a| ambiguity_name(a) != ambiguity_name(0));
        for a in known {
            let (ours, vm) = (cause(a).name().replace('-', " "), ambiguity_name(a));
            assert_eq!(ours, vm);
        }
        assert_eq!(cause(0), Cause::OtherFold);
    }
}
