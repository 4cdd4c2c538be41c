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

#ifndef SHARE_JPORTAL_JPORTALMARKERSVERIFY_HPP
#define SHARE_JPORTAL_JPORTALMARKERSVERIFY_HPP

#include "jportal/jportalMarkers.hpp"
#include "memory/allocation.hpp"
#include "utilities/growableArray.hpp"

class ciMethod;

// Checks the path markers of one compilation against the bytecode (-XX:+JPortalVerifyMarkers).
//
// The compiler describes its control flow as a graph: nodes with the markers that are passed in
// them, and edges with those that are passed on them. Wherever control passes two block markers
// with none in between, the bytecode must have a way from the first block to the second: inside a
// method, into a method that is inlined in the block, or out of an inlined one, by a return or an
// exception. Nothing is checked at ambiguous markers and in methods with jsr.
//
// Allocates in the resource area of the caller.
class JPortalMarkersVerifier : public StackObj {
  // The markers of a node or an edge. If there is none but POLL_STATE, 'is_empty'. 'first' and
  // 'last' are null for an ambiguous marker.
  struct Markers { const JPortalPath* first; const JPortalPath* last; bool is_empty; };
  struct Node    { const JPortalPath* path; Markers markers; int edges; int seen; };   // 'edges': the first, or -1
  struct Edge    { const JPortalPath* path; Markers markers; int to; int next; };
  // A step that was checked.
  struct Step    { u4 from; u4 to; u2 from_bci; u2 to_bci; bool is_known; };
  enum : int { KnownSteps = 512, MaxReports = 8 };

  const JPortalMarkerTable*         _table;
  const char*                       _compiler;
  int                               _compile_id;
  GrowableArray<Node>               _nodes;
  GrowableArray<Edge>               _edges;
  GrowableArray<const JPortalPath*> _flat;      // the markers of one path
  GrowableArray<int>                _open;      // nodes whose edges the search has to follow
  int                               _search;    // number of the search
  Step                              _known[KnownSteps];
  int                               _steps;
  int                               _wrong;

  const JPortalMarkerTable::Context& context(u4 index) const { return _table->context_at(index); }
  bool is_way(const JPortalPath* from, const JPortalPath* to) const;
  void check_step(const JPortalPath* from, const JPortalPath* to);
  Markers check_path(const JPortalPath* path);
  bool check_first(const Markers& markers, const JPortalPath* from);
  void visit(int node, const JPortalPath* from);
  void follow(const JPortalPath* from);
  void report(const JPortalPath* from, const JPortalPath* to);

 public:
  JPortalMarkersVerifier(const JPortalMarkerTable* table, const char* compiler, int compile_id);

  // Adds a node and returns its number: 0, 1, ...
  int  add_node(const JPortalPath* path);
  void add_edge(int from, int to, const JPortalPath* path);
  void append_to_node(int node, const JPortalPath* path);

  // Checks all steps, and logs a warning for each one that is impossible.
  void verify();

  // Logs what has been checked since the VM began, once.
  static void print_totals();
};

#endif // SHARE_JPORTAL_JPORTALMARKERSVERIFY_HPP
