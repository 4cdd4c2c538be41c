/*
 * Copyright (c) 2026, the JPortal authors. All rights reserved.
 * DO NOT ALTER OR REMOVE COPYRIGHT NOTICES OR THIS FILE HEADER.
 *
 * This code is free software; you can redistribute it and/or modify it
 * under the terms of the GNU General Public License version 2 only, as
 * published by the Free Software Foundation.
 *
 * This code is distributed in the hope that it will be useful, but WITHOUT
 * ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License
 * version 2 for more details (a copy is included in the LICENSE file that
 * accompanied this code).
 */

/*
 * @test
 * @summary Over JMX a recording can be started, dumped and stopped, but no file can be named.
 * @library /lib
 * @build jportal.test.*
 * @run driver RemoteControl
 */

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.management.ObjectName;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class RemoteControl {
    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("remote");
        Path file = directory.resolve("own.jportal");
        Path victim = Files.writeString(directory.resolve("victim"), "of value");
        Vm.Result result = Vm.java(directory, Vm.withTestClasses("-XX:+JPortal", "-XX:-JPortalStart",
                "-XX:JPortalSource=none", "-XX:JPortalFile=" + file, "RemoteControl$Program", victim.toString())).exits(0);
        Check.contains(result.out(), "jportalStart file: JPortal does nothing: file= is not accepted over JMX", "start with a file");
        Check.contains(result.out(), "jportalDump file: JPortal does nothing: file= is not accepted over JMX", "dump with a file");
        Check.contains(result.out(), "jportalStart: state: recording", "start");
        Check.contains(result.out(), "jportalStop: state: stopped", "stop");
        Check.equal("of value", Files.readString(victim), "the other file");
        CaptureFile.readWhole(file);
    }

    public static class Program {
        public static void main(String[] args) throws Exception {
            call("jportalStart", "file=" + args[0]);
            call("jportalStart");
            call("jportalDump", "file=" + args[0]);
            call("jportalStop");
        }

        private static void call(String operation, String... words) throws Exception {
            Object answer = ManagementFactory.getPlatformMBeanServer().invoke(
                    new ObjectName("com.sun.management:type=DiagnosticCommand"), operation,
                    new Object[] {words}, new String[] {String[].class.getName()});
            System.out.println(operation + (words.length == 0 ? ": " : " file: ") + answer);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
