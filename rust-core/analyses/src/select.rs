// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Patterns that select classes and methods.

use std::str::FromStr;

use glob::{MatchOptions, Pattern as Glob};
use jportal_bytecode::Method;

use crate::names::split_qualified;

/// A pattern for classes, or for methods of classes: `CLASS` or `CLASS#METHOD`.
///
/// `CLASS` is a binary name with dots. Without wildcards it selects the class of that name and the
/// classes nested in it, and all classes of the package of that name and of the packages below it.
/// `*` and `?` match within a part of the name, `**` matches any number of parts. `METHOD` is a
/// method's name, in which `*` and `?` are wildcards, too.
#[derive(Clone, Debug)]
pub struct Pattern {
    class: Class,
    method: Option<Glob>,
}

#[derive(Clone, Debug)]
enum Class {
    /// With slashes instead of dots. A slash at its end means all classes of a package.
    Name(String),
    Glob(Glob),
}

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no pattern: {why}")]
pub struct BadPattern {
    text: String,
    why: String,
}

impl FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let bad = |why: &str| BadPattern { text: text.to_owned(), why: why.to_owned() };
        let glob = |part: &str| Glob::new(part).map_err(|e| bad(e.msg));
        let (class, method) = match text.split_once('#') {
            Some((class, method)) => (class, Some(method)),
            None => (text, None),
        };
        if class.is_empty() || method == Some("") {
            return Err(bad("a name is empty"));
        }
        let name = class.replace('.', "/");
        let class =
            if name.contains(['*', '?', '[']) { Class::Glob(glob(&name)?) } else { Class::Name(name) };
        Ok(Self { class, method: method.map(glob).transpose()? })
    }
}

impl Pattern {
    /// Whether the pattern selects a method.
    pub fn selects(&self, method: &Method) -> bool {
        self.selects_class(&method.class_name)
            && self.method.as_ref().is_none_or(|name| name.matches(&method.name))
    }
    /// Whether the pattern selects the method of a name from a report:
    /// `class.name(descriptor)`. It selects no other texts.
    pub fn selects_qualified(&self, name: &str) -> bool {
        split_qualified(name).is_some_and(|(class, method, _)| self.selects_named(class, method))
    }
    /// Whether the pattern selects the method `method` of a class. `class`: with dots.
    pub(crate) fn selects_named(&self, class: &str, method: &str) -> bool {
        self.selects_class(&class.replace('.', "/"))
            && self.method.as_ref().is_none_or(|name| name.matches(method))
    }
    /// Whether the pattern selects methods of a class. `name`: with slashes.
    fn selects_class(&self, name: &str) -> bool {
        const WITHIN_PARTS: MatchOptions = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        match &self.class {
            Class::Name(wanted) => match name.strip_prefix(wanted.as_str()) {
                Some(_) if wanted.ends_with('/') => true,
                Some(rest) => rest.is_empty() || rest.starts_with(['/', '$', '+']),
                None => false,
            },
            Class::Glob(glob) => glob.matches_with(name, WITHIN_PARTS),
        }
    }
}

/// Whether a method belongs to the application: not to the boot or the platform loader, not to the
/// oracle agent, and not to the classes that the JDK makes for reflection, each with a loader of
/// its own (`jdk.internal.reflect.ClassDefiner`).
pub fn is_application(method: &Method) -> bool {
    const OF_THE_JDK: [&str; 2] = ["PlatformClassLoader", "reflect.DelegatingClassLoader"];
    !method.loader.is_empty()
        && !OF_THE_JDK.iter().any(|loader| method.loader.contains(loader))
        && !method.class_name.starts_with("jportal/oracle/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::method;

    fn selects(pattern: &str, class: &str, name: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().selects(&method(class, name, &[]))
    }

    #[test]
    fn names_end_at_boundaries() {
        for class in ["com/example/Foo", "com/example/Foo$Bar", "com/example/sub/Foo"] {
            assert!(selects("com.example", class, "f"), "{class}");
        }
        assert!(!selects("com.example", "com/example2/Foo", "f"));
        assert!(selects("com.example.Foo", "com/example/Foo$Bar", "f"));
        assert!(selects("com.example.Foo$Bar", "com/example/Foo$Bar", "f"));
        assert!(!selects("com.example.Foo", "com/example/Food", "f"));
        assert!(selects("com.example.", "com/example/Foo", "f"));
        assert!(!selects("com.example.", "com/example", "f"));
        assert!(selects("Main", "Main", "f") && !selects("Main", "a/Main", "f"));
    }

    #[test]
    fn wildcards_stay_within_parts() {
        assert!(selects("com.*.Foo", "com/example/Foo", "f"));
        assert!(!selects("com.*.Foo", "com/a/b/Foo", "f"));
        assert!(selects("com.**.Foo*", "com/a/b/Food", "f"));
        assert!(selects("**.Foo", "com/a/Foo", "f") && selects("**.Foo", "Foo", "f"));
        assert!(selects("com.**", "com/a/b/Foo$Bar", "f") && !selects("com.**", "org/Foo", "f"));
        assert!(selects("a.F?o", "a/Foo", "f") && !selects("a.F?o", "a/Fooo", "f"));
        assert!(selects("a.𝓓*", "a/𝓓x", "f"), "a character beyond U+FFFF");
    }

    #[test]
    fn what_belongs_to_the_application() {
        let of = |class: &str, loader: &str| {
            is_application(&Method { loader: loader.into(), ..method(class, "f", &[]) })
        };
        assert!(of("a/B", "jdk/internal/loader/ClassLoaders$AppClassLoader 'app'"));
        assert!(of("jdk/internal/reflect/GeneratedMethodAccessor1", "a/DelegatingClassLoader"));
        assert!(!of("java/lang/String", ""));
        assert!(!of("java/sql/Driver", "jdk/internal/loader/ClassLoaders$PlatformClassLoader 'platform'"));
        let delegating =
            "jdk/internal/reflect/DelegatingClassLoader jdk.internal.reflect.DelegatingClassLoader @1";
        assert!(!of("jdk/internal/reflect/GeneratedMethodAccessor1", delegating));
    }

    #[test]
    fn methods_by_name() {
        assert!(selects("a.B#get*", "a/B", "getX") && !selects("a.B#get*", "a/B", "setX"));
        assert!(selects("**#<init>", "a/B", "<init>"));
    }

    #[test]
    fn methods_by_qualified_name() {
        let selects = |pattern: &str, name| pattern.parse::<Pattern>().unwrap().selects_qualified(name);
        assert!(selects("a.B#f", "a.B.f(I)I") && !selects("a.B#f", "a.B.g(I)I"));
        assert!(selects("a", "a.B$C.f()V") && !selects("a", "ab.C.f()V") && !selects("**", "(VM)"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "#x", "a.B#", "a.***", "a.[", "a.x**"] {
            let refused = text.parse::<Pattern>().unwrap_err();
            assert!(refused.to_string().starts_with(&format!("{text:?} is no pattern: ")), "{refused}");
        }
    }
}
