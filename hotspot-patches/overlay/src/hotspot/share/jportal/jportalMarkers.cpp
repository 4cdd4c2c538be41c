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
#include "ci/ciMethod.hpp"
#include "code/nmethod.hpp"
#include "jportal/jportalBuffer.hpp"
#include "jportal/jportalKept.hpp"
#include "jportal/jportalMarkers.hpp"
#include "jportal/jportalRecords.hpp"
#include "logging/log.hpp"
#include "memory/arena.hpp"
#include "memory/resourceArea.hpp"
#include "runtime/globals_extension.hpp"

bool JPortalMarkers::_on = false;
bool JPortalMarkers::_exact = false;

// The table for the nmethod that this compiler thread is about to install.
static THREAD_LOCAL JPortalMarkerTable* _finished = nullptr;
static THREAD_LOCAL int _finished_id = 0;
static THREAD_LOCAL int _finished_entry_bci = 0;

static bool wants_exact() {
  return JPortalPrecision != nullptr && strcmp(JPortalPrecision, "exact") == 0;
}

// The expansion of Shenandoah's barriers changes C2's control flow, and has no hooks.
static bool has_barriers_without_hooks() {
  return SHENANDOAHGC_ONLY(UseShenandoahGC ||) false;
}

const char* JPortalMarkers::misfit() {
  if (wants_exact() && !JPortalPathMarkers) {
    return "-XX:JPortalPrecision=exact needs -XX:+JPortalPathMarkers";
  }
  if (has_barriers_without_hooks() && JPortalPathMarkers && (wants_exact() || !FLAG_IS_DEFAULT(JPortalPathMarkers))) {
    return "path markers do not work with -XX:+UseShenandoahGC: "
           "use -XX:-JPortalPathMarkers or another collector";
  }
#if INCLUDE_JVMCI
  // A JVMCI compiler has no hooks. C1, which compiles beside it, has.
  if (wants_exact() && UseJVMCICompiler) {
    return "-XX:JPortalPrecision=exact does not work with -XX:+UseJVMCICompiler: "
           "code of a JVMCI compiler has no path markers";
  }
#endif
  return nullptr;
}

void JPortalMarkers::initialize() {
  if (!JPortalPathMarkers) return;
  if (has_barriers_without_hooks()) {
    log_warning(jportal)("no path markers: they do not work with -XX:+UseShenandoahGC");
    return;
  }
#if INCLUDE_JVMCI
  if (EnableJVMCI || UseJVMCICompiler) {
    log_warning(jportal)("no path markers for code of a JVMCI compiler (-XX:+%s): the capture shows its path "
                         "only at calls and safepoints", UseJVMCICompiler ? "UseJVMCICompiler" : "EnableJVMCI");
  }
#endif
  _on = true;
  _exact = wants_exact();
}

// --- Paths

// Iterates over the single markers of a path, in order, with NEXT_MARKER. The stack holds the parts
// that are not visited yet, the next one on top.
class JPortalPathWalk : public StackObj {
  GrowableArray<const JPortalPath*> _rest;

 public:
  JPortalPathWalk(const JPortalPath* path) { if (path != nullptr) _rest.push(path); }
  bool is_empty() const                 { return _rest.is_empty(); }
  const JPortalPath* pop()              { return _rest.pop(); }
  void push(const JPortalPath* path)    { _rest.push(path); }
};

#define NEXT_MARKER(walk, marker)                                             \
  const JPortalPath* marker = walk.pop();                                     \
  while (marker->_left != nullptr) {                                             \
    walk.push(marker->_right);                                                \
    marker = marker->_left;                                                   \
  }

bool JPortalPath::equal(const JPortalPath* a, const JPortalPath* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->_length != b->_length) return false;
  ResourceMark rm;
  JPortalPathWalk in_a(a);
  JPortalPathWalk in_b(b);
  while (!in_a.is_empty()) {
    NEXT_MARKER(in_a, x);
    NEXT_MARKER(in_b, y);
    if (x->_context != y->_context || x->_bci != y->_bci) return false;
  }
  return true;
}

bool JPortalPath::is_ambiguous(const JPortalPath* path, u2 cause) {
  ResourceMark rm;
  JPortalPathWalk in(path);
  while (!in.is_empty()) {
    NEXT_MARKER(in, x);
    if (x->_context == JPORTAL_NO_CONTEXT && x->_bci == cause) return true;
  }
  return false;
}

void JPortalPath::append_markers(const JPortalPath* path, GrowableArray<const JPortalPath*>* markers) {
  // No ResourceMark: 'markers' may grow.
  JPortalPathWalk in(path);
  while (!in.is_empty()) {
    NEXT_MARKER(in, x);
    markers->append(x);
  }
}

// --- Tables

void* JPortalMarkerTable::operator new(size_t size, Arena* arena) throw() {
  return arena->Amalloc(size);
}

JPortalMarkerTable::JPortalMarkerTable(Arena* arena)
  : _arena(arena),
    _contexts(new (arena) GrowableArray<Context>(arena, 8, 0, Context())),
    _offsets(new (arena) GrowableArray<Offset>(arena, 32, 0, Offset())),
    _edges(new (arena) GrowableArray<Edge>(arena, 8, 0, Edge())),
    _compile_id(0),
    _entry_bci(InvocationEntryBci) {}

u4 JPortalMarkerTable::context(u4 parent, int call_bci, ciMethod* method) {
  for (int i = 0; i < _contexts->length(); i++) {
    const Context& c = _contexts->at(i);
    if (c.parent == parent && c.call_bci == (u2)call_bci && c.method == method) return (u4)i;
  }
  Context c = { parent, (u2)call_bci, method };
  return (u4)_contexts->append(c);
}

const JPortalPath* JPortalMarkerTable::block(u4 context, int bci) const {
  return ::new (_arena->Amalloc(sizeof(JPortalPath))) JPortalPath(context, (u2)bci);
}

const JPortalPath* JPortalMarkerTable::ambiguous(u2 cause) const {
  return block(JPORTAL_NO_CONTEXT, cause);
}

const JPortalPath* JPortalMarkerTable::ambiguous(u2 cause, const JPortalPath* a, const JPortalPath* b) const {
  // EMPTY_LOOP would say that the last iteration remains. Here it is lost as well.
  const u2 loops[] = { JPortalAmbiguities::EMPTY_LOOP, JPortalAmbiguities::ARRAY_FILL, JPortalAmbiguities::EMPTY_DIAMOND };
  for (size_t i = 0; i < ARRAY_SIZE(loops); i++) {
    const u2 loop = loops[i];
    if (JPortalPath::is_ambiguous(a, loop) || JPortalPath::is_ambiguous(b, loop)) {
      return ambiguous(JPortalAmbiguities::EMPTY_DIAMOND);
    }
  }
  return ambiguous(cause);
}

const JPortalPath* JPortalMarkerTable::poll_state() const {
  return block(JPORTAL_POLL_STATE, 0);
}

const JPortalPath* JPortalMarkerTable::cat(const JPortalPath* a, const JPortalPath* b) const {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  if (a->_length > MaxPathLength - b->_length) return ambiguous(JPortalAmbiguities::TOO_MANY);
  return ::new (_arena->Amalloc(sizeof(JPortalPath))) JPortalPath(a, b);
}

void JPortalMarkerTable::add_offset(int offset, const JPortalPath* path) {
  if (path == nullptr) return;
  Offset o = { (u4)offset, path };
  _offsets->append(o);
}

void JPortalMarkerTable::add_edge(int from, int to, u1 outcome, const JPortalPath* path) {
  Edge e = { (u4)from, (u4)to, outcome, path };
  _edges->append(e);
}

// --- Export

template <typename T> static void insertion_sort(GrowableArray<T>* items, bool (*less)(const T&, const T&)) {
  for (int i = 1; i < items->length(); i++) {   // the items are almost in order
    T item = items->at(i);
    int j = i;
    for (; j > 0 && less(item, items->at(j - 1)); j--) {
      items->at_put(j, items->at(j - 1));
    }
    items->at_put(j, item);
  }
}

static bool offset_less(const JPortalMarkerTable::Offset& a, const JPortalMarkerTable::Offset& b) {
  return a.offset < b.offset;
}

static bool edge_less(const JPortalMarkerTable::Edge& a, const JPortalMarkerTable::Edge& b) {
  return a.from != b.from ? a.from < b.from : a.outcome != b.outcome ? a.outcome < b.outcome : a.to < b.to;
}

void JPortalMarkerTable::merge_offsets() {
  insertion_sort(_offsets, offset_less);
  int n = 0;
  for (int i = 0; i < _offsets->length(); i++) {
    const Offset o = _offsets->at(i);
    if (n > 0 && _offsets->at(n - 1).offset == o.offset) {
      _offsets->adr_at(n - 1)->path = cat(_offsets->at(n - 1).path, o.path);
    } else {
      _offsets->at_put(n++, o);
    }
  }
  _offsets->trunc_to(n);
}

// Merges edges that have the same 'from', 'outcome' and 'to': the trace does not distinguish them.
void JPortalMarkerTable::merge_edges() {
  insertion_sort(_edges, edge_less);
  int n = 0;
  for (int i = 0; i < _edges->length(); i++) {
    const Edge e = _edges->at(i);
    Edge* last = n > 0 ? _edges->adr_at(n - 1) : nullptr;
    if (last == nullptr || last->from != e.from || last->outcome != e.outcome || last->to != e.to) {
      _edges->at_put(n++, e);
    } else if (!JPortalPath::equal(last->path, e.path)) {
      last->path = ambiguous(JPortalAmbiguities::SHARED_TARGET, last->path, e.path);
    }
  }
  _edges->trunc_to(n);
}

// Beyond MaxMarkers, paths that are longer than the share of a place become ambiguous.
void JPortalMarkerTable::limit_markers() {
  const u4 places = (u4)(_offsets->length() + _edges->length());
  u8 total = 0;
  for (int i = 0; i < _offsets->length(); i++) total += JPortalPath::length(_offsets->at(i).path);
  for (int i = 0; i < _edges->length(); i++)   total += JPortalPath::length(_edges->at(i).path);
  if (total <= MaxMarkers) return;
  const u4 share = MAX2(1u, MaxMarkers / places);
  const JPortalPath* const too_many = ambiguous(JPortalAmbiguities::TOO_MANY);
  for (int i = 0; i < _offsets->length(); i++) {
    if (JPortalPath::length(_offsets->at(i).path) > share) _offsets->adr_at(i)->path = too_many;
  }
  for (int i = 0; i < _edges->length(); i++) {
    if (JPortalPath::length(_edges->at(i).path) > share) _edges->adr_at(i)->path = too_many;
  }
}

void JPortalMarkerTable::finish(int compile_id, int entry_bci) {
  merge_offsets();
  merge_edges();
  limit_markers();
  _finished = this;
  _finished_id = compile_id;
  _finished_entry_bci = entry_bci;
}

size_t JPortalMarkerTable::put_path(JPortalBuffer* b, const JPortalPath* path) const {
  ResourceMark rm;
  JPortalPathWalk walk(path);
  size_t count = 0;
  while (!walk.is_empty()) {
    NEXT_MARKER(walk, marker);
    JPortalPathMarker item;
    item.context = marker->_context;
    item.bci     = marker->_bci;
    item.write(b);
    count++;
  }
  return count;
}

void JPortalMarkerTable::write(const nmethod* nm, JPortalBuffer* b) const {
  JPortalNMethodMarkers r;
  r.start      = (u8)nm->code_begin();
  r.nmethod    = (u8)nm;
  r.compile_id = (u4)nm->compile_id();
  r.precision  = JPortalMarkers::is_exact() ? JPortalPathPrecisions::EXACT : JPortalPathPrecisions::DEFAULT;
  r.write(b);

  b->put_count(_contexts->length());
  for (int i = 0; i < _contexts->length(); i++) {
    const Context& c = _contexts->at(i);
    JPortalInlineContext item;
    item.parent   = c.parent;
    item.call_bci = c.call_bci;
    item.method   = (u8)c.method->constant_encoding();
    item.write(b);
  }

  size_t at = b->reserve_count();
  size_t count = 0;
  for (int i = 0; i < _offsets->length(); i++) count += put_path(b, _offsets->at(i).path);
  for (int i = 0; i < _edges->length(); i++)   count += put_path(b, _edges->at(i).path);
  b->set_count(at, count);

  u4 first = 0;
  b->put_count(_offsets->length());
  for (int i = 0; i < _offsets->length(); i++) {
    const Offset& o = _offsets->at(i);
    JPortalMarkedOffset item;
    item.offset = o.offset;
    item.first  = first;
    item.count  = JPortalPath::length(o.path);
    item.write(b);
    first += item.count;
  }
  b->put_count(_edges->length());
  for (int i = 0; i < _edges->length(); i++) {
    const Edge& e = _edges->at(i);
    JPortalMarkedEdge item;
    item.from    = e.from;
    item.to      = e.to;
    item.outcome = e.outcome;
    item.first   = first;
    item.count   = JPortalPath::length(e.path);
    item.write(b);
    first += item.count;
  }
  log_debug(jportal, nmethod)("%d: " SIZE_FORMAT " path markers at %d offsets and on %d edges, %d inline contexts",
                              nm->compile_id(), count, _offsets->length(), _edges->length(), _contexts->length());
}

void JPortalMarkers::keep_markers(const nmethod* nm) {
  if (!_on || nm->compiler_type() == compiler_none) return;
  JPortalMarkerTable* table = _finished;
  _finished = nullptr;
  const int entry_bci = nm->is_osr_method() ? nm->osr_entry_bci() : InvocationEntryBci;
  if (table != nullptr && _finished_id == nm->compile_id() && _finished_entry_bci == entry_bci) {
    JPortalBuffer b;
    table->write(nm, &b);
    JPortalKept::keep_markers(nm, b);
  }
}
