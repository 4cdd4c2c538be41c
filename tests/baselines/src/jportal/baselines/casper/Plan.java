// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import jportal.baselines.agent.Code;

/**
 * Which sites are logged and which are checked. The table has the columns id, kind, class, method,
 * descriptor, bci, line, opcode, logged, checked, targets. The row of kind {@code exit} is the last
 * of a method. {@code logged} is 1 if the site writes a token, 2 if its callees do. {@code targets}
 * are the exits of the application methods that a call may reach directly.
 */
public final class Plan {
    /** The rows of one method. */
    public static final class Rows {
        private final List<Integer> bcis = new ArrayList<>();
        private final List<Integer> ids = new ArrayList<>();
        private final List<String> flags = new ArrayList<>();
        private int exit;
        private Code code;

        private int row(int insn) {
            return bcis.indexOf(code.bcis[insn]);
        }

        /** The number of the site at an instruction. */
        public int site(int insn) {
            return ids.get(row(insn));
        }

        public boolean logged(int insn) {
            return flags.get(row(insn)).charAt(0) == '1';
        }

        public boolean checked(int insn) {
            return flags.get(row(insn)).charAt(1) == '1';
        }

        /** The number of the exceptional exit, and of the method. */
        public int exit() {
            return exit;
        }
    }

    private final Map<String, Rows> methods = new HashMap<>();

    private Plan() {}

    public static Plan read(Path file) throws IOException {
        Plan plan = new Plan();
        List<String> lines = Files.readAllLines(file);
        for (String line : lines.subList(1, lines.size())) {
            String[] cells = line.split("\t", -1);
            if (cells.length < 10) {
                throw new IOException(file + ": not a row of a plan: " + line);
            }
            Rows rows = plan.methods.computeIfAbsent(cells[2] + "." + cells[3] + cells[4], key -> new Rows());
            if (cells[1].equals("exit")) {
                rows.exit = Integer.parseInt(cells[0]);
            } else {
                rows.bcis.add(Integer.parseInt(cells[5]));
                rows.ids.add(Integer.parseInt(cells[0]));
                rows.flags.add(cells[8] + cells[9]);
            }
        }
        return plan;
    }

    /** Whether the plan has a method with these sites. */
    public boolean fits(String type, Code code) {
        Rows rows = methods.get(type + "." + code.key());
        if (rows == null) {
            return false;
        }
        List<Integer> bcis = new ArrayList<>();
        for (int i = 0; i < code.insns.length; i++) {
            if (code.isCall(i) || code.isReturn(i)) {
                bcis.add(code.bcis[i]);
            }
        }
        return bcis.equals(rows.bcis);
    }

    /** The rows of a method that fits. */
    public Rows of(String type, Code code) {
        Rows rows = methods.get(type + "." + code.key());
        rows.code = code;
        return rows;
    }
}
