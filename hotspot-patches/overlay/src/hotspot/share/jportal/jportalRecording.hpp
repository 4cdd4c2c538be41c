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

#ifndef SHARE_JPORTAL_JPORTALRECORDING_HPP
#define SHARE_JPORTAL_JPORTALRECORDING_HPP

#include "memory/allocation.hpp"
#include "runtime/atomic.hpp"
#include "utilities/globalDefinitions.hpp"

class JavaThread;
class outputStream;

// The state of recording. A VM with -XX:+JPortal has the method stubs, reveals and path markers
// from its start. It may record any number of times, one recording after the other, each into its
// own capture.
//
// If a recording begins with the VM, the hooks report everything that the VM creates. If it begins
// later, JPortalBackfill walks at a safepoint what exists, and the hooks report later changes.
// Nothing is lost between the two, because
//  - is_on() becomes true before the walk, and
//  - a hook that reports something new runs after that thing is where the walk looks for it, and
//    tests is_on() only then.
// So if the walk misses something, its hook finds that is_on() is true. Some things are reported
// twice, with equal records. For each kind of thing, jportalBackfill.cpp says why it does not
// change during the walk.
class JPortalRecording : AllStatic {
  // A thread changes the state only after claim(), because several threads may execute commands.
  enum State : int { Idle, Changing, Recording };

  static volatile int _state;
  static volatile int _on;       // the number of the recording, from 1; 0: hooks commit no records

  static bool claim(State from)  { return Atomic::cmpxchg(&_state, (int)from, (int)Changing) == (int)from; }
  static void settle(State to)   { Atomic::release_store(&_state, (int)to); }
  static void close();

 public:
  // Whether hooks commit records. A hook that also has to keep something (jportalKept.hpp) does so
  // before it tests this.
  static bool is_on()        { return number() != 0; }
  // The number of the recording that hooks commit records to, or 0.
  static int  number()       { return Atomic::load_acquire(&_on); }
  // Hooks begin to commit records to the recording that was started last, or they cease to.
  static void set_on(bool on);
  // The recorder did not accept a record of this recording, which has failed or is being stopped.
  // is_on() becomes false, unless the next recording is on already.
  static void refused(int number) { Atomic::cmpxchg(&_on, number, 0); }

  // Exits the VM with a message. If -XX:+JPortal came from the environment, only warns and sets the
  // flag to false: no code exists, so no hook has kept or changed anything.
  static void cannot_record(const char* reason);
  // Starts the recording of a VM with -XX:+JPortalStart, before any code exists. Returns false
  // after cannot_record().
  static bool start_with_vm();
  // The address space of the code cache is reserved. Maps a memfd over it if -XX:JPortalCodeCache
  // wants that; returns whether it did. All of the memfd is committed.
  static bool back_code_cache(char* base, size_t size, bool special);
  // The code cache is reserved at [low, high) and empty. If a recording is on, tracing begins.
  // Returns false after cannot_record().
  static bool code_cache_reserved(address low, address high);

  // The commands JPortal.start and JPortal.stop, called by a thread in the VM. 'file' may be null.
  // They print what was done, or why nothing was done.
  static void start(const char* file, outputStream* st, JavaThread* current);
  static void stop(outputStream* st, JavaThread* current);

  // Sets 'path' to 'file', or to -XX:JPortalFile if 'file' is null, with %p, %t and %% expanded in
  // the last component. Returns false if the result is too long.
  static bool expand(const char* file, char* path, size_t size);

  // Called at the safepoint of JPortal.start. Returns 0, or an error that
  // JPortalBridge::last_error() explains.
  static int  begin_at_safepoint();
};

#endif // SHARE_JPORTAL_JPORTALRECORDING_HPP
