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

fn expected() -> News {
    let call = |index: u32| Call {
        index: Some(index),
        uuid: Some(format!("GPU-{index}")),
        model: "NVIDIA H100".into(),
        fault: None,
    };
    let mig = vec![Mig { uuid: "MIG-aa".into(), profile: "1g.10gb".into() }];
    News {
        calls: BTreeMap::from([(pci(0x18), call(0)), (pci(0x2a), call(1))]),
        slices: BTreeMap::from([(pci(0x18), mig), (pci(0x2a), vec![])]),
        joins: Joins {
            of: [pci(0x18), pci(0x2a)].into(),
            counts: BTreeMap::from([((pci(0x18), pci(0x2a)), 2)]),
        },
        ..News::default()
    }
}

#[tokio::test]
async fn the_library_tells_gpus_slices_and_links() {
    let Some((_folder, host)) = node() else { return };
    let library = Library::default();
    let gpus = [pci(0x18), pci(0x2a)];
    assert_eq!(library.ask(&host, &gpus, true).await.unwrap(), expected());
    let quick = News { calls: expected().calls, ..News::default() };
    assert_eq!(library.ask(&host, &gpus, false).await.unwrap(), quick);
}

#[tokio::test]
async fn of_a_lost_gpu_only_the_loss_is_told() {
    let Some((folder, host)) = node() else { return };
    let library = Library::default();
    let fault = || Some("it has fallen off the bus".to_owned());
    let index = Some(1);
    for (file, lost) in [
        ("cold", Call { fault: fault(), ..expected().calls[&pci(0x2a)].clone() }),
        ("lost", Call { index, fault: fault(), ..Call::default() }),
        ("unheld", Call { fault: fault(), ..Call::default() }),
    ] {
        fs::write(folder.path().join(file), "").unwrap();
        let mut with_lost = expected();
        with_lost.calls.insert(pci(0x2a), lost);
        with_lost.slices.remove(&pci(0x2a));
        with_lost.joins = Joins { of: [pci(0x18)].into(), ..Joins::default() };
        let asked = library.ask(&host, &[pci(0x18), pci(0x2a)], true).await.unwrap();
        assert_eq!(asked, with_lost, "{file}");
        fs::remove_file(folder.path().join(file)).unwrap();
    }
}

#[tokio::test]
async fn a_library_that_hangs_is_left_alone_until_it_answers() {
    let Some((folder, host)) = node() else { return };
    let hang = folder.path().join("hang");
    fs::write(&hang, "").unwrap();
    let quick = Library { limit: Duration::from_millis(100), ..Library::default() };
    assert_eq!(
        quick.ask(&host, &[pci(0x18), pci(0x2a)], true).await.unwrap_err().reason(),
        "nvml-hangs"
    );
    let patient = Library { limit: Duration::from_secs(30), ..quick.clone() };
    // It is not called a second time while it hangs, however long one would wait.
    let asked = tokio::time::timeout(
        Duration::from_secs(10),
        patient.ask(&host, &[pci(0x18), pci(0x2a)], true),
    )
    .await;
    assert_eq!(asked.unwrap().unwrap_err().reason(), "nvml-hangs");
    fs::remove_file(hang).unwrap();
    drop(quick.free.acquire().await.unwrap());
    assert_eq!(patient.ask(&host, &[pci(0x18), pci(0x2a)], true).await.unwrap(), expected());
}

#[tokio::test]
async fn a_library_that_fails_is_absent_or_not_ours_says_so() {
    let Some((folder, host)) = node() else { return };
    let library = Library::default();
    fs::write(folder.path().join("fail"), "").unwrap();
    assert_eq!(
        library.ask(&host, &[pci(0x18), pci(0x2a)], true).await.unwrap_err().reason(),
        "nvml-failed"
    );
    let file = folder.path().join("usr/lib64/libnvidia-ml.so.1");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(
        library.ask(&host, &[pci(0x18), pci(0x2a)], true).await.unwrap_err().reason(),
        "nvml-untrusted"
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&file, "no library").unwrap();
    assert_eq!(
        library.ask(&host, &[pci(0x18), pci(0x2a)], true).await.unwrap_err().reason(),
        "nvml-failed"
    );
    fs::remove_file(&file).unwrap();
    assert_eq!(
        library.ask(&host, &[pci(0x18), pci(0x2a)], true).await.unwrap_err().reason(),
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
    assert_eq!(joins(&links, &[]), BTreeMap::from(expected));
    // A lost GPU is no switch.
    let links = BTreeMap::from([(pci(1), vec![pci(3); 4]), (pci(2), vec![pci(3); 4])]);
    assert_eq!(joins(&links, &[pci(1), pci(2), pci(3)]), BTreeMap::new());
}
