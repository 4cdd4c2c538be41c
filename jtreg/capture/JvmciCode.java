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
 * @summary Code that a JVMCI compiler made is named as such in the capture, and the VM warns at its
 *          start that such code has no path markers.
 * @library /lib
 * @modules jdk.internal.vm.ci/jdk.vm.ci.code
 *          jdk.internal.vm.ci/jdk.vm.ci.code.site
 *          jdk.internal.vm.ci/jdk.vm.ci.hotspot
 *          jdk.internal.vm.ci/jdk.vm.ci.meta
 *          jdk.internal.vm.ci/jdk.vm.ci.runtime
 * @build jportal.test.*
 * @run driver JvmciCode
 */

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import jdk.vm.ci.code.site.DataPatch;
import jdk.vm.ci.code.site.Site;
import jdk.vm.ci.hotspot.HotSpotCompiledCode;
import jdk.vm.ci.hotspot.HotSpotCompiledNmethod;
import jdk.vm.ci.hotspot.HotSpotResolvedJavaMethod;
import jdk.vm.ci.meta.Assumptions;
import jdk.vm.ci.meta.ResolvedJavaMethod;
import jdk.vm.ci.runtime.JVMCI;
import jdk.vm.ci.runtime.JVMCIBackend;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class JvmciCode {
    private static final int NMETHOD_INSTALLED = 25, NOTICE = 32;
    /** Values of the field compiler. */
    private static final int NATIVE_WRAPPER = 0, C1 = 1, JVMCI_COMPILER = 3;

    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("jvmci");
        Path file = directory.resolve("jvmci.jportal");
        Vm.Result result = run(directory, file, "-XX:+EnableJVMCI").exits(0);
        Check.contains(result.out(), "no path markers for code of a JVMCI compiler (-XX:+EnableJVMCI)", "warning");
        Check.contains(result.out(), "answer 43", "the installed code runs");
        CaptureFile capture = CaptureFile.readWhole(file);
        int[] counts = new int[256];
        int notices = 0;
        for (CaptureFile.Body body : capture.bodies()) {
            if (body.kind() == NMETHOD_INSTALLED) {
                // After three addresses and the compile id.
                counts[Byte.toUnsignedInt(body.bytes().get(28))]++;
            }
            notices += body.kind() == NOTICE ? 1 : 0;
        }
        Check.equal(1, counts[JVMCI_COMPILER], "code of the JVMCI compiler");
        Check.equal(1, notices, "notices for the reader");
        Check.that(counts[C1] > 0 && counts[NATIVE_WRAPPER] > 0, "code of C1, and native wrappers");

        String refusal = run(directory, file, "-XX:+EnableJVMCI", "-XX:+UseJVMCICompiler", "-XX:JPortalPrecision=exact").exits(1).all();
        Check.contains(refusal, "does not work with -XX:+UseJVMCICompiler", "exact markers are refused");
    }

    private static Vm.Result run(Path directory, Path file, String... flags) throws Exception {
        List<String> all = new ArrayList<>(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalFile=" + file, "-XX:+UnlockExperimentalVMOptions"));
        all.addAll(List.of(flags));
        for (String name : List.of("code", "code.site", "hotspot", "meta", "runtime")) {
            all.add("--add-exports=jdk.internal.vm.ci/jdk.vm.ci." + name + "=ALL-UNNAMED");
        }
        all.addAll(List.of(Vm.withTestClasses("JvmciCode$Program")));
        return Vm.java(directory, all.toArray(String[]::new));
    }

    public static class Program {
        /** mov eax, 43; ret; the rest is never reached. */
        private static final byte[] CODE = {(byte) 0xb8, 43, 0, 0, 0, (byte) 0xc3, (byte) 0x90, (byte) 0x90};
        private static final int FRAME = 16;

        public static void main(String[] args) throws Exception {
            JVMCIBackend backend = JVMCI.getRuntime().getHostJVMCIBackend();
            HotSpotResolvedJavaMethod method = (HotSpotResolvedJavaMethod) backend.getMetaAccess()
                    .lookupJavaMethod(Program.class.getDeclaredMethod("answer"));
            HotSpotCompiledCode code = new HotSpotCompiledNmethod("answer", CODE, CODE.length, new Site[0],
                    new Assumptions.Assumption[0], new ResolvedJavaMethod[] {method}, new HotSpotCompiledCode.Comment[0],
                    new byte[0], 16, new DataPatch[0], false, FRAME, null, method, -1, method.allocateCompileId(-1), 0, false);
            backend.getCodeCache().installCode(method, code, null, null, true);
            System.out.println("answer " + answer());
        }

        static int answer() {
            return 42;
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
