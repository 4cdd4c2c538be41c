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

#include "precompiled.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalCompat.hpp"
#include "jportal/jportalFlight.hpp"
#include "jportal/jportalSlowCalls.hpp"
#include "oops/instanceKlass.hpp"
#include "oops/method.hpp"
#include "runtime/os.hpp"

THREAD_LOCAL JPortalSlowCalls::Nest* JPortalSlowCalls::_nest = nullptr;
char  JPortalSlowCalls::_class_name[1024];
char  JPortalSlowCalls::_method_name[512];
jlong JPortalSlowCalls::_limit_ns = 0;

bool JPortalSlowCalls::is_on() {
  return _limit_ns != 0;
}

// The parts of class.method,millis.
struct JPortalSlowCalls::Trigger {
  const char* method;      // the class precedes it, with a '.' in between
  size_t      in_class;
  size_t      in_method;
  long        millis;
};

bool JPortalSlowCalls::parse(const char* text, Trigger* to) {
  const char* comma = strrchr(text, ',');
  if (comma == nullptr) return false;
  const char* dot = comma;
  while (dot > text && *dot != '.') dot--;
  to->method    = dot + 1;
  to->in_class  = dot - text;
  to->in_method = comma - dot - 1;
  char* end;
  to->millis = strtol(comma + 1, &end, 10);
  return to->in_class > 0 && to->in_class < sizeof(_class_name) &&
         to->in_method > 0 && to->in_method < sizeof(_method_name) &&
         *end == '\0' && end != comma + 1 && to->millis > 0;
}

bool JPortalSlowCalls::is_trigger(const char* text) {
  Trigger ignored;
  return parse(text, &ignored);
}

const char* JPortalSlowCalls::misfit() {
  if (JPortalTrigger == nullptr || JPortalSnapshot != 0) return nullptr;
  return "-XX:JPortalTrigger dumps the flight recorder: it needs -XX:JPortalSnapshot=SIZE";
}

void JPortalSlowCalls::initialize() {
  Trigger t;
  // The flag's constraint allows no other value.
  if (JPortalTrigger == nullptr || !parse(JPortalTrigger, &t)) return;
  for (size_t i = 0; i < t.in_class; i++) {
    _class_name[i] = JPortalTrigger[i] == '.' ? '/' : JPortalTrigger[i];
  }
  memcpy(_method_name, t.method, t.in_method);
  _limit_ns = (jlong)t.millis * NANOSECS_PER_MILLISEC;
}

bool JPortalSlowCalls::matches(Method* method) {
  return method->name()->equals(_method_name) && method->method_holder()->name()->equals(_class_name);
}

void JPortalSlowCalls::on_class_defined(InstanceKlass* ik) {
  if (!is_on() || !ik->name()->equals(_class_name)) return;
  Array<Method*>* methods = ik->methods();
  for (int i = 0; i < methods->length(); i++) {
    Method* m = methods->at(i);
    if (matches(m)) {
      m->set_dont_inline(true);
      m->set_not_compilable_quietly("JPortal's trigger");
    }
  }
}

void JPortalSlowCalls::begin(JavaThread* thread, Method* method, intptr_t* fp) {
  if (!matches(method)) return;
  if (_nest == nullptr) {
    _nest = (Nest*)os::malloc(sizeof(Nest), mtTracing);
    if (_nest == nullptr) return;
    memset(_nest, 0, sizeof(Nest));
  }
  if (_nest->depth == MostNested) return;
  const int i = _nest->depth++;
  _nest->fp[i] = fp;
  _nest->began_ns[i] = os::javaTimeNanos();
  _nest->began[i] = JPortalCode::timestamp();
}

void JPortalSlowCalls::end(JavaThread* thread, Method* method, intptr_t* fp) {
  Nest* const nest = _nest;
  if (nest == nullptr || !matches(method)) return;
  // Recorded frames at lower addresses than 'fp' are gone; the ends of their calls were not seen.
  while (nest->depth > 0 && nest->fp[nest->depth - 1] < fp) nest->depth--;
  if (nest->depth == 0 || nest->fp[nest->depth - 1] != fp) return;
  const int i = --nest->depth;
  const jlong ns = os::javaTimeNanos() - nest->began_ns[i];
  // If a nested call has been dumped, it made this call slow as well: one dump is enough.
  if (ns > _limit_ns && !nest->told) {
    dump(thread, method, nest->began[i], JPortalCode::timestamp(), ns);
    nest->told = true;
  }
  if (nest->depth == 0) {
    nest->told = false;
  }
}

void JPortalSlowCalls::on_thread_exit() {
  os::free(_nest);
  _nest = nullptr;
}

void JPortalSlowCalls::dump(JavaThread* thread, Method* method, uint64_t began, uint64_t ended, jlong ns) {
  const u4 tid = JPortalCompat::tid_of(thread);
  char reason[2048];
  jio_snprintf(reason, sizeof(reason), "%s took " JLONG_FORMAT " us in thread %u", JPortalTrigger, ns / 1000, tid);
  JPortalFlight::dump_slow_call(reason, tid, (uint64_t)method, began, ended);
}
