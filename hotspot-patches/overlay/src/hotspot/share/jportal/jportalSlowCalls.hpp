/*
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

// The trigger of the flight recorder (-XX:JPortalTrigger=class.method,millis): a dump when a
// call of that method returned, or ended with an exception, later than it should have.
//
// The method is neither compiled nor inlined, its callees are; so each of its calls passes
// the interpreter's entry and the removal of its activation, and both call here for methods
// that are not compiled. Without the flag the interpreter is generated as ever.
class JPortalSlowCalls : AllStatic {
  enum { MostNested = 64 };

  // The calls of a thread that have begun, innermost last.
  struct Nest {
    int       depth;
    bool      told;                 // a call inside of those was too slow
    intptr_t* fp[MostNested];
    uint64_t  began[MostNested];    // TSC
    jlong     began_ns[MostNested];
  };
  static THREAD_LOCAL Nest* _nest;

  static char  _class_name[1024];   // as in a class file
  static char  _method_name[512];
  static jlong _limit_ns;

  static bool matches(Method* method);
  static bool parse();
  static void generate_call(InterpreterMacroAssembler* masm, address function);
  static void dump(JavaThread* thread, Method* method, uint64_t began, uint64_t ended, jlong ns);

  // Called by the interpreter, in Java.
  static void begin(JavaThread* thread, Method* method, intptr_t* fp);
  static void end(JavaThread* thread, Method* method, intptr_t* fp);

 public:
  // Exits the VM when the flags make no sense.
  static void check_flags();
  static bool is_on();

  // The class has been linked, none of its methods can have been called.
  static void on_class_defined(InstanceKlass* ik);

  // The thread that is running ends; its calls are forgotten.
  static void on_thread_exit();

  // An interpreter frame is complete; it is about to be removed, with a result of 'state'.
  static void generate_begin(InterpreterMacroAssembler* masm);
  static void generate_end(InterpreterMacroAssembler* masm, TosState state);
};

#endif // SHARE_JPORTAL_JPORTALSLOWCALLS_HPP
