// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tries many changes of one capture, several at a time.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::judge::{Judge, ResourceLimits};
use super::model::Model;
use super::plan::{Amount, Mutation, plan};
use crate::Result;

/// A set of changes, and the number of commands that read each changed capture.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The command.
    pub jportal: PathBuf,
    /// How much is changed.
    pub amount: Amount,
    /// Seed of the random choices.
    pub seed: u64,
    /// Greatest number of changes, spread evenly over all; 0: all.
    pub most: usize,
    /// Number of commands that run on each changed capture; they take turns.
    pub commands: usize,
    /// Only changes whose names contain this text.
    pub only: String,
    /// Folder for changed captures on which a command failed.
    pub keep: Option<PathBuf>,
    /// Number of changes tried at the same time.
    pub jobs: usize,
}

/// The result of a [`Campaign`].
#[derive(Debug, Default)]
pub struct CampaignOutcome {
    /// Number of changes that were tried.
    pub tried: usize,
    /// Descriptions of the failures.
    pub failures: Vec<String>,
}

impl Campaign {
    /// Each kind of change once, each tested by `commands` commands.
    pub fn small(jportal: &Path, commands: usize) -> Self {
        Self {
            jportal: jportal.into(),
            amount: Amount::SMALL,
            seed: 1,
            most: 0,
            commands,
            only: String::new(),
            keep: None,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The changes of `model`.
    ///
    /// # Errors
    /// If a record of it does not fit its schema.
    pub fn mutations(&self, model: &Model) -> Result<Vec<Mutation>> {
        let mut all = plan(model, self.seed, self.amount)?;
        all.retain(|m| m.name.contains(&self.only));
        if self.most > 0 && all.len() > self.most {
            let step = all.len().div_ceil(self.most);
            all = all.into_iter().step_by(step).collect();
        }
        Ok(all)
    }

    /// Tries all changes of the whole capture at `capture`. Calls `say` with each failure when it
    /// occurs.
    ///
    /// # Errors
    /// If the capture cannot be parsed, or a command fails on the untouched one.
    pub fn run(&self, capture: &Path, say: impl Fn(&str) + Sync) -> Result<CampaignOutcome> {
        let folder = tempfile::tempdir()?;
        let base = folder.path().join("base.jportal");
        let mut model = Model::read(capture)?;
        model.complete()?;
        std::fs::write(&base, model.file(&model.chunks()))?;
        if let Some(keep) = &self.keep {
            std::fs::create_dir_all(keep)?;
            std::fs::copy(&base, keep.join("base.jportal"))?;
        }
        let mutations = self.mutations(&model)?;
        let judge = Judge::new(&self.jportal, &base, ResourceLimits::default())?;
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            let folder = tempfile::tempdir()?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(mutation) = mutations.get(number) else { return Ok(()) };
                for failure in self.try_one(&judge, (number, mutation), &model, folder.path())? {
                    say(&failure);
                    failures.lock().unwrap_or_else(|e| e.into_inner()).push(failure);
                }
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a worker panicked")?)
        })?;
        let failures = failures.into_inner().unwrap_or_else(|e| e.into_inner());
        Ok(CampaignOutcome { tried: mutations.len(), failures })
    }

    fn try_one(
        &self,
        judge: &Judge,
        (number, mutation): (usize, &Mutation),
        model: &Model,
        folder: &Path,
    ) -> Result<Vec<String>> {
        let path = folder.join("changed.jportal");
        std::fs::write(&path, mutation.apply(model))?;
        let all = Judge::commands();
        // The first command does the most work, so it always runs.
        let in_turn = |n: usize| (n + all - 1 - number % (all - 1)) % (all - 1) < self.commands - 1;
        let failures = judge.judge(&path, folder, |n| n.checked_sub(1).is_none_or(in_turn))?;
        if let Some(keep) = self.keep.as_ref().filter(|_| !failures.is_empty()) {
            std::fs::copy(&path, keep.join(format!("{number}.jportal")))?;
        }
        Ok(failures
            .iter()
            .map(|f| format!("{number}: {}: {}: {}", mutation.name, f.command, f.what))
            .collect())
    }
}
