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

#ifndef SHARE_JPORTAL_JPORTALRECORDING_HPP
#define SHARE_JPORTAL_JPORTALRECORDING_HPP

#include "memory/allocation.hpp"
#include "runtime/atomic.hpp"
#include "utilities/globalDefinitions.hpp"

class JavaThread;
class outputStream;

// Whether the VM records now. A VM with -XX:+JPortal has the method stubs, reveals
// and path markers from its start and may record any number of times, one recording
// after the other, each into its own capture.
//
// A recording that begins when the VM does sees everything being made. One that begins
// later is told what there is by then: JPortalBackfill walks it at a safepoint, and the
// hooks tell what changes from then on. Nothing falls between the two, because
//  - is_on() becomes true before the walk, and
//  - each hook that reports something new runs after that is where the walk looks for it,
//    and asks is_on() afterwards;
// so what the walk does not see asks is_on() behind it. Some of it is told twice, which
// says the same twice. The walk says of each kind what keeps it as it is meanwhile.
class JPortalRecording : AllStatic {
  // The next state is claimed with a compare-and-exchange: commands may come from several threads.
  enum State { Idle, Changing, Recording };

  static volatile int  _state;
  static volatile bool _on;

  static bool claim(State from)  { return Atomic::cmpxchg(&_state, (int)from, (int)Changing) == (int)from; }
  static void settle(State to)   { Atomic::release_store(&_state, (int)to); }
  static void close();

 public:
  // Exits the VM when they make no sense.
  static void check_flags();
  // Whether records are wanted. Hooks that have work of their own do that first.
  static bool is_on()        { return Atomic::load_acquire(&_on); }
  static void set_on(bool on);

  // As the VM starts, before there is any code. Exits the VM with a message on failure.
  static void start_with_vm();
  // Address space for the code cache is reserved. True: -XX:JPortalCodeCache has made it a memfd, all of it committed.
  static bool back_code_cache(char* base, size_t size, bool special);
  // The code cache is reserved at [low, high) and empty: a recording that is on begins to trace.
  static void code_cache_reserved(address low, address high);

  // By command, from a thread in the VM: 'file' may be NULL. Prints what was done, or why nothing was.
  static void start(const char* file, outputStream* st, JavaThread* current);
  static void stop(outputStream* st, JavaThread* current);

  // The capture that 'file' names, or -XX:JPortalFile if that is NULL, with %p, %t and %% expanded in its
  // last component. False if it is too long.
  static bool expand(const char* file, char* path, size_t size);

  // At the safepoint of the command. 0, or what JPortalBridge::last_error() explains.
  static int  begin_at_safepoint();
};

#endif // SHARE_JPORTAL_JPORTALRECORDING_HPP
