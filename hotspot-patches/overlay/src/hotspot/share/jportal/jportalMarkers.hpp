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

#ifndef SHARE_JPORTAL_JPORTALMARKERS_HPP
#define SHARE_JPORTAL_JPORTALMARKERS_HPP

#include "jportal/jportal_globals.hpp"
#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"
#include "utilities/growableArray.hpp"

class Arena;
class ciMethod;
class nmethod;

// A sequence of path markers. A marker says one of three things:
//  - the bytecode block at _bci begins, in the inline context _context
//  - the path is ambiguous from here to the next marker (JPORTAL_NO_CONTEXT)
//  - the debug info of the next safepoint poll describes this position (JPORTAL_POLL_STATE)
// Paths are immutable and shared: compilers copy and concatenate pointers. null is the empty
// sequence.
class JPortalPath {
  friend class JPortalMarkerTable;

  const JPortalPath* _left;    // null for a single marker
  const JPortalPath* _right;
  u4                 _length;
  u4                 _context;
  u2                 _bci;     // the cause (JPortalAmbiguities) in an ambiguous marker

  JPortalPath(u4 context, u2 bci)
    : _left(nullptr), _right(nullptr), _length(1), _context(context), _bci(bci) {}
  JPortalPath(const JPortalPath* left, const JPortalPath* right)
    : _left(left), _right(right), _length(left->_length + right->_length), _context(0), _bci(0) {}

 public:
  // The number of markers.
  static u4 length(const JPortalPath* path) { return path == nullptr ? 0 : path->_length; }
  static bool equal(const JPortalPath* a, const JPortalPath* b);
  // Whether the path has an ambiguous marker with this cause.
  static bool is_ambiguous(const JPortalPath* path, u2 cause);
  // Appends the single markers of the path, in order.
  static void append_markers(const JPortalPath* path, GrowableArray<const JPortalPath*>* markers);

  // Of a single marker.
  u4 context() const { return _context; }
  u2 bci() const     { return _bci; }
};

// The markers of one compilation, to be exported with its nmethod: inline contexts, and paths
// at code offsets and on edges. Everything is allocated in the arena of the compilation.
class JPortalMarkerTable {
 public:
  struct Context { u4 parent; u2 call_bci; ciMethod* method; };
  struct Offset  { u4 offset; const JPortalPath* path; };
  struct Edge    { u4 from; u4 to; u1 outcome; const JPortalPath* path; };

 private:
  Arena*                  _arena;
  GrowableArray<Context>* _contexts;
  GrowableArray<Offset>*  _offsets;
  GrowableArray<Edge>*    _edges;
  int                     _compile_id;
  int                     _entry_bci;

  template <class E> const JPortalPath* intern(E* e) const;
  size_t put_path(class JPortalBuffer* b, const JPortalPath* path) const;
  void   merge_offsets();
  void   merge_edges();
  void   limit_markers();

 public:
  // The maximal number of markers at one place. An unrolled loop nest may repeat its markers very
  // often; a longer path is not worth its memory and becomes ambiguous.
  static const u4 MaxPathLength = 16 * K;
  // The maximal number of markers of an nmethod with fewer places than that. Compilers share
  // paths, the record does not: without a limit it could have MaxPathLength markers for each place.
  static const u4 MaxMarkers = 1 * M;

  JPortalMarkerTable(Arena* arena);
  void* operator new(size_t size, Arena* arena) throw();

  // The index of this inline context, which is added if it is new.
  u4 context(u4 parent, int call_bci, ciMethod* method);
  const Context& context_at(u4 index) const { return *_contexts->adr_at((int)index); }

  const JPortalPath* block(u4 context, int bci) const;
  const JPortalPath* ambiguous(u2 cause) const;
  // The marker that replaces the paths 'a' and 'b'. If one of them has lost a loop, the cause is
  // EMPTY_DIAMOND instead of 'cause', because the lost iterations are the larger loss.
  const JPortalPath* ambiguous(u2 cause, const JPortalPath* a, const JPortalPath* b) const;
  const JPortalPath* poll_state() const;
  const JPortalPath* cat(const JPortalPath* a, const JPortalPath* b) const;

  // Offsets may be added in any order. Paths at the same offset are concatenated in the order of
  // the calls.
  void add_offset(int offset, const JPortalPath* path);
  void add_edge(int from, int to, u1 outcome, const JPortalPath* path);

  // The code is complete. The table belongs to the nmethod that this thread installs next with
  // this compile id and entry bci.
  void finish(int compile_id, int entry_bci);

  // After finish(), in the order of offsets and of 'from'.
  int offset_count() const             { return _offsets->length(); }
  const Offset& offset_at(int i) const { return *_offsets->adr_at(i); }
  int edge_count() const               { return _edges->length(); }
  const Edge& edge_at(int i) const     { return *_edges->adr_at(i); }

  // The body of the record NMethodMarkers.
  void write(const nmethod* nm, class JPortalBuffer* b) const;
};

// The flags of path markers, and the hand-over of a finished table to its nmethod.
class JPortalMarkers : AllStatic {
  friend class JPortalMarkerTable;

  static bool _on;
  static bool _exact;

 public:
  // Why the flags do not fit together, or null.
  static const char* misfit();
  // Called before any compiler runs.
  static void initialize();

  static bool is_on()    { return _on; }
  // Whether the compilers refuse folds that lose a path.
  static bool is_exact() { return _exact; }

  // Keeps the markers of 'nm' (see jportalKept.hpp), if its compiler finished a table for it.
  static void keep_markers(const nmethod* nm);
};

#endif // SHARE_JPORTAL_JPORTALMARKERS_HPP
