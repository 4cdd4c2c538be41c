// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads the log of `-XX:+LogVMOutput -XX:+PrintNMethods`.

use std::io::BufRead;
use std::path::Path;

use crate::Result;

/// Identifies a compilation in every run of the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Class, method and descriptor.
    pub method: String,
    /// Compilation level. If the log has none: 1 for C1, 4 for C2.
    pub level: u8,
    /// The bci at which OSR code is entered; `None` for other code.
    pub osr_bci: Option<u32>,
}

/// One nmethod as it was installed.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What was compiled.
    pub key: Key,
    /// Address of `code`.
    pub start: u64,
    /// Instructions and stubs.
    pub code: Vec<u8>,
    /// Address of `constants`.
    pub constants_start: u64,
    /// Constant section, in words of 32 bits.
    pub constants: Vec<u32>,
    /// Relocations, entry points, oop maps and debug information, each with its offset in `code`.
    /// They contain addresses of this run.
    pub notes: Vec<(u32, String)>,
}

impl Listed {
    /// Whether an address lies in the nmethod's constants, code or stubs.
    pub fn holds(&self, address: u64) -> bool {
        let constants = self.constants_start..self.constants_start + 4 * self.constants.len() as u64;
        (self.start..self.start + self.code.len() as u64).contains(&address) || constants.contains(&address)
    }
}

/// Reads the log, in order of installation.
///
/// # Errors
/// If the file cannot be read or is not in the expected format.
pub fn read(path: &Path) -> Result<Vec<Listed>> {
    let file = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut all = Vec::new();
    let mut open: Option<NMethodReader> = None;
    for (number, line) in std::io::BufReader::new(file).split(b'\n').enumerate() {
        let line = unescape(&String::from_utf8_lossy(&line?));
        let at = |what: String| format!("{}, line {}: {what}", path.display(), number + 1);
        if line.starts_with("<print_nmethod ") {
            open = Some(NMethodReader::new(&line));
        } else if line.starts_with("</print_nmethod>") {
            let reader = open.take().ok_or_else(|| at("the end of no nmethod".into()))?;
            all.push(reader.finish().map_err(at)?);
        } else if let Some(reader) = &mut open {
            reader.line(&line).map_err(at)?;
        }
    }
    match open {
        Some(_) => Err(format!("{} ends inside an nmethod", path.display()).into()),
        None => Ok(all),
    }
}

fn unescape(line: &str) -> String {
    if !line.contains('&') {
        return line.to_owned();
    }
    line.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&apos;", "'")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

#[derive(Debug, Default, PartialEq, Eq)]
enum NMethodPart {
    #[default]
    Head,
    Constants,
    Code,
    Rest,
}

#[derive(Debug, Default)]
struct NMethodReader {
    level: u8,
    method: Option<String>,
    osr_bci: Option<u32>,
    part: NMethodPart,
    start: Option<u64>,
    code: Vec<u8>,
    constants_start: u64,
    constants: Vec<u32>,
    notes: Vec<(u32, String)>,
    note_at: u32,
}

/// Removes the number of a lambda's class and the address that follows it. Both depend on what
/// ran before.
pub fn without_numbers(text: &str) -> String {
    const LAMBDA: &str = "$$Lambda$";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(i) = rest.find(LAMBDA) {
        out.push_str(&rest[..i + LAMBDA.len()]);
        rest = rest[i + LAMBDA.len()..].trim_start_matches(|c: char| c.is_ascii_digit());
        if let Some(address) = rest.strip_prefix(['+', '/']).and_then(|r| r.strip_prefix("0x")) {
            rest = address.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        }
    }
    out + rest
}

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let behind = line.split_once(&format!(" {name}='"))?.1;
    behind.split_once('\'').map(|(value, _)| value)
}

/// Splits `0x` and 16 digits off the start of the text.
fn address(text: &str) -> Option<(u64, &str)> {
    let digits = text.strip_prefix("0x")?;
    let value = u64::from_str_radix(digits.get(..16)?, 16).ok()?;
    Some((value, &digits[16..]))
}

impl NMethodReader {
    fn new(head: &str) -> Self {
        let level = attribute(head, "level").and_then(|l| l.parse().ok());
        let only = if attribute(head, "compiler") == Some("c1") { 1 } else { 4 };
        Self { level: level.unwrap_or(only), ..Self::default() }
    }

    fn line(&mut self, line: &str) -> std::result::Result<(), String> {
        match line {
            "[Constant Pool]" => self.part = NMethodPart::Constants,
            "[MachCode]" => self.part = NMethodPart::Code,
            "[/MachCode]" => self.part = NMethodPart::Rest,
            _ => {}
        }
        match self.part {
            NMethodPart::Head => self.head(line),
            NMethodPart::Constants => self.constant(line),
            NMethodPart::Code => self.code(line),
            NMethodPart::Rest => Ok(()),
        }
    }

    fn head(&mut self, line: &str) -> std::result::Result<(), String> {
        if line.starts_with("Compiled method ") {
            // For on-stack replacement: "... Class::method @ 25 (60 bytes)".
            let name = line.rsplit_once(" (").map_or(line, |(name, _)| name);
            self.osr_bci = name.rsplit_once(" @ ").and_then(|(_, bci)| bci.parse().ok());
            let name = name.split(" @ ").next().unwrap_or(name);
            self.method = name.rsplit(' ').next().map(str::to_owned);
        } else if let Some((_, range)) = line.split_once("main code ") {
            let start = range.trim_start().strip_prefix('[').and_then(address);
            self.start = Some(start.ok_or("main code without its address")?.0);
        }
        Ok(())
    }

    fn constant(&mut self, line: &str) -> std::result::Result<(), String> {
        let Some((at, rest)) = address(line.trim_start()) else { return Ok(()) };
        let word = rest.trim_start_matches(':').split_whitespace().next().and_then(|w| w.strip_prefix("0x"));
        let word =
            word.and_then(|w| u32::from_str_radix(w, 16).ok()).ok_or("a constant without its value")?;
        if self.constants.is_empty() {
            self.constants_start = at;
        }
        if at != self.constants_start + 4 * self.constants.len() as u64 {
            return Err("constants are not in a row".into());
        }
        self.constants.push(word);
        Ok(())
    }

    fn code(&mut self, line: &str) -> std::result::Result<(), String> {
        let start = self.start.ok_or("code without its address")?;
        let text = line.trim_start();
        if let Some((at, rest)) = address(text) {
            let offset = at.checked_sub(start).and_then(|o| u32::try_from(o).ok());
            let offset = offset.ok_or("code outside of the code")?;
            let rest = rest.trim_start_matches(':').trim();
            if let Some(note) = rest.strip_prefix(';') {
                self.note_at = offset;
                self.notes.push((offset, note.trim().to_owned()));
            } else {
                self.bytes(offset, rest)?;
            }
        } else if let Some(note) = text.strip_prefix(';') {
            self.notes.push((self.note_at, note.trim().to_owned()));
        } else if !text.is_empty() && text != "[MachCode]" {
            if let Some(signature) = text.strip_prefix("# {method} ") {
                self.method_line(signature);
            }
            self.notes.push((self.code.len() as u32, text.to_owned()));
        }
        Ok(())
    }

    /// Parses `{0x...} 'hashCode' '()I' in 'java/lang/String'`.
    fn method_line(&mut self, text: &str) {
        let parts: Vec<&str> = text.split('\'').collect();
        if let [_, name, _, descriptor, _, class, ..] = parts[..] {
            self.method = Some(format!("{class}.{name}{descriptor}"));
        }
    }

    fn bytes(&mut self, offset: u32, text: &str) -> std::result::Result<(), String> {
        if offset as usize != self.code.len() {
            return Err(format!("code continues at {offset} after {}", self.code.len()));
        }
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        if !digits.len().is_multiple_of(2)
            || text.bytes().any(|b| !b.is_ascii_hexdigit() && b != b' ' && b != b'|')
        {
            return Err(format!("no code: {text:?}"));
        }
        let digit = |d: u8| char::from(d).to_digit(16).unwrap_or(0) as u8;
        self.code.extend(digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])));
        Ok(())
    }

    fn finish(self) -> std::result::Result<Listed, String> {
        let method = self.method.ok_or("an nmethod without a name")?;
        let method = without_numbers(&method);
        let (start, code) = (self.start.ok_or("an nmethod without code")?, self.code);
        if code.is_empty() {
            return Err("an nmethod without code".into());
        }
        Ok(Listed {
            key: Key { method, level: self.level, osr_bci: self.osr_bci },
            start,
            code,
            constants_start: self.constants_start,
            constants: self.constants,
            notes: self.notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const LOG: &str = "<vm_version>
<print_nmethod compile_id='1' compile_kind='osr' compiler='c1' level='3' stamp='0.1'>
Compiled method (c1)     129    1 %     3       A::f @ 25 (60 bytes)
 main code      [0x0000000000001010,0x0000000000001020] = 16
[Constant Pool]
             Address          hex4                    hex8      
  0x0000000000001000:   0x0000101c      0x000000000000101c      
  0x0000000000001004:   0x00000000                              
[MachCode]
[Verified Entry Point]
  # {method} {0x00007fa37c00b0c0} &apos;f&apos; &apos;()I&apos; in &apos;A&apos;
  0x0000000000001010: 448b 56 

  0x0000000000001013: ; ImmutableOopMap {}
                      ;   {poll}
  0x0000000000001013: 08 | 49c1 
[Stub Code]
[/MachCode]
  0x0000000000001013: 08 | 49c1 
</print_nmethod>
";

    fn parse(text: &str) -> Result<Vec<Listed>> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(text.as_bytes())?;
        read(file.path())
    }

    #[test]
    fn everything_is_read() {
        let all = parse(LOG).unwrap();
        let [n] = &all[..] else { panic!("{all:?}") };
        assert_eq!(n.key, Key { method: "A.f()I".into(), level: 3, osr_bci: Some(25) });
        assert_eq!((n.start, n.constants_start, &n.constants[..]), (0x1010, 0x1000, &[0x101c, 0][..]));
        assert_eq!(n.code, [0x44, 0x8b, 0x56, 0x08, 0x49, 0xc1]);
        let notes: Vec<(u32, &str)> = n.notes.iter().map(|(at, note)| (*at, note.as_str())).collect();
        assert_eq!(notes[0], (0, "[Verified Entry Point]"));
        assert_eq!(notes[2..], [(3, "ImmutableOopMap {}"), (3, "{poll}"), (6, "[Stub Code]")]);
        assert!(n.holds(0x1000) && n.holds(0x1015) && !n.holds(0x1016) && !n.holds(0xfff));
    }

    #[test]
    fn lambdas_lose_their_number() {
        assert_eq!(without_numbers("A$$Lambda$12+0x00000040a3003660.f(I)V"), "A$$Lambda$.f(I)V");
        assert_eq!(without_numbers("A$$Lambda$12/0x0f::f, A$$Lambda$7"), "A$$Lambda$::f, A$$Lambda$");
        assert_eq!(without_numbers("A$1.f()V"), "A$1.f()V");
    }

    #[test]
    fn a_broken_log_is_refused() {
        assert!(parse(&LOG.replace("</print_nmethod>", "")).is_err());
        assert!(parse(&LOG.replace("1013: 08 | 49c1", "1014: 08 | 49c1")).is_err());
        assert!(parse(&LOG.replace("448b 56", "44xb 56")).is_err());
        assert!(parse(&LOG.replace(" main code ", " other code ")).is_err());
    }
}
