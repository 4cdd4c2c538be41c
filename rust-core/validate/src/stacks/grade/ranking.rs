// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares the hot methods of a profile with those of the flow.

use jportal_analyses::hot::NamedCost;
use jportal_bytecode::MethodTable;
use serde::Serialize;

use super::compare::{MethodShares, Weights, java_names};
use super::names::names_of;
use super::profile::StackProfile;
use super::report::{GradedMethod, LikenessRow, ProfileFigures, likeness_table, method_table, profile_text};
use super::tree::{Cost, NameNumbers};

/// A profile beside the truth, method by method. Contexts of calls are not compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankingReport {
    /// What the profile has.
    pub profile: ProfileFigures,
    /// Weight of the stacks that were compared.
    pub graded: u64,
    /// The profile beside the truth.
    pub likeness: Vec<LikenessRow>,
    /// The methods at the top of the profile, then those at the top of the truth only.
    pub methods: Vec<GradedMethod>,
}

impl RankingReport {
    /// Compares `profile` with the costs of the same run. `methods`: those of the capture.
    pub fn new(profile: &StackProfile, costs: &[NamedCost], methods: &MethodTable) -> Self {
        let mut names = NameNumbers::default();
        let numbers: Vec<u32> = costs.iter().map(|c| names.number(c.method.clone())).collect();
        let of_profile = java_names(profile, &names_of(methods), &mut names);
        let (mut own, mut total) = (vec![Cost::default(); names.len()], vec![Cost::default(); names.len()]);
        for (number, NamedCost { bytecodes, cost, .. }) in numbers.into_iter().zip(costs) {
            own[number as usize].add(Cost { bytecodes: *bytecodes, ticks: cost.ticks });
            total[number as usize].add(Cost { bytecodes: cost.inclusive, ticks: 0 });
        }
        let (figures, weights) = Weights::of(profile, &of_profile, |_, _, _| ());
        let shares = MethodShares { names: &names, truth: (&own, &total), weights: &weights };
        Self {
            graded: figures.weight - figures.without_java,
            profile: figures,
            likeness: shares.likeness(),
            methods: shares.methods(),
        }
    }
    /// As text.
    pub fn text(&self) -> String {
        let (likeness, methods) = (likeness_table(&self.likeness), method_table(&self.methods));
        format!("{}\n{likeness}\n{methods}", profile_text(&self.profile))
    }
}
