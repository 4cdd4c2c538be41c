// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The walk through the code as far as the current packet requires.

use super::CoreDecoder;
use super::state::{Demand, Pending};
use crate::block::{
    BasicBlock, MAX_BLOCK, MAX_INSTRUCTION, OUTSIDE, Terminator, begins_instruction, direct_target,
};
use crate::cache::{NONE, SCRATCH};
use crate::config::PopRule;
use crate::error::Error;
use crate::image::CodeHistory;
use crate::item::{Exit, Item, Target};
use crate::leaps::LeapBlock;
use crate::view::Recent;
use jportal_pt_packet::Tnt;
use jportal_units::{Address, StreamOffset};

/// Maximal number of consecutive direct branches without a packet.
const MAX_STEPS: u32 = 1 << 12;
/// Room for a block's bytes.
const BLOCK_BYTES: usize = (MAX_BLOCK + MAX_INSTRUCTION) as usize;

impl CoreDecoder {
    /// Walks until the requirements of the current packet are met.
    pub(super) fn walk(&mut self, image: &CodeHistory) -> Result<(), Error> {
        match self.state.demand {
            Demand::None => {}
            Demand::Target(ip) => self.walk_to_target(ip, image)?,
            Demand::Event(ip) => self.walk_to_event(ip, image)?,
            Demand::Sync(ip) => self.walk_to_sync(ip, image)?,
            Demand::Leave(ip) => self.walk_out(Some(ip), image)?,
            Demand::FarLeave => self.walk_out(None, image)?,
        }
        self.state.demand = Demand::None;
        self.walk_outcomes(image)
    }

    /// Uses up the outcomes of a packet at once. `false`: this is not possible, and nothing was
    /// done.
    #[inline]
    pub(super) fn leap(&mut self, tnt: Tnt) -> bool {
        let Some(leap) = self.leaps.find(&mut self.cache, self.state.block, tnt) else { return false };
        let blocks = self.leaps.blocks(&leap);
        self.items.extend(blocks.iter().map(LeapBlock::item));
        if leap.calls {
            for block in blocks.iter().filter(|b| b.calls) {
                if self.config.return_compression.is_some() {
                    self.state.stack.push(block.end());
                }
                self.state.calls.push(block.end());
            }
        }
        self.state.blocks += u64::from(leap.len);
        (self.state.block, self.state.ip) = (leap.to, leap.ip);
        true
    }

    /// Uses up TNT outcomes, until none is left or a branch needs a TIP.
    #[inline]
    pub(super) fn walk_outcomes(&mut self, image: &CodeHistory) -> Result<(), Error> {
        let tnt = self.state.tnt;
        let mut outcomes = self.state.outcomes;
        let mut index = self.state.block;
        let mut steps = 0;
        // The block before, and the link that led from it here.
        let mut before = (NONE, 0);
        while outcomes > 0 {
            let block = self.cache.blocks[index as usize];
            let (exit, side) = match block.kind {
                Terminator::Conditional => {
                    outcomes -= 1;
                    steps = 0;
                    let taken = tnt >> outcomes & 1 != 0;
                    if taken { (Exit::Taken, 0) } else { (Exit::NotTaken, 1) }
                }
                Terminator::Stale => {
                    if index != NONE && index != SCRATCH {
                        self.state.ip = block.start;
                    }
                    self.state.outcomes = outcomes;
                    self.state.block = NONE;
                    let stale = index;
                    index = self.resolve(image)?;
                    // The link need not lead to the stale block any more.
                    if let (from @ 2.., side) = before
                        && index > SCRATCH
                        && self.cache.blocks[from as usize].links[side] == stale
                    {
                        self.cache.blocks[from as usize].links[side] = index;
                    }
                    continue;
                }
                Terminator::Return if self.config.return_compression.is_some() => {
                    outcomes -= 1;
                    self.state.outcomes = outcomes;
                    let taken = tnt >> outcomes & 1 != 0;
                    let to = if taken { self.state.stack.pop() } else { None };
                    let Some(to) = to else {
                        return Err(Error::ReturnStack {
                            address: self.address(block.start),
                            offset: StreamOffset(self.state.packet),
                        });
                    };
                    self.emit(&block, Exit::Return);
                    self.state.ip = to;
                    index = self.cache.find(to);
                    continue;
                }
                Terminator::IndirectJump | Terminator::IndirectCall | Terminator::Return => break,
                _ => {
                    steps += 1;
                    if steps > MAX_STEPS {
                        return Err(self.circle(&block, steps));
                    }
                    self.direct(&block)?
                }
            };
            before = (index, side);
            index = block.links[side];
            if index == NONE {
                self.state.outcomes = outcomes;
                index = self.link(&block, side)?;
            }
            self.emit(&block, exit);
        }
        self.state.outcomes = outcomes;
        self.state.block = index;
        if index != NONE {
            self.state.ip = self.cache.blocks[index as usize].start;
        }
        Ok(())
    }

    /// The exit and the link index of a branch that needs no packet. Updates the return stack.
    #[inline]
    fn direct(&mut self, block: &BasicBlock) -> Result<(Exit, usize), Error> {
        Ok(match block.kind {
            Terminator::Jump => (Exit::Jump, 0),
            Terminator::Call => {
                self.called(block);
                (Exit::Call, 0)
            }
            Terminator::CallNext => (Exit::Call, 0),
            Terminator::FallThrough => (Exit::FallThrough, 0),
            _ => return Err(self.unexpected(block)),
        })
    }

    /// Moves to the successor of `block` on `side`; returns its index in the cache, or [`NONE`].
    fn link(&mut self, block: &BasicBlock, side: usize) -> Result<u32, Error> {
        let to = if side == 0 { block.target } else { block.end };
        if to >= self.bounds.len {
            return Err(Error::LeftRange {
                address: self.address(block.start),
                packet: self.state.demand.packet(),
                offset: StreamOffset(self.state.packet),
            });
        }
        self.state.ip = to;
        let index = self.cache.find(to);
        if index != NONE {
            let from = self.cache.find(block.start);
            // The cache may hold another block at this place if `block` is valid only once.
            if from != NONE && self.cache.blocks[from as usize].same_flow(block) {
                self.cache.blocks[from as usize].links[side] = index;
            }
        }
        self.state.block = index;
        Ok(index)
    }

    #[inline]
    fn emit(&mut self, block: &BasicBlock, exit: Exit) {
        self.state.blocks += 1;
        self.items.push(Item::Block { start: block.start, end: block.end, code: block.code, exit });
    }

    /// The block that executes next.
    #[inline]
    fn current(&mut self, image: &CodeHistory) -> Result<BasicBlock, Error> {
        let block = self.cache.blocks[self.state.block as usize];
        if block.kind != Terminator::Stale {
            return Ok(block);
        }
        let index = self.resolve(image)?;
        Ok(self.cache.blocks[index as usize])
    }

    /// Emits `block`, which ends with a direct branch or none, and moves to its successor.
    fn follow(&mut self, block: &BasicBlock, steps: &mut u32) -> Result<(), Error> {
        *steps += 1;
        if *steps > MAX_STEPS {
            return Err(self.circle(block, *steps));
        }
        let (exit, side) = self.direct(block)?;
        match block.links[side] {
            NONE => _ = self.link(block, side)?,
            index => self.state.block = index,
        }
        self.state.ip = block.target;
        self.emit(block, exit);
        Ok(())
    }

    #[inline]
    fn walk_to_target(&mut self, ip: u64, image: &CodeHistory) -> Result<(), Error> {
        let mut steps = 0;
        loop {
            let block = self.current(image)?;
            let exit = match block.kind {
                Terminator::IndirectJump => Exit::IndirectJump,
                Terminator::IndirectCall if image.calls_out(block.code) => {
                    return Err(self.wrong_address(&block, ip));
                }
                Terminator::IndirectCall => {
                    self.called(&block);
                    Exit::IndirectCall
                }
                Terminator::Return => {
                    if self.config.return_compression == Some(PopRule::Always) {
                        self.state.stack.pop();
                    }
                    Exit::Return
                }
                Terminator::Far => Exit::Far,
                _ => {
                    self.follow(&block, &mut steps)?;
                    continue;
                }
            };
            let to = self.bounds.offset(ip);
            if to == OUTSIDE {
                return Err(Error::WrongAddress {
                    packet: "TIP",
                    offset: StreamOffset(self.state.packet),
                    said: Address(ip),
                    address: self.address(block.start),
                });
            }
            if exit == Exit::Return {
                self.returned(&block, to, image)?;
            }
            self.emit(&block, exit);
            self.state.ip = to;
            self.state.block = self.cache.find(to);
            return Ok(());
        }
    }

    /// `block` makes a call.
    #[inline]
    fn called(&mut self, block: &BasicBlock) {
        if self.config.return_compression.is_some() {
            self.state.stack.push(block.end);
        }
        self.state.calls.push(block.end);
    }

    /// `block` returns to `to`. If a call of compiled code ends at `to`, the thread has made that
    /// call. A flow without the call took the wrong version of a call, if an untried version is
    /// left; otherwise the call was made before the decoder's knowledge of the thread begins.
    fn returned(&mut self, block: &BasicBlock, to: u32, image: &CodeHistory) -> Result<(), Error> {
        if self.state.calls.unwind_to(to) || self.state.calls.is_empty() {
            return Ok(());
        }
        if self.may_doubt() && self.is_after_compiled_call(to, image) {
            return Err(self.other_caller(block, self.address(to)));
        }
        self.state.calls.clear();
        Ok(())
    }

    /// `block` returns to `ip`, out of the range. A thread that entered the range by a call from
    /// outside and has made a call since must return from that call first.
    fn returned_out(&self, block: &BasicBlock, ip: u64) -> Result<(), Error> {
        if self.state.calls.is_above_mark() && self.may_doubt() {
            return Err(self.other_caller(block, Address(ip)));
        }
        Ok(())
    }

    fn other_caller(&self, block: &BasicBlock, returns: Address) -> Error {
        let offset = StreamOffset(self.state.packet);
        Error::OtherCaller { offset, address: self.address(block.start), returns }
    }

    /// Whether `to` is in compiled code and a direct call ends there. The other places in
    /// compiled code that control returns to are handlers of deoptimised frames, whose return
    /// addresses the VM has changed (`frame::deoptimize`).
    fn is_after_compiled_call(&self, to: u32, image: &CodeHistory) -> bool {
        const CALL_REL32: u8 = 0xe8;
        let Some(call) = to.checked_sub(5) else { return false };
        // Includes changes that this core is not known to have seen.
        let visible = |r: &Recent| r.seen || self.is_possible(r.change, image);
        let owner = self.view.owner(image, to, visible);
        let mut opcode = [0];
        self.view.read(image, call, &mut opcode, visible);
        opcode == [CALL_REL32] && owner.is_some_and(|(code, _)| image.leaves_only_by_calls(code))
    }

    fn walk_to_event(&mut self, ip: u64, image: &CodeHistory) -> Result<(), Error> {
        let block = self.walk_to_instruction(ip, image)?;
        let at = self.bounds.offset(ip);
        if at > block.start {
            self.emit(&BasicBlock { end: at, ..block }, Exit::Cut);
        }
        self.state.ip = at;
        self.state.block = NONE;
        self.state.pending = Pending::Event(ip);
        Ok(())
    }

    fn walk_to_sync(&mut self, ip: u64, image: &CodeHistory) -> Result<(), Error> {
        self.walk_to_instruction(ip, image)?;
        self.state.stack.clear();
        self.state.demand = Demand::None;
        self.begin_now();
        self.tell_time();
        self.at_sync(image);
        Ok(())
    }

    /// Follows direct branches to the block that contains the instruction at `ip`.
    fn walk_to_instruction(&mut self, ip: u64, image: &CodeHistory) -> Result<BasicBlock, Error> {
        let at = self.bounds.offset(ip);
        let mut steps = 0;
        loop {
            let block = self.current(image)?;
            if at == block.start {
                return Ok(block);
            }
            let inside = at < block.end || at == block.end && block.kind == Terminator::FallThrough;
            if block.start < at && inside && self.is_instruction(&block, at, image) {
                return Ok(block);
            }
            let goes_on = matches!(
                block.kind,
                Terminator::Jump | Terminator::Call | Terminator::CallNext | Terminator::FallThrough
            );
            if !goes_on || block.target == OUTSIDE {
                return Err(self.wrong_address(&block, ip));
            }
            self.follow(&block, &mut steps)?;
        }
    }

    /// Follows direct branches to the branch that leaves for `ip` (`None`: to a far transfer).
    fn walk_out(&mut self, ip: Option<u64>, image: &CodeHistory) -> Result<(), Error> {
        let mut steps = 0;
        loop {
            let block = self.current(image)?;
            let exit = match (block.kind, ip) {
                (Terminator::Far, _) => Exit::Far,
                (Terminator::Return | Terminator::IndirectJump, Some(ip))
                    if image.leaves_only_by_calls(block.code) =>
                {
                    return Err(self.wrong_address(&block, ip));
                }
                (Terminator::IndirectJump, Some(_)) => Exit::IndirectJump,
                (Terminator::IndirectCall, Some(_)) => Exit::IndirectCall,
                (Terminator::Return, Some(ip)) => {
                    self.returned_out(&block, ip)?;
                    Exit::Return
                }
                (Terminator::Conditional, Some(ip)) => match self.conditional_exit(&block, ip, image) {
                    Some(exit) => exit,
                    None => return Err(self.wrong_address(&block, ip)),
                },
                (Terminator::Jump | Terminator::Call | Terminator::CallNext | Terminator::FallThrough, _)
                    if block.target != OUTSIDE =>
                {
                    self.follow(&block, &mut steps)?;
                    continue;
                }
                (Terminator::Jump | Terminator::Call | Terminator::FallThrough, Some(ip)) => {
                    if self.outside_target(&block, image) != Some(ip) {
                        return Err(self.wrong_address(&block, ip));
                    }
                    self.direct(&block)?.0
                }
                _ => return Err(self.unexpected(&block)),
            };
            self.resolution(block.code, image)?;
            self.emit(&block, exit);
            self.items.push(Item::Leave { target: ip.and_then(|ip| Target::new(Address(ip))) });
            self.disable();
            self.tell_time();
            return Ok(());
        }
    }

    /// The direction of a conditional branch that left the range for `ip`.
    fn conditional_exit(&self, block: &BasicBlock, ip: u64, image: &CodeHistory) -> Option<Exit> {
        if block.target == OUTSIDE && self.outside_target(block, image) == Some(ip) {
            return Some(Exit::Taken);
        }
        let next = self.bounds.low + u64::from(block.end);
        (block.end >= self.bounds.len && next == ip).then_some(Exit::NotTaken)
    }

    /// Tracing is off from this point.
    pub(super) fn disable(&mut self) {
        self.state.enabled = false;
        self.state.block = NONE;
        self.state.pending = Pending::No;
        self.state.stack.clear();
    }

    fn block_bytes<'a>(
        &self,
        block: &BasicBlock,
        image: &CodeHistory,
        room: &'a mut [u8; BLOCK_BYTES],
    ) -> &'a [u8] {
        let bytes = &mut room[..((block.end - block.start) as usize).min(BLOCK_BYTES)];
        // A scratch block may have been decoded under an assumption that was confirmed
        // afterwards. In both cases its bytes are those of the changes marked as seen.
        self.read_seen(block.start, image, bytes);
        bytes
    }

    fn is_instruction(&self, block: &BasicBlock, at: u32, image: &CodeHistory) -> bool {
        let mut room = [0; BLOCK_BYTES];
        begins_instruction(self.block_bytes(block, image, &mut room), block.start, at)
    }

    fn outside_target(&self, block: &BasicBlock, image: &CodeHistory) -> Option<u64> {
        if block.kind == Terminator::FallThrough {
            return Some(self.bounds.low + u64::from(block.end));
        }
        let mut room = [0; BLOCK_BYTES];
        direct_target(self.block_bytes(block, image, &mut room), block.start, self.bounds)
    }

    pub(super) fn address(&self, offset: u32) -> Address {
        Address(self.bounds.low + u64::from(offset))
    }

    fn wrong_address(&self, block: &BasicBlock, said: u64) -> Error {
        Error::WrongAddress {
            packet: self.state.demand.packet(),
            offset: StreamOffset(self.state.packet),
            said: Address(said),
            address: self.address(block.start),
        }
    }

    fn unexpected(&self, block: &BasicBlock) -> Error {
        let needs = match block.kind {
            Terminator::Conditional => "needs a TNT",
            Terminator::IndirectJump | Terminator::IndirectCall | Terminator::Return => "needs a TIP",
            Terminator::Far => "is a far transfer",
            _ => "continues without a packet",
        };
        Error::UnexpectedPacket {
            packet: self.state.demand.packet(),
            offset: StreamOffset(self.state.packet),
            address: self.address(block.start),
            needs,
        }
    }

    /// The last `steps - 1` blocks ran in a circle. They stay until nothing explains the trace,
    /// because the decoder may come back to a choice that it made in between.
    fn circle(&mut self, block: &BasicBlock, steps: u32) -> Error {
        self.circled = steps as usize - 1;
        Error::Circle {
            address: self.address(block.start),
            packet: self.state.demand.packet(),
            offset: StreamOffset(self.state.packet),
        }
    }
}
