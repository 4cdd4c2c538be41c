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

#ifndef SHARE_JPORTAL_JPORTALMARKERS_HPP
#define SHARE_JPORTAL_JPORTALMARKERS_HPP

#include "jportal/jportal_globals.hpp"
#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"
#include "utilities/growableArray.hpp"

class Arena;
class ciMethod;
class nmethod;

// A sequence of path markers, each either "the bytecode block at bci begins, in
// this inline context", "the path is ambiguous from here on" or "the state of the
// next poll stands here". Immutable and
// shared: compilers copy and concatenate pointers. NULL is the empty sequence.
class JPortalPath {
  friend class JPortalMarkerTable;

  const JPortalPath* _left;    // NULL in a single marker
  const JPortalPath* _right;
  u4                 _length;
  u4                 _context;
  u2                 _bci;

  JPortalPath(u4 context, u2 bci)
    : _left(NULL), _right(NULL), _length(1), _context(context), _bci(bci) {}
  JPortalPath(const JPortalPath* left, const JPortalPath* right)
    : _left(left), _right(right), _length(left->_length + right->_length), _context(0), _bci(0) {}

 public:
  static bool equal(const JPortalPath* a, const JPortalPath* b);
  // Whether the path is ambiguous somewhere, for that cause.
  static bool is_ambiguous(const JPortalPath* path, u2 cause);
};

// What one compilation will export: inline contexts, and paths at code offsets
// and on edges. Everything lives in the arena of the compilation.
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

 public:
  JPortalMarkerTable(Arena* arena);
  void* operator new(size_t size, Arena* arena) throw();

  u4 context(u4 parent, int call_bci, ciMethod* method);

  const JPortalPath* block(u4 context, int bci) const;
  const JPortalPath* ambiguous(u2 cause) const;
  // In the place of two paths. If a loop was lost in one of them, that is said: its rounds are the larger loss.
  const JPortalPath* ambiguous(u2 cause, const JPortalPath* a, const JPortalPath* b) const;
  const JPortalPath* poll_state() const;
  const JPortalPath* cat(const JPortalPath* a, const JPortalPath* b) const;

  // Positions may come in any order; those of one offset in the order of the path.
  void add_offset(int offset, const JPortalPath* path);
  void add_edge(int from, int to, u1 outcome, const JPortalPath* path);

  // The code is complete: the table belongs to the nmethod that this thread
  // installs next under the same id.
  void finish(int compile_id, int entry_bci);

  // The body of the record NMethodMarkers.
  void write(const nmethod* nm, class JPortalBuffer* b) const;
};

// Path markers as a whole: the flags and the way from a compiler to the capture.
class JPortalMarkers : AllStatic {
  friend class JPortalMarkerTable;

  static bool _on;
  static bool _exact;

 public:
  // Exits the VM when the flags make no sense. Before any compiler runs.
  static void initialize();

  static bool is_on()    { return _on; }
  // Folds that lose a path are to be refused.
  static bool is_exact() { return _exact; }

  // Keeps what belongs to 'nm', if its compiler left something.
  static void keep_markers(const nmethod* nm);
};

#endif // SHARE_JPORTAL_JPORTALMARKERS_HPP
