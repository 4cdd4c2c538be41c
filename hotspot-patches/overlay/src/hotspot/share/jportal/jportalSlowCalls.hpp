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

#ifndef SHARE_JPORTAL_JPORTALSLOWCALLS_HPP
#define SHARE_JPORTAL_JPORTALSLOWCALLS_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class InstanceKlass;
class InterpreterMacroAssembler;
class JavaThread;
class Method;

// The trigger of the flight recorder, -XX:JPortalTrigger=class.method,millis. When a call of that
// method returns or ends with an exception and has taken longer than that, the flight recorder is
// dumped.
//
// The method is neither compiled nor inlined; its callees may be. So each of its calls executes the
// interpreter's method entry and the removal of the activation. For methods that C2 must not
// compile, both call this class. Without the flag, the generated interpreter is unchanged.
class JPortalSlowCalls : AllStatic {
  enum : int { MostNested = 64 };

  // The active calls of the method in one thread, innermost last.
  struct Nest {
    int       depth;
    bool      told;                 // a nested call was too slow and has been dumped
    intptr_t* fp[MostNested];
    uint64_t  began[MostNested];    // TSC
    jlong     began_ns[MostNested];
  };
  static THREAD_LOCAL Nest* _nest;

  static char  _class_name[1024];   // as in a class file, with '/'
  static char  _method_name[512];
  static jlong _limit_ns;

  static bool matches(Method* method);
  struct Trigger;
  static bool parse(const char* text, Trigger* to);
  static void generate_call(InterpreterMacroAssembler* masm, address function);
  static void dump(JavaThread* thread, Method* method, uint64_t began, uint64_t ended, jlong ns);

  // Called by interpreter code, with the thread in _thread_in_Java.
  static void begin(JavaThread* thread, Method* method, intptr_t* fp);
  static void end(JavaThread* thread, Method* method, intptr_t* fp);

 public:
  // Whether 'text' is a value of -XX:JPortalTrigger.
  static bool is_trigger(const char* text);
  // Why the flags do not fit together, or null.
  static const char* misfit();
  // Before code of the interpreter is generated.
  static void initialize();
  static bool is_on();

  // The class has been linked. None of its methods can have been called.
  static void on_class_defined(InstanceKlass* ik);

  // The current thread ends. Frees its Nest.
  static void on_thread_exit();

  // Generate the calls of begin() and end(): begin() when the interpreter frame is complete, end()
  // before it is removed, with a result of type 'state'.
  static void generate_begin(InterpreterMacroAssembler* masm);
  static void generate_end(InterpreterMacroAssembler* masm, TosState state);
};

#endif // SHARE_JPORTAL_JPORTALSLOWCALLS_HPP
