/*
 * SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
 * Copyright (c) 2026, the JPortal authors. All rights reserved.
 * DO NOT ALTER OR REMOVE COPYRIGHT NOTICES OR THIS FILE HEADER.
 *
 * This code is free software; you can redistribute it and/or modify it
 * under the terms of the GNU General Public License version 2 only, as
 * published by the Free Software Foundation.  The copyright holders
 * designate this particular file as subject to the "Classpath" exception
 * as provided in the LICENSE file that accompanied this code.
 *
 * This code is distributed in the hope that it will be useful, but WITHOUT
 * ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License
 * version 2 for more details (a copy is included in the LICENSE file that
 * accompanied this code).
 */

#ifndef SHARE_JPORTAL_JPORTAL_GLOBALS_HPP
#define SHARE_JPORTAL_JPORTAL_GLOBALS_HPP

#include "runtime/globals_shared.hpp"

#define JPORTAL_FLAGS(develop,                                              \
                      develop_pd,                                           \
                      product,                                              \
                      product_pd,                                           \
                      notproduct,                                           \
                      range,                                                \
                      constraint)                                           \
                                                                            \
  product(bool, JPortal, false,                                             \
          "Record the control flow of this VM to a JPortal capture, which " \
          "is as sensitive as a heap dump: it has the command, the flags "  \
          "and all code")                                                   \
                                                                            \
  product(bool, JPortalStart, true,                                         \
          "Begin to record when the VM starts; otherwise jcmd's "           \
          "JPortal.start does. A VM that waits for it has the costs of "    \
          "method stubs and path markers all the same")                     \
                                                                            \
  product(ccstr, JPortalFile, nullptr,                                         \
          "File of the JPortal capture; in its own name, not in that of a "  \
          "folder, %p is replaced by the process id, %t by the start time "  \
          "(default: hs_jportal_pid%p.jportal)")                            \
                                                                            \
  product(ccstr, JPortalSource, "auto",                                     \
          "Where JPortal takes the processor trace from: auto, perf, "      \
          "emulated, none (metadata only), or sideband (metadata and who "  \
          "ran when)")                                                      \
          constraint(JPortalSourceConstraintFunc, AfterErgo)                 \
                                                                            \
  product(ccstr, JPortalCodeCache, "auto", DIAGNOSTIC,                      \
          "What the code cache is made of: anonymous memory, a memfd "      \
          "(memory of a file, which Linux before 5.18 needs to trace "      \
          "nothing but the code cache), or auto (a memfd where it is "      \
          "needed)")                                                        \
          constraint(JPortalCodeCacheConstraintFunc, AfterErgo)              \
                                                                            \
  product(size_t, JPortalBufferSize, 4*M,                                   \
          "Size of the JPortal trace buffer of each core, in bytes "        \
          "(default: up to 4M, as the limit on locked memory allows)")      \
          range(64*K, 1*G)                                                  \
                                                                            \
  product(size_t, JPortalSnapshot, 0,                                       \
          "Flight recorder: keep the last so many bytes of trace of each "  \
          "core, in bytes, for JPortal.dump, OutOfMemoryError and fatal "   \
          "errors, instead of recording everything (0: off)")               \
          range(0, 1*G)                                                     \
                                                                            \
  product(ccstr, JPortalTrigger, nullptr,                                      \
          "class.method,millis: dump the JPortal flight recorder when a "   \
          "call of that method takes longer; the method itself is "         \
          "interpreted and not inlined")                                    \
          constraint(JPortalTriggerConstraintFunc, AfterErgo)                \
                                                                            \
  product(size_t, JPortalRingSize, 512*K, DIAGNOSTIC,                       \
          "Size of the ring through which the VM exports JPortal "          \
          "metadata, in bytes")                                             \
          range(64*K, 1*G)                                                  \
                                                                            \
  product(bool, JPortalMethodStubs, true, DIAGNOSTIC,                       \
          "Give each method an interpreter entry of its own, so that an "   \
          "interpreted call names its callee in the JPortal capture")       \
                                                                            \
  product(bool, JPortalPathMarkers, true, DIAGNOSTIC,                       \
          "Record with compiled code where bytecode blocks begin in it")    \
                                                                            \
  product(bool, JPortalVerifyMarkers, trueInDebug, DIAGNOSTIC,              \
          "Check the JPortal path markers of each compilation against the " \
          "bytecode, and warn of impossible ones")                          \
                                                                            \
  product(ccstr, JPortalPrecision, "default",                               \
          "What the compilers do where an optimization hides which path "   \
          "was taken: default (optimize, and record that the path is "      \
          "ambiguous) or exact (do without the optimization)")              \
          constraint(JPortalPrecisionConstraintFunc, AfterErgo)

// end of JPORTAL_FLAGS

DECLARE_FLAGS(JPORTAL_FLAGS)

#endif // SHARE_JPORTAL_JPORTAL_GLOBALS_HPP
