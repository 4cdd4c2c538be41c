// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import jportal.baselines.Counts;
import jportal.baselines.Hot;
import jportal.baselines.Node;
import jportal.baselines.PathTable;
import jportal.baselines.Paths;
import jportal.baselines.PerThread;
import jportal.baselines.Registry;
import jportal.baselines.Tree;
import jportal.baselines.casper.Plan;

/** What to insert into methods, and what to write at the end. */
abstract class Mode {
    static Mode of(Options options) throws IOException {
        return switch (options.mode()) {
            case "sc" -> new Blocks();
            case "pf" -> new PathProfile();
            case "cf" -> new ControlFlow();
            case "hm" -> new HotMethods();
            case "jp" -> new CallTree(options.profiler() != null);
            case "jbi" -> new BlockEvents();
            default -> new CallTrace(Plan.read(options.plan()), options.mode().equals("fi"));
        };
    }

    /** Why a method is left alone; null if it is not. */
    String refuses(String type, Code code) {
        return null;
    }

    Shape shape(Code code) {
        return Shape.of(code, null);
    }

    abstract Probes probes(String type, Code code, Shape shape, int id);

    /** Writes the result into an object. */
    void write(Json json) {}

    /** The methods of each class, in order of class and loader. */
    private static Collection<List<Registry.Entry>> classes() {
        Map<String, List<Registry.Entry>> classes = new TreeMap<>();
        for (Registry.Entry entry : Registry.methods()) {
            if (entry != null) {
                classes.computeIfAbsent(entry.type() + '\0' + entry.loader(), key -> new ArrayList<>()).add(entry);
            }
        }
        return classes.values();
    }

    private static final class Blocks extends Mode {
        @Override
        Probes probes(String type, Code code, Shape shape, int id) {
            return new CountProbes(code, id);
        }

        @Override
        void write(Json json) {
            json.key("classes").begin('[');
            for (List<Registry.Entry> methods : classes()) {
                json.begin('{');
                json.key("class").text(methods.get(0).type().replace('/', '.'));
                json.key("loader").text(methods.get(0).loader());
                json.key("methods").begin('[');
                methods.forEach(method -> write(json, method));
                json.end(']');
                json.end('}');
            }
            json.end(']');
        }

        private static void write(Json json, Registry.Entry method) {
            Shape shape = (Shape) method.detail();
            long[] sum = new long[shape.blocks()];
            for (PerThread thread : PerThread.ALL) {
                long[] own = ((Counts) thread).get(method.id());
                for (int b = 0; own != null && b < sum.length; b++) {
                    sum[b] += own[b];
                }
            }
            json.begin('{');
            json.key("name").text(method.name() + method.descriptor());
            json.key("blocks").begin('[');
            for (int b = 0; b < sum.length; b++) {
                json.begin('{');
                json.key("bci").number(shape.start()[b]);
                json.key("end").number(shape.last()[b]);
                json.key("bytecodes").number(shape.length()[b]);
                json.key("line").number(shape.firstLine()[b]);
                json.key("executions").tally(sum[b]);
                json.end('}');
            }
            json.end(']');
            json.end('}');
        }
    }

    private static final class PathProfile extends Mode {
        @Override
        String refuses(String type, Code code) {
            return code.subroutines ? "jsr and ret: the edges of ret cannot have probes" : null;
        }

        @Override
        Shape shape(Code code) {
            return Shape.of(code, code.subroutines ? null : new BallLarus(code));
        }

        @Override
        Probes probes(String type, Code code, Shape shape, int id) {
            return new PathProbes(code, shape.paths(), id);
        }

        @Override
        void write(Json json) {
            json.key("methods").begin('[');
            for (Registry.Entry method : Registry.methods()) {
                if (method != null) {
                    write(json, method);
                }
            }
            json.end(']');
        }

        private static void write(Json json, Registry.Entry method) {
            Map<Long, Long> times = new TreeMap<>();
            long cut = 0;
            boolean executed = false;
            for (PerThread thread : PerThread.ALL) {
                PathTable table = ((Paths) thread).get(method.id());
                if (table == null) {
                    continue;
                }
                executed = true;
                cut += table.cut();
                long[] rows = table.rows();
                for (int i = 0; i < rows.length; i += 2) {
                    times.merge(rows[i], rows[i + 1], Long::sum);
                }
            }
            if (!executed) {
                return;
            }
            BallLarus paths = ((Shape) method.detail()).paths();
            json.begin('{');
            json.key("method").text(method.text());
            json.key("loader").text(method.loader());
            json.key("paths").number(paths.paths);
            json.key("cut").tally(cut);
            json.key("rows").begin('[');
            times.forEach((path, count) -> {
                json.begin('{');
                json.key("id").number(path);
                json.key("times").tally(count);
                json.key("blocks").begin('[');
                paths.blocks(path).forEach(block -> json.number(((Shape) method.detail()).start()[block]));
                json.end(']');
                json.end('}');
            });
            json.end(']');
            json.end('}');
        }
    }

    private static final class ControlFlow extends Mode {
        @Override
        String refuses(String type, Code code) {
            return code.subroutines ? "jsr and ret: the edges of ret cannot have probes" : null;
        }

        @Override
        Probes probes(String type, Code code, Shape shape, int id) {
            return new WayProbes(code, shape, id);
        }
    }

    private static final class HotMethods extends Mode {
        @Override
        Probes probes(String type, Code code, Shape shape, int id) {
            return new HotProbes(code, id);
        }

        @Override
        void write(Json json) {
            record Row(Registry.Entry method, long[] sums) {}
            List<Row> rows = new ArrayList<>();
            for (Registry.Entry method : Registry.methods()) {
                long[] sums = new long[4];
                for (PerThread thread : PerThread.ALL) {
                    long[] own = method == null ? null : ((Hot) thread).get(method.id());
                    for (int i = 0; own != null && i < sums.length; i++) {
                        sums[i] += own[i];
                    }
                }
                if (sums[0] > 0) {
                    rows.add(new Row(method, sums));
                }
            }
            rows.sort(Comparator.comparingLong((Row row) -> -row.sums[1]).thenComparing(row -> row.method.text()));
            json.key("methods").begin('[');
            for (Row row : rows) {
                json.begin('{');
                json.key("method").text(row.method.text());
                json.key("loader").text(row.method.loader());
                json.key("calls").tally(row.sums[0]);
                json.key("bytecodes").tally(row.sums[1]);
                json.key("nanoseconds").number(row.sums[3]);
                json.key("nanoseconds_with_callees").number(row.sums[2]);
                json.end('}');
            }
            json.end(']');
        }
    }

    private static final class CallTree extends Mode {
        private final boolean profiled;

        CallTree(boolean profiled) {
            this.profiled = profiled;
        }

        @Override
        String refuses(String type, Code code) {
            return profiled && code.subroutines ? "jsr and ret: the edges of ret cannot have probes" : null;
        }

        @Override
        Probes probes(String type, Code code, Shape shape, int id) {
            return new TreeProbes(code, shape, id, profiled);
        }

        @Override
        void write(Json json) {
            List<Registry.Entry> methods = Registry.methods();
            List<PerThread> threads = new ArrayList<>(PerThread.ALL);
            json.key("nodes").begin('[');
            long precise = 0;
            long whole = 0;
            int id = 0;
            List<Integer> roots = new ArrayList<>();
            for (PerThread thread : threads) {
                roots.add(id);
                // Nodes that are not written yet, with the numbers of their parents.
                List<Node> nodes = new ArrayList<>();
                List<Integer> parents = new ArrayList<>();
                nodes.add(((Tree) thread).root);
                parents.add(-1);
                while (!nodes.isEmpty()) {
                    Node node = nodes.remove(nodes.size() - 1);
                    int parent = parents.remove(parents.size() - 1);
                    precise += node.bytecodes;
                    whole += node.whole;
                    write(json, node, id, parent, node.parent == null ? null : methods.get(node.method));
                    List<Node> callees = new ArrayList<>();
                    node.callees().forEach(callee -> callees.add((Node) callee));
                    callees.sort(
                            Comparator.comparing((Node callee) -> methods.get(callee.method).text()).reversed());
                    for (Node callee : callees) {
                        nodes.add(callee);
                        parents.add(id);
                    }
                    id++;
                }
            }
            json.end(']');
            json.key("delta").begin('{');
            json.key("precise").number(precise);
            json.key("default").number(whole);
            json.end('}');
            json.key("threads").begin('[');
            for (int i = 0; i < threads.size(); i++) {
                json.begin('{');
                json.key("tid").number(threads.get(i).tid);
                json.key("java_tid").number(threads.get(i).javaId);
                json.key("name").text(threads.get(i).name);
                json.key("root").number(roots.get(i));
                json.end('}');
            }
            json.end(']');
        }

        private static void write(Json json, Node node, int id, int parent, Registry.Entry method) {
            json.begin('{');
            json.key("id").number(id);
            json.key("parent");
            json.number(parent);
            json.key("kind").text(method == null ? "root" : "call");
            json.key("method").text(method == null ? "(root)" : method.text());
            json.key("loader").text(method == null ? "" : method.loader());
            json.key("invocations").tally(node.invocations);
            json.key("bytecodes").tally(node.bytecodes);
            json.key("default").number(node.whole);
            json.end('}');
        }
    }

    private static final class BlockEvents extends Mode {
        @Override
        String refuses(String type, Code code) {
            return code.blocks() > 1 << 11 ? "more than 2,048 blocks" : null;
        }

        @Override
        Probes probes(String type, Code code, Shape shape, int id) {
            if (id >= 1 << 19) {
                throw new IllegalStateException("more than 524,288 methods");
            }
            return new EventProbes(code, shape, id);
        }
    }

    private static final class CallTrace extends Mode {
        private final Plan plan;
        private final boolean full;

        CallTrace(Plan plan, boolean full) {
            this.plan = plan;
            this.full = full;
        }

        @Override
        String refuses(String type, Code code) {
            return plan.fits(type, code) ? null : "not in the plan";
        }

        @Override
        Probes probes(String type, Code code, Shape shape, int id) {
            Plan.Rows rows = plan.of(type, code);
            return full ? new FullProbes(code, rows) : new TokenProbes(code, rows);
        }
    }
}
