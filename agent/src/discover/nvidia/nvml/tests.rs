use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;

/// A node with a library made by the C compiler; none without a compiler.
fn node() -> Option<(tempfile::TempDir, Host)> {
    let folder = tempfile::tempdir().unwrap();
    let (source, made) = (folder.path().join("fake.c"), folder.path().join("usr/lib64"));
    fs::write(&source, include_str!("fake.c")).unwrap();
    fs::create_dir_all(&made).unwrap();
    let library = made.join("libnvidia-ml.so.1");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    compiler.arg(format!("-DDIR=\"{}\"", folder.path().display()));
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            eprintln!("there is no cc: not tested");
            return None;
        }
    }
    fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
    let host = Host::at(folder.path());
    Some((folder, host))
}

fn pci(bus: u8) -> PciAddress {
    PciAddress { domain: 0, bus, slot: 0, function: 0 }
}

fn expected() -> Facts {
    let told = |index: u32| Told {
        index: Some(index),
        uuid: Some(format!("GPU-{index}")),
        model: "NVIDIA H100".into(),
        ..Told::default()
    };
    let mig = vec![Mig { uuid: "MIG-aa".into(), profile: "1g.10gb".into() }];
    let first = Told { mig, ..told(0) };
    Facts {
        gpus: BTreeMap::from([(pci(0x18), first), (pci(0x2a), told(1))]),
        joins: BTreeMap::from([((pci(0x18), pci(0x2a)), 2)]),
    }
}

#[tokio::test]
async fn the_library_tells_gpus_slices_and_links() {
    let Some((folder, host)) = node() else { return };
    let library = Library::default();
    assert_eq!(library.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap(), expected());
    fs::write(folder.path().join("lost"), "").unwrap();
    let mut with_lost = expected();
    let second = with_lost.gpus.get_mut(&pci(0x2a)).unwrap();
    (second.uuid, second.fault) = (None, Some("it has fallen off the bus".into()));
    assert_eq!(library.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap(), with_lost);
    fs::write(folder.path().join("unheld"), "").unwrap();
    let fault = Some("it has fallen off the bus".into());
    with_lost.gpus.insert(pci(0x2a), Told { fault, ..Told::default() });
    with_lost.joins.clear();
    assert_eq!(library.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap(), with_lost);
}

#[tokio::test]
async fn a_library_that_hangs_is_left_alone_until_it_answers() {
    let Some((folder, host)) = node() else { return };
    let hang = folder.path().join("hang");
    fs::write(&hang, "").unwrap();
    let quick = Library { limit: Duration::from_millis(100), ..Library::default() };
    assert_eq!(quick.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap_err().reason(), "nvml-hangs");
    let patient = Library { limit: Duration::from_secs(30), ..quick.clone() };
    // It is not called a second time while it hangs, however long one would wait.
    let asked =
        tokio::time::timeout(Duration::from_secs(10), patient.ask(&host, &[pci(0x18), pci(0x2a)]))
            .await;
    assert_eq!(asked.unwrap().unwrap_err().reason(), "nvml-hangs");
    fs::remove_file(hang).unwrap();
    drop(quick.free.acquire().await.unwrap());
    assert_eq!(patient.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap(), expected());
}

#[tokio::test]
async fn a_library_that_fails_is_absent_or_not_ours_says_so() {
    let Some((folder, host)) = node() else { return };
    let library = Library::default();
    fs::write(folder.path().join("fail"), "").unwrap();
    assert_eq!(
        library.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap_err().reason(),
        "nvml-failed"
    );
    let file = folder.path().join("usr/lib64/libnvidia-ml.so.1");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(
        library.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap_err().reason(),
        "nvml-untrusted"
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&file, "no library").unwrap();
    assert_eq!(
        library.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap_err().reason(),
        "nvml-failed"
    );
    fs::remove_file(&file).unwrap();
    assert_eq!(
        library.ask(&host, &[pci(0x18), pci(0x2a)]).await.unwrap_err().reason(),
        "nvml-absent"
    );
}

#[test]
fn links_to_switches_join_all_that_have_them() {
    let switch = pci(0xf0);
    let links = BTreeMap::from([
        (pci(1), vec![switch; 18]),
        (pci(2), vec![switch; 12]),
        (pci(3), vec![pci(4); 4]),
        (pci(4), vec![pci(3); 4]),
        (pci(5), vec![]),
    ]);
    let expected = [((1, 2), 12), ((3, 4), 4)].map(|((a, b), count)| ((pci(a), pci(b)), count));
    assert_eq!(joins(&links), BTreeMap::from(expected));
}
