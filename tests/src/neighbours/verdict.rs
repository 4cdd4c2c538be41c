// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The verdict of a test on the recorder and the decoder: passed, failed with the faults, or
//! skipped with a reason.

use serde_json::{Value, json};

use super::harness::Ended;

/// The verdict of one test in one mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestVerdict {
    /// It ended as it does unrecorded, and its captures have no faults.
    Passed,
    /// Failed, with the faults.
    Failed(Vec<String>),
    /// Skipped, with the reason.
    Skipped(String),
}

impl TestVerdict {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }

    /// The faults or the reason, as text.
    pub fn detail(&self) -> String {
        match self {
            Self::Passed => String::new(),
            Self::Failed(faults) => faults.join(", "),
            Self::Skipped(reason) => reason.clone(),
        }
    }

    /// Derives the verdict from the test's runs and jtreg's result. `unrecorded` finds out how
    /// the test ends under QEMU without JPortal and without QEMU. It is called only if the
    /// recorded test did not pass.
    ///
    /// # Errors
    /// The errors of `unrecorded`.
    pub fn of<E>(
        ended: Option<Ended>,
        runs: &[Value],
        unrecorded: impl FnOnce() -> Result<Unrecorded, E>,
    ) -> Result<Self, E> {
        let faults = || runs.iter().flat_map(|run| run["faults"].as_array().into_iter().flatten());
        let mut wrong: Vec<String> = faults().filter_map(|f| f.as_str().map(str::to_owned)).collect();
        let skip = runs.iter().find_map(|run| run["skip"].as_str());
        if ended.is_none() {
            return Ok(Self::Skipped("its requirements are not met".into()));
        }
        if wrong.is_empty() && skip.is_none() && runs.is_empty() {
            return Ok(Self::Skipped(match ended {
                Some(Ended::Error) => "it cannot be built or run".into(),
                _ => "it runs its main class in no VM of its own".into(),
            }));
        }
        if ended != Some(Ended::Passed) && skip.is_none() {
            match unrecorded()? {
                Unrecorded::Passes => wrong.push("it ends otherwise than unrecorded".into()),
                Unrecorded::FailsUnderQemu if wrong.is_empty() => {
                    return Ok(Self::Skipped("it fails under QEMU, recorded or not".into()));
                }
                Unrecorded::Fails if wrong.is_empty() => {
                    return Ok(Self::Skipped("it fails without QEMU and unrecorded, too".into()));
                }
                Unrecorded::FailsUnderQemu | Unrecorded::Fails => {}
            }
        }
        Ok(match (wrong.is_empty(), skip) {
            (false, _) => Self::Failed(wrong),
            (true, Some(reason)) => Self::Skipped(reason.into()),
            (true, None) => Self::Passed,
        })
    }

    /// The verdict as a line of the result file.
    pub fn line(&self, test: &str, mode: &str, runs: &[Value]) -> Value {
        json!({"test": test, "mode": mode, "verdict": self.name(), "detail": self.detail(), "runs": runs})
    }
}

/// How a test ends that is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrecorded {
    /// It passes, also under QEMU.
    Passes,
    /// It passes, but not under QEMU.
    FailsUnderQemu,
    /// It fails.
    Fails,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ended: Option<Ended>, runs: &[Value], unrecorded: Unrecorded) -> TestVerdict {
        TestVerdict::of(ended, runs, || Ok::<_, ()>(unrecorded)).unwrap()
    }

    #[test]
    fn faults_count_before_all_else() {
        use Ended::{Failed, Passed};
        use Unrecorded::{Fails, FailsUnderQemu, Passes};
        let clean = json!({"faults": []});
        let wrong = json!({"faults": ["1 contradictions"]});
        let long = json!({"skip": "it runs longer than 120 s"});
        assert_eq!(of(Some(Passed), std::slice::from_ref(&clean), Fails), TestVerdict::Passed);
        let failed = |text: &str| TestVerdict::Failed(vec![text.into()]);
        assert_eq!(of(Some(Passed), &[clean.clone(), wrong.clone()], Passes), failed("1 contradictions"));
        assert_eq!(
            of(Some(Failed), std::slice::from_ref(&wrong), FailsUnderQemu),
            failed("1 contradictions")
        );
        assert_eq!(of(Some(Failed), &[long.clone(), wrong], Passes), failed("1 contradictions"));
        let other = failed("it ends otherwise than unrecorded");
        assert_eq!(of(Some(Failed), std::slice::from_ref(&clean), Passes), other);
        for unrecorded in [FailsUnderQemu, Fails] {
            let verdict = of(Some(Failed), std::slice::from_ref(&clean), unrecorded);
            assert_eq!(verdict.name(), "skipped", "{verdict:?}");
        }
        assert_eq!(
            of(Some(Failed), &[long], Passes),
            TestVerdict::Skipped("it runs longer than 120 s".into())
        );
        assert_eq!(of(None, &[], Passes).name(), "skipped");
        assert_eq!(
            of(Some(Ended::Error), &[], Passes),
            TestVerdict::Skipped("it cannot be built or run".into())
        );
    }
}
