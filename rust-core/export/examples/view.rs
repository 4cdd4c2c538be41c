// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Writes the page of a made-up capture: `view FILE [METHODS [NODES]]`. The test of the page in a
//! browser (`tests/view/check.mjs`) opens it.

use std::io::BufWriter;

use jportal_export::view::{testing, write_view};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("usage: view FILE [METHODS [NODES]]")?;
    let number = |i: usize, default: usize| arguments.get(i).map_or(Ok(default), |a| a.parse());
    let view = testing::view(number(1, 2_000)?, number(2, 200_000)?);
    write_view(&view, &mut BufWriter::new(std::fs::File::create(path)?))?;
    Ok(())
}
