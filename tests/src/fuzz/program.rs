// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The skeleton of a random program: its classes, its kernels, its `main`.

use super::body::{Body, Callee, ProgramDraft};

/// A generated program.
#[derive(Debug, Clone)]
pub struct RandomProgram {
    /// Name of its main class. The file with all its classes has the same name.
    pub name: String,
    /// The compilation unit `<name>.java`.
    pub text: String,
}

/// Budgets in bytecodes per call: leaf methods, methods of the class hierarchy, kernels.
const LEAF: u64 = 24;
const METHOD: u64 = 30;
const KERNEL: u64 = 700;

/// Generates the program of a seed.
pub fn generate(seed: u64) -> RandomProgram {
    let name = format!("Fuzz{seed}");
    let mut shared = ProgramDraft::new(seed);
    shared.rounds = shared.rng.range(600, 1500);
    let mut members = leaves(&mut shared);
    members.push(recursion(&mut shared));
    members.extend(classes(&mut shared));
    members.push(lambdas(&mut shared));
    let kernels = shared.rng.range(3, 5);
    for i in 0..kernels {
        members.push(kernel(&mut shared, i));
    }
    members.push(long_loop(&mut shared));
    let calls: String =
        (0..kernels).map(|i| call(&format!("k{i}(round, S{} ^ round, round)", i % 4))).collect();
    let rounds = shared.rounds;
    let text = format!(
        "import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.IntBinaryOperator;

/** Generated: random program {seed}. */
public final class {name} {{
{FIXED}
{members}
    static long round(int round) {{
        long sum = S0 + 31L * S1 + 961L * S2;
{calls}        return sum ^ S3;
    }}

    public static void main(String[] arguments) {{
        for (int i = 0; i < 16; i++) {{
            IA[i] = i * i - 40;
            LA[i] = 1L << 4 * i;
            DA[i] = i - 3.5;
        }}
        long sum = 0;
        for (int round = 0; round < {rounds}; round++) {{
            sum = sum * 31 + round(round);
        }}
        try {{
            sum += onlyOnce((int) sum, 3, 0);
        }} catch (RuntimeException | LinkageError e) {{
            sum += code(e);
        }}
        for (int i = 0; i < 16; i++) {{
            sum = sum * 31 + IA[i] + IB[i] + LA[i] + BYTES[i] + Double.doubleToLongBits(DA[i] + 0.0);
        }}
        System.out.println(sum + L0);
    }}
}}
",
        members = members.join("\n"),
    );
    RandomProgram { name, text }
}

/// The members that every program has.
const FIXED: &str = r#"    static int S0 = 1, S1 = 2, S2 = 3, S3 = 5;
    static long L0 = 7;
    static final int[] IA = new int[16], IB = new int[16];
    static final byte[] BYTES = new byte[16];
    static final long[] LA = new long[16];
    static final double[] DA = new double[16];
    static final int[][] GRID = new int[4][16];
    static final int[] KEYS = {-100, 0, 7, 99, 1000, 65536, 0x7fffffff, -2000000000};
    static final String[] NAMES = {"a", "Aa", "BB", "AaAa", "BBBB", "AaBB", "", "zeta"};
    static final Object LOCK = new Object();
    static final Base[] P = {new A(1), new B(2), new C(3), new D(4), new A(5), new C(6), new B(7), new D(8)};
    static final Base[] HOLES = {new A(1), null, new C(3), new D(4), new A(5), null, new B(7), new D(8)};

    enum Colour {
        RED, GREEN, BLUE, GREY;
        static final Colour[] ALL = values();
    }

    static final class Oops extends RuntimeException {
        private static final long serialVersionUID = 1;
        final int number;

        Oops(int number) {
            super(null, null, false, false);
            this.number = number;
        }
    }

    static int code(Throwable e) {
        return e instanceof Oops o ? o.number
            : e instanceof ArithmeticException ? 1001
            : e instanceof ArrayIndexOutOfBoundsException ? 1002
            : e instanceof NullPointerException ? 1003
            : e instanceof ClassCastException ? 1004
            : e instanceof NegativeArraySizeException ? 1005 : 1006;
    }

    static int sum(int... all) {
        int sum = 0;
        for (int one : all) {
            sum += one;
        }
        return sum;
    }
"#;

fn call(expression: &str) -> String {
    format!(
        "        try {{
            sum = sum * 7 + {expression};
        }} catch (RuntimeException | LinkageError e) {{
            sum += code(e);
        }}
"
    )
}

/// Small methods that compilers inline. Later ones call earlier ones.
fn leaves(shared: &mut ProgramDraft) -> Vec<String> {
    let n = shared.rng.range(3, 6);
    (0..n)
        .map(|i| {
            let arity = *shared.rng.pick(&[1, 2, 3]);
            let names = ["a", "b", "c"];
            let mut body = Body::new(shared, LEAF * (i + 1)).with_ints(&names[..arity]);
            body.dispatches = false;
            if body.rng().chance(40) {
                let (condition, value) = (body.condition(2), body.int(1));
                body.line(&format!("if ({condition}) return {value};"));
            }
            let result = body.int(3);
            body.line(&format!("return {result};"));
            let (text, cost) = body.finish();
            let parameters: Vec<String> = names[..arity].iter().map(|n| format!("int {n}")).collect();
            shared.callees.push(Callee { name: format!("h{i}"), arity, cost: cost + 4, depth_mask: None });
            format!("    static int h{i}({}) {{\n{text}    }}\n", parameters.join(", "))
        })
        .collect()
}

/// Two methods that call themselves and each other. Their first argument is the depth of
/// recursion.
fn recursion(shared: &mut ProgramDraft) -> String {
    let mut members = String::new();
    for (own, other) in [("rec0", "rec1"), ("rec1", "rec0")] {
        let mut body = Body::new(shared, 2 * LEAF).with_ints(&["a"]);
        body.names.fixed.push("d".into());
        let (condition, first, second) = (body.condition(1), body.int(2), body.int(1));
        body.line(&format!("if (d <= 0) return {second};"));
        body.simple();
        body.line(&format!("int r = {own}(d - 1, {first});"));
        body.line(&format!("if ({condition}) r += {other}(d - 2, r);"));
        body.line("return r;");
        let (text, _) = body.finish();
        members += &format!("    static int {own}(int d, int a) {{\n{text}    }}\n\n");
    }
    for name in ["rec0", "rec1"] {
        shared.callees.push(Callee { name: name.into(), arity: 2, cost: 300, depth_mask: Some(3) });
    }
    members
}

/// An interface, an abstract class, four subclasses, and classes that are initialised at their
/// first use.
fn classes(shared: &mut ProgramDraft) -> Vec<String> {
    let callees = std::mem::take(&mut shared.callees);
    // Recursive methods may call those of the hierarchy, so these must not call recursive
    // methods.
    shared.callees = callees.iter().filter(|c| c.depth_mask.is_none()).cloned().collect();
    let mut members = Vec::new();
    let default = method(shared, &["a"]);
    members.push(format!(
        "    interface Op {{\n        int f(int a, int b);\n\n        default int g(int a) {{\n{default}        }}\n    }}\n"
    ));
    let locked = method(shared, &["a", "x"]);
    members.push(format!(
        "    abstract static class Base implements Op {{
        int x;

        Base(int x) {{
            this.x = x;
        }}

        int h(int a) {{
            return a + x;
        }}

        synchronized int locked(int a) {{
            x += a;
{locked}        }}
    }}
"
    ));
    for (class, parent) in [("A", "Base"), ("B", "Base"), ("C", "A"), ("D", "Base")] {
        let (f, h) = (method(shared, &["a", "b", "x"]), method(shared, &["a", "x"]));
        let g = if shared.rng.chance(40) {
            format!("\n        public int g(int a) {{\n{}        }}\n", method(shared, &["a", "x"]))
        } else {
            String::new()
        };
        members.push(format!(
            "    static class {class} extends {parent} {{
        {class}(int x) {{
            super(x + 1);
        }}

        @Override
        public int f(int a, int b) {{
{f}        }}

        @Override
        int h(int a) {{
{h}        }}
{g}    }}
"
        ));
    }
    for i in 0..shared.rng.range(2, 4) {
        members.push(lazy_class(shared, i));
    }
    shared.callees = callees;
    members
}

/// The body of a short method of the hierarchy. `variables` are the `int` variables and fields
/// that it can use.
fn method(shared: &mut ProgramDraft, variables: &[&str]) -> String {
    let mut body = Body::new(shared, METHOD).with_ints(variables);
    body.dispatches = false;
    body.line("long w = L0;");
    body.names.longs.push("w".into());
    if body.rng().chance(40) {
        let (condition, value) = (body.condition(1), body.int(1));
        body.line(&format!("if ({condition}) return {value};"));
    }
    let result = body.int(2);
    body.line(&format!("return {result};"));
    body.finish().0
}

fn lazy_class(shared: &mut ProgramDraft, i: u64) -> String {
    let class = format!("Lazy{i}");
    let parent = match shared.lazy.last() {
        Some(parent) if shared.rng.chance(50) => format!(" extends {parent}"),
        _ => String::new(),
    };
    let mut body = Body::new(shared, METHOD);
    body.dispatches = false;
    let (first, second) = (body.int(3), body.int(2));
    let fails = shared.rng.chance(20);
    let end = if fails { "if (value != 12345) throw new Oops(9);" } else { "S1 += value;" };
    shared.lazy.push(class.clone());
    format!(
        "    static class {class}{parent} {{
        static int value = {first};
        int number = {second};

        static {{
            {end}
        }}

        static int get(int a) {{
            return value + a;
        }}
    }}
"
    )
}

/// Lambdas that are called through an interface of the class library.
fn lambdas(shared: &mut ProgramDraft) -> String {
    let mut items = Vec::new();
    for _ in 0..3 {
        let mut body = Body::new(shared, METHOD);
        body.dispatches = false;
        body.names.fixed = vec!["a".into(), "b".into()];
        items.push(format!("(a, b) -> {}", body.int(2)));
    }
    items.push("Math::max".into());
    format!("    static final IntBinaryOperator[] OPS = {{\n        {}\n    }};\n", items.join(",\n        "))
}

/// A method that is called in every round.
fn kernel(shared: &mut ProgramDraft, i: u64) -> String {
    let mut body = Body::new(shared, KERNEL).with_ints(&["a", "b"]);
    body.names.fixed.push("round".into());
    body.line("long w = L0 + a;");
    body.names.longs.push("w".into());
    body.line("Base o = P[1];");
    body.names.objects.push("o".into());
    body.statement(3);
    body.a_loop(3);
    for _ in 0..3 {
        body.statement(4);
    }
    let result = body.int(2);
    body.line("L0 ^= w;");
    body.line(&format!("return {result};"));
    let (text, _) = body.finish();
    format!("    static int k{i}(int a, int b, int round) {{\n{text}    }}\n")
}

/// A method that is called once and has a long loop: its compiled code is entered by on-stack
/// replacement.
fn long_loop(shared: &mut ProgramDraft) -> String {
    let trips = shared.rng.range(8_000, 20_000);
    let mut body = Body::new(shared, 60).with_ints(&["a", "b"]);
    body.names.fixed.push("round".into());
    body.line("long w = L0 + a;");
    body.names.longs.push("w".into());
    body.may_return = false;
    body.guarded = true;
    body.block(&format!("for (int i = 0; i < {trips}; i++)"), |b| {
        b.names.fixed.push("i".into());
        b.block("try", |b| {
            b.statement(2);
            b.statement(2);
            b.simple();
        });
        b.block("catch (RuntimeException | LinkageError e)", |b| b.line("a += code(e);"));
    });
    body.line("L0 ^= w;");
    body.line("return a + b;");
    let (text, _) = body.finish();
    format!("    static int onlyOnce(int a, int b, int round) {{\n{text}    }}\n")
}
