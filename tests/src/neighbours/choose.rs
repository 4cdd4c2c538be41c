// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Chooses tests: their random order, and the ones that their descriptions rule out.

use std::path::Path;

use crate::Result;
use crate::fuzz::rng::Rng;

/// Puts the tests in the order of `seed`, which is the same on every machine.
pub fn shuffle(mut tests: Vec<String>, seed: u64) -> Vec<String> {
    tests.sort();
    let mut rng = Rng::new(seed);
    for last in (1..tests.len()).rev() {
        let other = usize::try_from(rng.below(last as u64 + 1)).unwrap_or(last);
        tests.swap(last, other);
    }
    tests
}

/// Words in the source of a test that does its work in processes that it starts.
const STARTS_PROCESSES: [&str; 4] =
    ["ProcessTools", "ProcessBuilder", "OutputAnalyzer", "Runtime.getRuntime().exec"];

/// Why `test` is not taken; `None` if it is. `test` is `PATH` or `PATH#ID` below `root`.
///
/// # Errors
/// If its source cannot be read.
pub fn refuse(root: &Path, test: &str) -> Result<Option<&'static str>> {
    let (file, id) = test.split_once('#').map_or((test, None), |(file, id)| (file, Some(id)));
    let bytes = std::fs::read(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
    let text = String::from_utf8_lossy(&bytes);
    let Some(description) = description(&text, id) else { return Ok(Some("no test description")) };
    Ok(by_actions(&actions(&description))
        .or_else(|| STARTS_PROCESSES.iter().any(|word| text.contains(word)).then_some("it starts processes")))
}

fn by_actions(actions: &[&str]) -> Option<&'static str> {
    let any = |wanted: fn(&str) -> bool| actions.iter().any(|a| wanted(a));
    if any(|a| a.split('/').any(|part| part == "native")) {
        Some("it needs a native library")
    } else if any(|a| a.split('/').any(|part| part == "manual")) {
        Some("it wants a person")
    } else if any(|a| a == "shell" || a == "applet") {
        Some("it is a shell script or an applet")
    } else if actions.is_empty() || any(|a| a.split('/').next() == Some("main")) {
        None
    } else {
        Some("it has no main action")
    }
}

/// The comment that describes the test `id`, or the first description. jtreg numbers descriptions
/// without an id (`id0`, `id1`).
fn description(text: &str, id: Option<&str>) -> Option<String> {
    let comments = text.split("/*").skip(1).filter_map(|rest| rest.split("*/").next());
    let all: Vec<&str> = comments.filter(|comment| tag(comment, "@test").is_some()).collect();
    let own =
        |comment: &str| tag(comment, "@test").and_then(|words| words.strip_prefix("id=")).map(str::to_owned);
    let found = match id {
        None => all.first(),
        Some(id) => {
            let named = all.iter().find(|comment| own(comment).as_deref() == Some(id));
            let number = id.strip_prefix("id").and_then(|n| n.parse::<usize>().ok());
            named.or_else(|| all.get(number?))
        }
    };
    found.map(|comment| (*comment).to_owned())
}

/// The first word after the tag in a comment, if the comment has the tag.
fn tag<'t>(comment: &'t str, tag: &str) -> Option<&'t str> {
    comment.lines().find_map(|line| {
        let rest = line.trim_start_matches([' ', '\t', '*']).strip_prefix(tag)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace))
            .then(|| rest.split_whitespace().next().unwrap_or_default())
    })
}

/// The actions that `@run` tags name: `main/othervm`, `driver` and so on. Options such as
/// `timeout=120` are included.
fn actions(description: &str) -> Vec<&str> {
    let run = |line| tag(line, "@run").map(|word: &str| word);
    description.lines().filter_map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_an_order() {
        let tests: Vec<String> = (0..100).map(|n| format!("t{n:02}")).collect();
        let backwards = tests.iter().rev().cloned().collect();
        assert_eq!(shuffle(tests.clone(), 7), shuffle(backwards, 7));
        assert_ne!(shuffle(tests.clone(), 7), shuffle(tests.clone(), 8));
        let mut again = shuffle(tests.clone(), 7);
        again.sort();
        assert_eq!(again, tests);
    }

    fn refused(text: &str, id: &str) -> Option<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("T.java"), text).unwrap();
        refuse(folder.path(), &format!("T.java{id}")).unwrap()
    }

    #[test]
    fn descriptions_decide() {
        let of = |runs: &str| refused(&format!("/*\n * @test\n{runs}\n */\nclass T {{}}"), "");
        assert_eq!(of(" * @run main T\n * @run main/othervm/timeout=20 -Xbatch T"), None);
        assert_eq!(of(" * @bug 123"), None, "main is the default");
        assert_eq!(of(" * @run driver T"), Some("it has no main action"));
        assert_eq!(of(" * @run driver A\n * @run main/othervm T"), None);
        assert_eq!(of(" * @run main/othervm/native T"), Some("it needs a native library"));
        assert_eq!(of(" * @run testng/othervm T"), Some("it has no main action"));
        assert_eq!(refused("/* a licence */ class T {}", ""), Some("no test description"));
        let spawns = "/* @test */ class T { ProcessBuilder p; }";
        assert_eq!(refused(spawns, ""), Some("it starts processes"));
    }

    #[test]
    fn each_id_has_its_own() {
        let text = "/* @test id=one\n @run driver T\n*/\n/* @test id=two\n @run main T\n*/\n/* @test\n @run shell x\n*/";
        assert_eq!(refused(text, "#one"), Some("it has no main action"));
        assert_eq!(refused(text, "#two"), None);
        assert_eq!(refused(text, "#id2"), Some("it is a shell script or an applet"));
    }
}
