//! Calls a library that was compiled for the test.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;
use std::process::Command;

use muster_dcmi::{CARDS, CHIPS, Dcmi, Error, Health, Pci, Port, SuperPod};

/// A library with these switches.
fn library(switches: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libdcmi.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libdcmi.c");
    let flags = switches.iter().map(|switch| format!("-D{switch}"));
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-o"])
        .arg(&path)
        .arg(source)
        .args(flags)
        .status();
    assert!(done.unwrap().success());
    (folder, path)
}

fn open(switches: &[&str]) -> (tempfile::TempDir, Dcmi) {
    let (folder, path) = library(switches);
    let dcmi = Dcmi::open(&path).unwrap();
    (folder, dcmi)
}

#[test]
fn all_facts_of_a_die_come_through() {
    let (_folder, dcmi) = open(&[]);
    assert_eq!(dcmi.cards().unwrap(), (0..8).collect::<Vec<u32>>());
    assert_eq!(dcmi.chips(5).unwrap(), [0, 1]);
    assert_eq!(dcmi.logic_id(5, 1).unwrap(), 11);
    assert_eq!(dcmi.phy_id(11).unwrap(), 11);
    assert_eq!(dcmi.name(5, 1).unwrap(), "Ascend910");
    assert_eq!(dcmi.pci(5, 1).unwrap(), Pci { domain: 0, bus: 0x8b, slot: 0, function: 0 });
    assert_eq!(dcmi.health(5, 1).unwrap(), Health::Ok);
    assert_eq!(dcmi.health(3, 1).unwrap(), Health::Alarm);
    assert_eq!(dcmi.network_health(5, 1).unwrap(), Some(true));
    assert_eq!(dcmi.network_health(3, 1).unwrap(), Some(false));
    assert_eq!(dcmi.ip(5, 1, Port::Roce).unwrap().to_string(), "10.0.244.16");
    assert_eq!(dcmi.ip(5, 1, Port::Vnic).unwrap().to_string(), "192.168.40.12");
    let place = SuperPod { sdid: 169_148_427, size: 384, id: 0, server: 40 };
    assert_eq!(dcmi.super_pod(5, 1).unwrap(), place);
    assert!(matches!(dcmi.health(9, 0), Err(Error::Code { code: -8001, .. })));
}

#[test]
fn an_old_library_has_what_it_has() {
    let (_folder, dcmi) = open(&["OLD", "REFUSE"]);
    // Its controller is counted as a unit and is none of the chips.
    assert_eq!(dcmi.chips(0).unwrap(), [0, 1]);
    assert_eq!(dcmi.name(0, 0).unwrap(), "Ascend910");
    let error = dcmi.super_pod(0, 0).unwrap_err();
    assert!(matches!(error, Error::Missing("dcmi_get_device_info")) && error.is_absence());
    let error = dcmi.ip(0, 0, Port::Roce).unwrap_err();
    assert!(matches!(error, Error::NotSupported("dcmi_get_device_ip")) && error.is_absence());
}

#[test]
fn answers_that_cannot_be_stay_within_bounds() {
    let (_folder, dcmi) = open(&["LIE"]);
    let cards = dcmi.cards().unwrap();
    assert!(cards.len() <= CARDS && cards.iter().all(|card| *card < 64), "{cards:?}");
    assert!(dcmi.chips(0).unwrap().len() <= CHIPS);
    assert_eq!(dcmi.name(0, 0).unwrap(), "x".repeat(32), "a text without an end has an end");
    assert!(matches!(dcmi.pci(0, 0), Err(Error::Odd(_))));
    assert!(matches!(dcmi.ip(0, 0, Port::Roce), Err(Error::Odd(_))));
    assert!(matches!(dcmi.super_pod(0, 0), Err(Error::Odd(_))));
}

#[test]
fn a_library_that_is_not_there_or_not_ready_says_so() {
    let (folder, path) = library(&["SILENT"]);
    assert!(matches!(Dcmi::open(&path), Err(Error::NotReady("dcmi_init"))));
    let error = Dcmi::open(&folder.path().join("none.so")).unwrap_err();
    assert_eq!(error.reason(), "library-unusable");
    std::fs::write(folder.path().join("noise.so"), "\u{7f}ELF noise").unwrap();
    let error = Dcmi::open(&folder.path().join("noise.so")).unwrap_err();
    assert!(matches!(error, Error::Open { .. }) && error.to_string().contains("noise.so"));
}
