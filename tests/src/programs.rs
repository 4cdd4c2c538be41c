// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The programs that are recorded, and their sizes.

use std::path::{Path, PathBuf};

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Seconds under the emulated unit.
    Small,
    /// Minutes under the emulated unit, with thousands of inserts and queries, for example.
    Full,
}

/// A program and how to start it.
#[derive(Debug, Clone)]
pub struct Program {
    /// Short name.
    pub name: &'static str,
    /// Main class, with its module if it is in one.
    pub main: &'static str,
    /// Jars in /usr/share/java (from Debian's packages) that it needs.
    jars: &'static [&'static str],
    /// Arguments at [`Size::Small`].
    small: &'static [&'static str],
    /// Arguments at [`Size::Full`].
    full: &'static [&'static str],
}

const fn unit(name: &'static str, main: &'static str, small: &'static [&'static str]) -> Program {
    Program { name, main, jars: &[], small, full: &[] }
}

/// The small programs. Together they contain every bytecode.
pub const UNITS: &[Program] = &[
    unit("arithmetic", "programs.Arithmetic", &["3"]),
    unit("arrays", "programs.ArrayForms", &["12"]),
    unit("branches", "programs.Branches", &["60"]),
    unit("switches", "programs.Switches", &["3"]),
    unit("exceptions", "programs.Exceptions", &["12"]),
    unit("class-init", "programs.ClassInit", &[]),
    unit("calls", "programs.Calls", &["60"]),
    unit("dynamic", "programs.Dynamic", &["12"]),
    unit("reflection", "programs.Reflect", &["24"]),
    unit("natives", "programs.Natives", &["12"]),
    unit("monitors", "programs.Monitors", &["20"]),
    unit("threads", "programs.Threads", &["120"]),
    unit("recursion", "programs.Recursion", &["400"]),
    unit("library", "programs.Library", &["100"]),
    unit("loaders", "programs.Loaders", &["12"]),
    unit("resolving", "programs.Resolving", &["4"]),
    unit("hot-loops", "programs.HotLoops", &["3000"]),
    unit("old-forms", "programs.OldForms", &["20"]),
    unit("new-forms", "programs.NewForms", &["20"]),
];

/// A program with more than a megabyte of bytecode.
pub const MANY_METHODS: Program = unit("many-methods", "programs.ManyMethods", &["2"]);

/// Real programs.
pub const WORKLOADS: &[Program] = &[
    Program { name: "h2", main: "H2Load", jars: &["h2"], small: &["60"], full: &["5000"] },
    Program { name: "javac", main: "JavacLoad", jars: &[], small: &["@one", "1"], full: &["@sources", "2"] },
    Program {
        name: "xalan",
        main: "XalanLoad",
        jars: XML,
        small: &["@stylesheet", "@document", "1"],
        full: &["@stylesheet", "@document", "16"],
    },
    Program { name: "hsqldb", main: "HsqldbLoad", jars: &["hsqldb"], small: &["8"], full: &["5800"] },
    Program {
        name: "ecj",
        main: "EcjLoad",
        jars: &["eclipse-jdt-core"],
        small: &["@one", "1"],
        full: &["@sources", "2"],
    },
    Program {
        name: "antlr",
        main: "AntlrLoad",
        jars: &["antlr4", "antlr4-runtime", "antlr3-runtime", "stringtemplate4", "treelayout"],
        small: &["@grammar", "4", "1"],
        full: &["@grammar", "850", "1"],
    },
    Program {
        name: "fop",
        main: "FopLoad",
        jars: &[
            "fop",
            "batik-all",
            "commons-io",
            "commons-logging",
            "fontbox2",
            "serializer",
            "xalan2",
            "xercesImpl",
            "xml-apis",
            "xml-apis-ext",
            "xmlgraphics-commons",
        ],
        small: &["@fo-stylesheet", "@document", "4", "1"],
        full: &["@fo-stylesheet", "@document", "160", "1"],
    },
    Program {
        name: "sunflow",
        main: "SunflowLoad",
        jars: &["sunflow"],
        small: &["@scene", "24", "6", "1"],
        full: &["@scene", "160", "40", "2"],
    },
];

/// Programs that are recorded only without the oracle's probes. Nearly all are real programs.
pub const TOOLS: &[Program] = &[
    unit("jump-tables", "programs.JumpTables", &["60000"]),
    unit("lookups", "programs.Lookups", &["800"]),
    // Many small rounds, because H2 sorts with random pivots if LIMIT leaves rows out.
    Program { name: "h2-rounds", main: "H2Load", jars: &["h2"], small: &["150", "6"], full: &[] },
    Program {
        name: "xerces",
        main: "XmlLoad",
        jars: XML,
        small: &["validate", "@document", "20"],
        full: &[],
    },
    Program { name: "serializer", main: "XmlLoad", jars: XML, small: &["copy", "@document", "8"], full: &[] },
    Program {
        name: "antlr-tool",
        main: "org.antlr.v4.Tool",
        jars: &[
            "antlr4",
            "antlr4-runtime",
            "antlr3-runtime",
            "stringtemplate4",
            "treelayout",
            "icu4j",
            "javax.json",
        ],
        small: &["-visitor", "-o", "@out", "@grammar"],
        full: &[],
    },
    Program {
        name: "textifier",
        main: "org.objectweb.asm.util.Textifier",
        jars: &["asm", "asm-tree", "asm-analysis", "asm-util", "h2"],
        small: &["org.h2.command.Parser"],
        full: &[],
    },
    Program {
        name: "javap",
        main: "jdk.jdeps/com.sun.tools.javap.Main",
        jars: &[],
        small: &["-c", "-v", "-p", "-cp", "/usr/share/java/h2.jar", "org.h2.mvstore.MVStore"],
        full: &[],
    },
    Program {
        name: "batik",
        main: "org.apache.batik.apps.rasterizer.Main",
        jars: &[
            "batik-all",
            "commons-io",
            "commons-logging",
            "xercesImpl",
            "xml-apis",
            "xml-apis-ext",
            "xmlgraphics-commons",
        ],
        small: &["-scriptSecurityOff", "-w", "384", "-h", "288", "-d", "@out", "@drawing"],
        full: &[],
    },
];

/// Scripts, if their interpreters are installed: Debian's packages jython, clojure and groovy,
/// which scripts/setup does not install.
pub const SCRIPTS: &[Program] = &[
    Program {
        name: "jython",
        main: "org.python.util.jython",
        jars: &["jython"],
        small: &["-Dpython.home=/usr/share/jython", "-Dpython.cachedir.skip=true", "@accounts.py"],
        full: &[],
    },
    Program {
        name: "clojure",
        main: "clojure.main",
        jars: &["clojure"],
        small: &["@numbers.clj"],
        full: &[],
    },
    Program {
        name: "groovy",
        main: "groovy.ui.GroovyMain",
        jars: &["groovy-all"],
        small: &["@accounts.groovy"],
        full: &[],
    },
];

const XML: &[&str] = &["xalan2", "serializer", "xercesImpl"];

/// The document that Xalan and FOP transform, from Debian's package iso-codes.
pub const DOCUMENT: &str = "/usr/share/xml/iso-codes/iso_639-2.xml";

/// The program with this short name.
pub fn by_name(name: &str) -> Option<Program> {
    UNITS
        .iter()
        .chain(WORKLOADS)
        .chain(TOOLS)
        .chain(SCRIPTS)
        .chain([&MANY_METHODS])
        .find(|p| p.name == name)
        .cloned()
}

impl Program {
    /// A file that the program needs and that is missing on this machine.
    pub fn missing(&self) -> Option<String> {
        let jars = self.jars.iter().map(|jar| format!("/usr/share/java/{jar}.jar"));
        let document = self.small.contains(&"@document").then(|| DOCUMENT.to_owned());
        jars.chain(document).find(|path| !Path::new(path).exists()).map(|path| format!("{path} is missing"))
    }

    /// The arguments of `java`: class path, main class and its arguments. `built` is
    /// build/programs, `root` the repository.
    pub fn command(&self, root: &Path, built: &Path, size: Size) -> Vec<String> {
        let mut path = vec![
            built.join("programs.jar").display().to_string(),
            built.join("workloads.jar").display().to_string(),
        ];
        path.extend(self.jars.iter().map(|jar| format!("/usr/share/java/{jar}.jar")));
        let mut command =
            vec![format!("-Djava.library.path={}", built.display()), "-cp".to_owned(), path.join(":")];
        if self.main.contains('/') {
            command.push("-m".to_owned());
        }
        command.push(self.main.to_owned());
        let arguments = match size {
            Size::Small => self.small,
            Size::Full => self.full,
        };
        command.extend(arguments.iter().map(|argument| self.expand(argument, root)));
        command
    }

    /// The program with other arguments at [`Size::Small`].
    #[must_use]
    pub const fn with_small(self, small: &'static [&'static str]) -> Self {
        Self { small, ..self }
    }

    /// The folder into which the program writes, if it writes files. Files that exist there
    /// before a run affect what the program executes.
    pub fn out(&self, root: &Path) -> Option<PathBuf> {
        let writes = self.small.contains(&"@out") || self.full.contains(&"@out");
        writes.then(|| root.join("build/out").join(self.name))
    }

    fn expand(&self, argument: &str, root: &Path) -> String {
        let folder = |name: &str| root.join("tests/programs").join(name).display().to_string();
        match argument {
            "@one" => folder("workloads/H2Load.java"),
            "@least" => folder("src/programs/Exit.java"),
            "@sources" => folder("src"),
            "@stylesheet" => folder("workloads/iso.xsl"),
            "@fo-stylesheet" => folder("workloads/iso-fo.xsl"),
            "@scene" => folder("workloads/room.sc"),
            "@grammar" => folder("workloads/Ledger.g4"),
            "@accounts.py" => folder("scripts/accounts.py"),
            "@accounts.groovy" => folder("scripts/accounts.groovy"),
            "@numbers.clj" => folder("scripts/numbers.clj"),
            "@drawing" => folder("workloads/drawing.svg"),
            "@document" => DOCUMENT.to_owned(),
            "@out" => self.out(root).map_or_else(String::new, |out| out.display().to_string()),
            other => other.to_owned(),
        }
    }
}
