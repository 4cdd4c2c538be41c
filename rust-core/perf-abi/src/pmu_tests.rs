// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::testing::{SKYLAKE_PMU, write_tree};

fn skylake(change: &[(&str, &str)]) -> Result<Option<PtPmu>, Error> {
    let root = tempfile::tempdir().unwrap();
    write_tree(root.path(), SKYLAKE_PMU);
    let change: Vec<_> = change.iter().map(|(name, text)| (format!("{DIRECTORY}/{name}"), *text)).collect();
    write_tree(root.path(), &change.iter().map(|(n, t)| (n.as_str(), *t)).collect::<Vec<_>>());
    PtPmu::read(root.path())
}

#[test]
fn no_directory_is_no_pt() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(PtPmu::read(root.path()).unwrap(), None);
}

#[test]
fn the_configuration_follows_formats_and_capabilities() {
    let pmu = skylake(&[]).unwrap().unwrap();
    assert_eq!((pmu.kind, pmu.address_filters, pmu.max_nonturbo_ratio, pmu.tsc_ctc), (8, 2, 25, (200, 2)));
    assert_eq!(pmu.terms["mtc_period"], Term { low: 14, high: 17 });
    // 0x249: the periods 0, 3, 6 and 9.
    let packets = pmu.packets().unwrap();
    assert_eq!(
        packets,
        PtPackets { config: 0x2c01 | 1 << 9 | 6 << 14 | 3 << 24, mtc_period: Some(6), psb_period: 3 }
    );
    assert_eq!(pmu.plain_packets().unwrap().config, 0x2c01);
}

#[test]
fn what_the_processor_has_not_is_not_asked_for() {
    let config = |change: &[(&str, &str)]| skylake(change).unwrap().unwrap().packets().unwrap();
    assert_eq!(config(&[("caps/mtc", "0")]).mtc_period, None);
    assert_eq!(config(&[("tsc_art_ratio", "0:0")]).mtc_period, None, "its times could not be used");
    assert_eq!(config(&[("caps/mtc_periods", "9")]).mtc_period, Some(3), "the most seldom there is");
    assert_eq!(config(&[("caps/mtc_periods", "200")]).mtc_period, Some(9));
    assert_eq!(config(&[("caps/mtc_periods", "0")]).mtc_period, None);
    assert_eq!(config(&[("caps/psb_cyc", "0")]).config >> 24, 0);
    assert_eq!(config(&[("caps/psb_periods", "5")]).psb_period, 2);
}

#[test]
fn other_bits_are_followed() {
    let pmu = skylake(&[("format/branch", "config:40"), ("format/new", "config1:0-63")]).unwrap().unwrap();
    assert_eq!(pmu.plain_packets().unwrap().config, 1 | 1 << 10 | 1 << 11 | 1 << 40);
    assert!(!pmu.terms.contains_key("new"));
    assert_eq!(Term { low: 0, high: 63 }.with(u64::MAX), u64::MAX);
    assert_eq!(Term { low: 4, high: 5 }.with(7), 0x30, "a value never reaches into the next term");
}

#[test]
fn nonsense_is_reported_with_its_place() {
    for (name, text) in [
        ("type", "eight"),
        ("format/pt", "config:9-3"),
        ("format/pt", "config:64"),
        ("caps/mtc", "0x"),
        ("nr_addr_filters", "-1"),
        ("tsc_art_ratio", "200"),
    ] {
        let error = skylake(&[(name, text)]).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(text), "{error}");
    }
}

#[test]
fn a_term_that_is_missing_is_named() {
    let root = tempfile::tempdir().unwrap();
    write_tree(
        root.path(),
        &SKYLAKE_PMU.iter().filter(|(n, _)| !n.ends_with("/noretcomp")).copied().collect::<Vec<_>>(),
    );
    let error = PtPmu::read(root.path()).unwrap().unwrap().packets().unwrap_err().to_string();
    assert!(error.contains("format/noretcomp"), "{error}");
    std::fs::remove_file(root.path().join(DIRECTORY).join("type")).unwrap();
    assert!(matches!(PtPmu::read(root.path()), Err(Error::Io { action: "read", .. })));
}
