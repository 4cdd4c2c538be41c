// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.IOException;
import java.nio.file.Path;
import jportal.baselines.casper.Casper;

/** The commands of the jar. */
public final class Tool {
    private static final String USAGE = """
            usage: java -jar jportal-baselines.jar COMMAND
              blocks DIR OUT   the block traces of a run in mode cf or jbi, in JPortal's format
              plan casper|bri CLASSPATH FILE
                               the sites that a mode logs; prints their numbers
              least CLASSPATH  plans each small class alone, and tries all sets of sites
              covers CLASSPATH plans, and judges the greedy covers of conflict graphs by the least ones
              expand CLASSPATH PLAN DIR
                               expands the logs of a run in mode casper or bri
              compare CLASSPATH PLAN DIR FULL
                               expands the logs of a run in mode casper or bri, and compares the call
                               traces with those of a run in mode fi; status 1 if they differ
            """;

    private Tool() {}

    public static void main(String[] arguments) throws IOException {
        if (arguments.length == 3 && arguments[0].equals("blocks")) {
            new BlockFiles(Path.of(arguments[1])).write(Path.of(arguments[2]));
        } else if (arguments.length == 4 && arguments[0].equals("plan")) {
            Casper.plan(arguments[1], arguments[2], Path.of(arguments[3]));
        } else if (arguments.length == 2 && arguments[0].equals("least")) {
            System.exit(Casper.least(arguments[1]) ? 0 : 1);
        } else if (arguments.length == 2 && arguments[0].equals("covers")) {
            System.exit(Casper.covers(arguments[1]) ? 0 : 1);
        } else if (arguments.length == 4 && arguments[0].equals("expand")) {
            Casper.expand(arguments[1], Path.of(arguments[2]), Path.of(arguments[3]));
        } else if (arguments.length == 5 && arguments[0].equals("compare")) {
            boolean same = Casper.compare(arguments[1], Path.of(arguments[2]), Path.of(arguments[3]), Path.of(arguments[4]));
            System.exit(same ? 0 : 1);
        } else {
            System.err.print(USAGE);
            System.exit(2);
        }
    }
}
