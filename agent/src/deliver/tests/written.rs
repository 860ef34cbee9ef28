//! What is written.

use super::*;

#[test]
fn a_table_and_its_generation_appear_with_mode_and_group() {
    let node = Node::new();
    fs::set_permissions(&node.volume, fs::Permissions::from_mode(0o2777)).unwrap();
    let content = b"{\"status\":\"completed\"}";
    let root = nix::unistd::geteuid().is_root();
    if root {
        nix::unistd::chown(&node.volume, None, Some(2000.into())).unwrap();
    } else {
        eprintln!("not root: other groups are left out");
    }
    let group = fs::metadata(&node.volume).unwrap().gid();
    for (order, mode, gid) in [
        (order(1, content), 0o644, group),
        (
            Delivery { mode: 0o440, group: root.then_some(3000), ..order(2, content) },
            0o440,
            if root { 3000 } else { group },
        ),
    ] {
        node.writer().write(&order, &pack(content), &|| ()).unwrap();
        assert_eq!(node.names(), BOTH);
        assert_eq!(fs::read(node.table()).unwrap(), content);
        let beside = node.volume.join(BOTH[1]);
        assert_eq!(fs::read_to_string(&beside).unwrap(), format!("{}\n", order.generation));
        for path in [node.table(), beside] {
            let found = fs::symlink_metadata(path).unwrap();
            assert_eq!((found.mode() & 0o7777, found.gid(), found.nlink()), (mode, gid, 1));
        }
    }
    node.assert_nothing_outside_changed();
}

#[test]
fn a_symbolic_link_anywhere_on_the_way_is_refused() {
    for walk in [Walk::Openat2, Walk::Steps] {
        for up in 0..4 {
            let mut node = Node::new();
            let step = node.volume.ancestors().nth(up).unwrap().to_owned();
            let moved = node.outside().join("moved");
            fs::rename(&step, &moved).unwrap();
            symlink(&moved, &step).unwrap();
            // The volume is now behind a link: all of it is outside.
            node.volume = PathBuf::new();
            node.before = node.others();
            let written = node.writer_walking(walk).write(&order(1, b"x"), &pack(b"x"), &|| ());
            let error = written.unwrap_err();
            assert_eq!(error.reason(), "symlink-in-path", "{step:?} {error}");
            let name = step.file_name().unwrap().to_str().unwrap();
            assert!(error.to_string().contains(name), "{error} names {name}");
            node.assert_nothing_outside_changed();
        }
    }
}

#[test]
fn a_volume_that_is_missing_is_not_made() {
    for walk in [Walk::Openat2, Walk::Steps] {
        for up in 0..5 {
            let mut node = Node::new();
            let step = node.volume.ancestors().nth(up).unwrap().to_owned();
            fs::remove_dir_all(&step).unwrap();
            node.before = node.others();
            let written = node.writer_walking(walk).write(&order(1, b"x"), &pack(b"x"), &|| ());
            let error = written.unwrap_err();
            assert_eq!((error.reason(), error.is_early()), ("volume-missing", true), "{step:?}");
            node.assert_nothing_outside_changed();
        }
    }
    let node = Node::new();
    fs::remove_dir(&node.volume).unwrap();
    fs::write(&node.volume, "a file").unwrap();
    assert_eq!(node.refused(&order(1, b"x"), &pack(b"x")), "not-a-directory");
}

#[test]
fn what_is_in_place_of_the_file_is_replaced_and_never_opened() {
    type Plant = fn(&Node, &Path);
    let plants: [(&str, Plant); 5] = [
        ("link", |node, at| symlink(node.outside().join("shadow"), at).unwrap()),
        ("dangling link", |node, at| symlink(node.outside().join("made"), at).unwrap()),
        ("hard link", |node, at| fs::hard_link(node.outside().join("shadow"), at).unwrap()),
        ("pipe", |_, at| nix::unistd::mkfifo(at, Mode::S_IRWXU).unwrap()),
        ("huge file", |_, at| fs::File::create(at).unwrap().set_len(1 << 40).unwrap()),
    ];
    for (what, plant) in plants {
        for name in BOTH {
            let node = Node::new();
            plant(&node, &node.volume.join(name));
            node.writer().write(&order(1, b"new"), &pack(b"new"), &|| ()).unwrap();
            assert_eq!(fs::read(node.table()).unwrap(), b"new", "{what} at {name}");
            for name in BOTH {
                let kind = fs::symlink_metadata(node.volume.join(name)).unwrap().file_type();
                assert!(kind.is_file() && !kind.is_fifo(), "{what} at {name}");
            }
            node.assert_nothing_outside_changed();
        }
    }
}

#[test]
fn a_directory_in_place_of_the_file_is_refused() {
    for name in BOTH {
        for full in [false, true] {
            let node = Node::new();
            let planted = node.volume.join(name);
            fs::create_dir(&planted).unwrap();
            if full {
                fs::write(planted.join("x"), "").unwrap();
            }
            assert_eq!(node.refused(&order(1, b"x"), &pack(b"x")), "not-a-file");
            assert_eq!(node.names(), [name]);
            node.assert_nothing_outside_changed();
        }
        // Also when it comes at the last moment: nothing new stays.
        let node = Node::new();
        let late = || fs::create_dir(node.volume.join(name)).unwrap();
        let error = node.writer().write(&order(1, b"x"), &pack(b"x"), &late).unwrap_err();
        assert_eq!((error.reason(), node.names()), ("not-a-file", vec![name.to_owned()]));
    }
}

#[test]
fn a_directory_that_is_swapped_during_the_write_gets_nothing() {
    type Swap = fn(&Node, &Path);
    let swaps: [(&str, Swap); 3] = [
        ("directory", |node, _| fs::create_dir(&node.volume).unwrap()),
        ("link", |node, _| symlink(node.outside(), &node.volume).unwrap()),
        ("nothing", |_, _| ()),
    ];
    for (what, swap) in swaps {
        for walk in [Walk::Openat2, Walk::Steps] {
            let node = Node::new();
            let away = node.volume.parent().unwrap().join("away");
            let meanwhile = || {
                fs::rename(&node.volume, &away).unwrap();
                swap(&node, &away);
            };
            let writer = node.writer_walking(walk);
            let error = writer.write(&order(1, b"x"), &pack(b"x"), &meanwhile).unwrap_err();
            assert_eq!(error.reason(), "directory-swapped", "{what}");
            assert_eq!(names_in(&away), Vec::<String>::new(), "{what}");
            assert_eq!(names_in(&node.outside()), ["shadow"], "{what}");
            if what == "directory" {
                assert_eq!(node.names(), Vec::<String>::new());
            }
        }
    }
}

#[test]
fn a_temporary_file_that_is_swapped_is_noticed() {
    let node = Node::new();
    let meanwhile = || {
        for name in node.names() {
            let path = node.volume.join(name);
            fs::remove_file(&path).unwrap();
            symlink(node.outside().join("shadow"), &path).unwrap();
        }
    };
    let written = node.writer().write(&order(1, b"x"), &pack(b"x"), &meanwhile);
    assert_eq!(written.unwrap_err().reason(), "file-swapped");
    node.assert_nothing_outside_changed();
}

#[test]
fn a_blob_that_is_not_what_was_ordered_leaves_the_old_table() {
    let node = Node::new();
    node.writer().write(&order(1, b"old"), &pack(b"old"), &|| ()).unwrap();
    let (inner, good) = (frame(b"new"), twice(b"new"));
    let repeated = |frame: &[u8]| frame.repeat(2);
    let order = order(2, b"new");
    let as_ordered = |frame: &[u8]| sealed(&Digest::of(b"new"), frame);
    let mut damaged = as_ordered(&good);
    damaged[SEAL + 8] ^= 1;
    for (packed, reason) in [
        (pack(b"other"), "digest-mismatch"),
        (pack(b""), "digest-mismatch"),
        (damaged, "digest-mismatch"),
        (vec![b'x'; 100], "digest-mismatch"),
        (b"plain".to_vec(), "bad-blob"),
        (Vec::new(), "bad-blob"),
        (as_ordered(b"plain"), "bad-blob"),
        (as_ordered(&inner), "bad-blob"),
        (as_ordered(&frame(b"")), "bad-blob"),
        (as_ordered(&good[..good.len() - 1]), "bad-blob"),
        (as_ordered(&repeated(&good)), "bad-blob"),
        (as_ordered(&frame(&repeated(&inner))), "bad-blob"),
        (as_ordered(&frame(&inner[..inner.len() - 5])), "bad-blob"),
        (as_ordered(&[frame(&inner[..9]), frame(&inner[9..])].concat()), "bad-blob"),
        (as_ordered(&frame(&bomb(LARGEST_TABLE + 2))), "too-large"),
        (as_ordered(&frame(&bomb(LARGEST_TABLE))), "bad-blob"),
        (as_ordered(&frame(&bomb(3))), "bad-blob"),
    ] {
        assert_eq!(node.refused(&order, &packed), reason);
        assert_eq!(node.names(), BOTH);
        assert_eq!(fs::read(node.table()).unwrap(), b"old");
        assert_eq!(fs::read_to_string(node.volume.join(BOTH[1])).unwrap(), "1\n");
    }
    node.assert_nothing_outside_changed();
}

/// A small frame that unpacks to more than any table, and says another size.
fn bomb(says: u64) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new().content_size(Some(says));
    let mut packer = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    packer.write_all(&vec![b'x'; LARGEST_TABLE as usize + 2]).unwrap();
    packer.flush().unwrap();
    let frame = [packer.get_ref().as_slice(), &[0; 4]].concat();
    assert!((frame.len() as u64) < LARGEST_TABLE / 100);
    frame
}

#[test]
fn what_a_crash_left_is_removed_by_the_next_delivery() {
    let node = Node::new();
    let left = [".ranktable.json.0123456789abcdef", ".ranktable.json.generation.0123456789abcdef"];
    let kept = [
        ".other.json.0123456789abcdef",
        ".ranktable.json.0123456789abcdeg",
        ".ranktable.json.short",
        "ranktable.json.bak",
    ];
    for name in left.iter().chain(&kept) {
        fs::write(node.volume.join(name), "part").unwrap();
    }
    node.writer().write(&order(1, b"x"), &pack(b"x"), &|| ()).unwrap();
    let mut wanted: Vec<&str> = kept.iter().chain(&BOTH).copied().collect();
    wanted.sort();
    assert_eq!(node.names(), wanted);
}

#[test]
fn a_table_is_removed_only_if_it_is_the_one_that_was_written() {
    let node = Node::new();
    let writer = node.writer();
    let (print, _) = writer.write(&order(1, b"x"), &pack(b"x"), &|| ()).unwrap();
    assert!(writer.is_there(&place(), &print).unwrap());
    fs::write(node.volume.join("mine"), "the pod's own").unwrap();
    fs::rename(node.volume.join("mine"), node.table()).unwrap();
    assert!(!writer.is_there(&place(), &print).unwrap());
    assert!(!writer.remove(&place(), &print).unwrap());
    assert_eq!(fs::read(node.table()).unwrap(), b"the pod's own");
    let (print, _) = writer.write(&order(2, b"y"), &pack(b"y"), &|| ()).unwrap();
    assert!(writer.remove(&place(), &print).unwrap());
    assert_eq!(node.names(), Vec::<String>::new());
    node.assert_nothing_outside_changed();
}

#[test]
fn what_is_replaced_lives_until_the_new_table_can_be_read() {
    let node = Node::new();
    let writer = node.writer();
    writer.write(&order(1, b"old"), &pack(b"old"), &|| ()).unwrap();
    // The old one's number is free for another file as soon as it has ended.
    let old = fs::metadata(node.table()).unwrap().ino();
    let held = |inode: u64| {
        let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        open.filter_map(|one| fs::metadata(one.path()).ok()).any(|found| found.ino() == inode)
    };
    assert!(!held(old));
    let (_, replaced) = writer.write(&order(2, b"new"), &pack(b"new"), &|| ()).unwrap();
    assert_eq!(fs::read(node.table()).unwrap(), b"new");
    assert!(held(old));
    drop(replaced);
    assert!(!held(old));
    // A pipe that the pod has put there is not opened, or this would wait for its other end.
    fs::remove_file(node.table()).unwrap();
    nix::unistd::mkfifo(&node.table(), Mode::S_IRUSR).unwrap();
    writer.write(&order(3, b"third"), &pack(b"third"), &|| ()).unwrap();
    assert_eq!(fs::read(node.table()).unwrap(), b"third");
    node.assert_nothing_outside_changed();
}

#[test]
fn a_reader_never_sees_a_torn_or_mixed_table() {
    let node = Node::new();
    let contents = [b"a".repeat(300_000), b"b".repeat(100_000)];
    let packed = contents.each_ref().map(|content| pack(content));
    let writer = node.writer();
    writer.write(&order(0, &contents[0]), &packed[0], &|| ()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = [0; 2];
            while !done.load(Ordering::Relaxed) {
                let read = fs::read(node.table()).unwrap();
                let which = contents.iter().position(|content| *content == read);
                seen[which.expect("a whole table")] += 1;
            }
            seen
        });
        for generation in 1..150 {
            let which = generation % 2;
            let order = order(generation as u64, &contents[which]);
            writer.write(&order, &packed[which], &|| ()).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        let seen = reader.join().unwrap();
        assert!(seen.iter().sum::<i32>() > 0, "{seen:?}");
    });
}

/// Runs in a thread with mounts of its own, if this machine lets it.
fn with_mounts(test: impl FnOnce() + Send) {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let able = || -> nix::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| match able() {
            Ok(()) => test(),
            Err(error) => eprintln!("left out, this machine does not let us mount: {error}"),
        });
    });
}

fn mount_tmpfs(at: &Path, options: &str, remount_read_only: bool) {
    use nix::mount::{MsFlags, mount};
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
    if remount_read_only {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(None::<&str>, at, None::<&str>, flags, Some(options)).unwrap();
    }
}

#[test]
fn a_full_disk_leaves_the_old_table_and_no_rest() {
    with_mounts(|| {
        let node = Node::new();
        mount_tmpfs(&node.volume, "size=256k,mode=0777", false);
        node.writer().write(&order(1, b"old"), &pack(b"old"), &|| ()).unwrap();
        let large = b"x".repeat(1 << 20);
        assert_eq!(node.refused(&order(2, &large), &pack(&large)), "disk-full");
        assert_eq!(node.names(), BOTH);
        assert_eq!(fs::read(node.table()).unwrap(), b"old");
        // Not even a file can be made.
        let mut filler = fs::File::create(node.volume.join("filler")).unwrap();
        while std::io::Write::write(&mut filler, &[0; 4096]).is_ok_and(|n| n > 0) {}
        assert_eq!(node.refused(&order(2, b"new"), &pack(b"new")), "disk-full");
        assert_eq!(fs::read(node.table()).unwrap(), b"old");
        node.assert_nothing_outside_changed();
    });
}

#[test]
fn a_read_only_disk_is_told() {
    with_mounts(|| {
        let node = Node::new();
        mount_tmpfs(&node.volume, "size=256k,mode=0777", true);
        let written = node.writer().write(&order(1, b"x"), &pack(b"x"), &|| ());
        let error = written.unwrap_err();
        assert_eq!(error.reason(), "read-only");
        assert!(error.to_string().contains("mount the kubelet's directory writable"), "{error}");
        assert_eq!(node.names(), Vec::<String>::new());
    });
}

#[test]
fn each_answer_of_the_system_has_its_own_reason() {
    use nix::errno::Errno;
    for (error, reason) in [
        (Errno::ENOSPC, "disk-full"),
        (Errno::EROFS, "read-only"),
        (Errno::EDQUOT, "quota"),
        (Errno::EACCES, "denied"),
        (Errno::EPERM, "denied"),
        (Errno::EIO, "io"),
        (Errno::EMFILE, "io"),
    ] {
        let error = WriteError::from_errno("writing", error);
        assert_eq!((error.reason(), error.is_early()), (reason, false), "{error}");
    }
}

/// Prints what a delivery costs beside a plain write, with and without waiting for the disk; asserts only the content.
#[test]
fn a_small_table_with_and_without_sync() {
    let node = Node::new();
    let host = Host::at(node.folder.path());
    let content = b"{\"rank_id\":\"0\"},".repeat(480);
    let (packed, plain) = (pack(&content), node.folder.path().join("plain"));
    let median = |write: &dyn Fn(u64)| {
        let mut times: Vec<_> = (1..=21)
            .map(|generation| {
                let begun = std::time::Instant::now();
                write(generation);
                begun.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    let plainly = median(&|_| fs::write(&plain, &content).unwrap());
    for sync in [false, true] {
        let writer = Writer::new(Volumes::new(host.clone(), "/var/lib/kubelet"), sync);
        let ours = median(&|generation| {
            writer.write(&order(generation, &content), &packed, &|| ()).unwrap();
        });
        let ratio = ours.as_secs_f64() / plainly.as_secs_f64();
        println!(
            "{} bytes, sync {sync}: {ours:?}, plain {plainly:?}, ratio {ratio:.1}",
            content.len()
        );
        assert_eq!(fs::read(node.table()).unwrap(), content);
    }
}
