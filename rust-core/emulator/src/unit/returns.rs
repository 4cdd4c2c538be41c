// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The return stack of RET compression.

/// Entries of the stack (SDM: the call stack holds 64 return addresses).
const DEPTH: usize = 64;

/// Return addresses of near calls; the oldest is lost when a 65th is pushed.
#[derive(Debug)]
pub struct ReturnStack {
    entries: [u64; DEPTH],
    top: usize,
    len: usize,
}

impl Default for ReturnStack {
    fn default() -> Self {
        ReturnStack { entries: [0; DEPTH], top: 0, len: 0 }
    }
}

impl ReturnStack {
    /// Pushes the return address of a call.
    #[inline]
    pub fn push(&mut self, address: u64) {
        self.top = (self.top + 1) % DEPTH;
        self.entries[self.top] = address;
        self.len = (self.len + 1).min(DEPTH);
    }

    /// The address pushed last.
    #[inline]
    pub fn top(&self) -> Option<u64> {
        (self.len > 0).then(|| self.entries[self.top])
    }

    /// Removes the address pushed last.
    #[inline]
    pub fn pop(&mut self) {
        if self.len > 0 {
            self.top = (self.top + DEPTH - 1) % DEPTH;
            self.len -= 1;
        }
    }

    /// Removes all addresses.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_64() {
        let mut s = ReturnStack::default();
        for a in 0..70 {
            s.push(a);
        }
        for a in (6..70).rev() {
            assert_eq!(s.top(), Some(a));
            s.pop();
        }
        assert_eq!(s.top(), None);
        s.pop();
        s.push(5);
        assert_eq!(s.top(), Some(5));
        s.clear();
        assert_eq!(s.top(), None);
    }
}
