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

#ifndef SHARE_JPORTAL_JPORTALMARKERSC2CODE_HPP
#define SHARE_JPORTAL_JPORTALMARKERSC2CODE_HPP

#include "jportal/jportalMarkers.hpp"
#include "opto/node.hpp"

class Block;
class Compile;
class JVMState;
class MachNode;
class PhaseCFG;

// The path markers of one C2 compilation. For jportalMarkersC2*.cpp only.
class JPortalC2 {
  friend class JPortalMarkersC2;

  // The code of one block. Offsets are relative to the start of the instructions.
  struct Code {
    int  start;
    int  end;         // without padding
    int  exit;        // after the last instruction that may leave the block midway; initially start
    int  leaving;     // the offset of that instruction, -1 for none
    bool is_call;     // that instruction is a call
    bool is_prolog;   // that instruction is the prolog
    int  branch;      // the offset of the last branch or jump through a table, -1 for none
    int  previous;    // the offset of the instruction that an implicit null check relies on
    Node* last;       // the last node, projections of a table jump not counted
    // Passed at exit, and not in the table yet. If it remains when the block is complete, the block
    // has no instruction at exit.
    const JPortalPath* pending;
  };

  Compile*            _compile;
  Arena*              _arena;
  JPortalMarkerTable* _table;

  const JPortalPath** _paths;         // by Node::_idx
  uint                _size;
  const JPortalPath** _ideal_paths;   // the paths of the ideal nodes, while nodes are matched
  uint                _ideal_size;
  bool                _matched;

  JVMState*           _caller;        // the latest context
  ciMethod*           _method;
  u4                  _context;

  GrowableArray<Code>* _code;         // by Block::_pre_order
  Node*                _leaving;      // the safepoint or prolog that was just emitted, or null
  const JPortalPath*   _entry_path;   // the path of the StartNode

  const JPortalPath** new_paths(uint size);

  void settle(Code* c, int offset);
  void put_behind(const Code& c, const JPortalPath* path);
  void put_ways(const u1* code, Block* block);
  void put_catch(const Code& c, Block* block);
  void put_table(const u1* code, const Code& c, Block* block);
  void put_branch(const u1* code, const Code& c, int to_taken, const JPortalPath* taken,
                  const JPortalPath* fall);
  int  find_jump(const u1* code, const Code& c) const;
  Block* skip_empty(Block* block, const JPortalPath** path) const;
  int  label_of(Block* block) const;
  const JPortalPath* way_in_table(Block* block, uint way, int first) const;
  void verify(PhaseCFG* cfg) const;

 public:
  JPortalC2(Compile* C);
  void* operator new(size_t size, Arena* arena) throw();
  static JPortalC2* current();

  const JPortalPath* path_of(const Node* n) const { return n->_idx < _size ? _paths[n->_idx] : nullptr; }
  void set_path(const Node* n, const JPortalPath* path);
  void append(const Node* n, const JPortalPath* path);
  const JPortalPath* take_path(const Node* n);

  const JPortalPath* cat(const JPortalPath* a, const JPortalPath* b) const { return _table->cat(a, b); }
  const JPortalPath* ambiguous(u2 cause) const                             { return _table->ambiguous(cause); }
  const JPortalPath* ambiguous(u2 cause, const JPortalPath* a, const JPortalPath* b) const {
    return _table->ambiguous(cause, a, b);
  }
  const JPortalPath* merge(const JPortalPath* a, const JPortalPath* b, u2 cause);
  u4 context(ciMethod* method, JVMState* caller);
};

#endif // SHARE_JPORTAL_JPORTALMARKERSC2CODE_HPP
