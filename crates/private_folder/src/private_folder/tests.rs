//! Files that take others' places, with a failure at each step, and folders that are not ours alone.

use std::cell::{Cell, RefCell};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

const STEPS: [Step; 5] = [Step::Create, Step::Write, Step::SyncFile, Step::Rename, Step::SyncFolder];

thread_local! {
    static FAILS: Cell<Option<Step>> = const { Cell::new(None) };
    static SEEN: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

/// Records a step, and makes it fail if it should.
pub(super) fn before(step: Step, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    // What is removed was never on the way to anything that counts.
    if step != Step::Remove {
        SEEN.with_borrow_mut(|seen| seen.push(step));
    }
    if FAILS.get() == Some(step) { Err(Errno::NOSPC.into()) } else { power::before(step, name, bytes) }
}

fn private() -> (tempfile::TempDir, PrivateFolder) {
    let scratch = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::make(&scratch.path().join("above/private")).unwrap();
    (scratch, folder)
}

fn names(folder: &PrivateFolder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn whatever_step_fails_the_old_or_the_new_content_is_there_whole_and_an_error_is_returned() {
    for had_one in [false, true] {
        for step in STEPS {
            let (_scratch, folder) = private();
            let old = had_one.then(|| b"the old one".to_vec());
            if let Some(old) = &old {
                folder.replace("file", old).unwrap();
            }
            FAILS.set(Some(step));
            let error = folder.replace("file", b"the new one, which is longer").unwrap_err();
            FAILS.set(None);
            assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
            let found = folder.read("file", 100).unwrap();
            if step == Step::SyncFolder {
                assert_eq!(found.as_deref(), Some(&b"the new one, which is longer"[..]));
            } else {
                assert_eq!(found, old, "{step:?}");
            }
            let left = usize::from(found.is_some());
            assert_eq!(names(&folder).len(), left, "{step:?} leaves nothing beside it");
            // The failure is over, and so is all that it did.
            folder.replace("file", b"the last one").unwrap();
            assert_eq!(folder.read("file", 100).unwrap().as_deref(), Some(&b"the last one"[..]));
        }
    }
}

#[test]
fn a_file_is_on_the_medium_before_it_has_its_name_and_its_name_before_it_counts() {
    let (_scratch, folder) = private();
    SEEN.take();
    folder.replace("file", b"content").unwrap();
    assert_eq!(SEEN.take(), STEPS);
    folder.remove("file").unwrap();
    folder.remove("file").unwrap();
    assert_eq!(SEEN.take(), [Step::SyncFolder; 2], "who removed it first may have failed at that");
    FAILS.set(Some(Step::SyncFolder));
    folder.replace("file", b"content").unwrap_err();
    let error = folder.remove("file").unwrap_err();
    FAILS.set(None);
    assert!(
        error.to_string().contains("cannot synchronize") && error.to_string().contains("make room"),
        "{error}"
    );
}

#[test]
fn what_an_end_left_behind_is_neither_read_nor_followed() {
    let (scratch, folder) = private();
    folder.replace("file", b"old").unwrap();
    let victim = scratch.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    // A process that ended before its commit; one that ended while it wrote; and links that another user left.
    let _ = std::mem::ManuallyDrop::new(folder.prepare("file", b"new").unwrap());
    assert_eq!(folder.read("file", 100).unwrap().as_deref(), Some(&b"old"[..]));
    let new = folder.path().join("file.new");
    for leave in [
        (|new, _| fs::write(new, "half a").unwrap()) as fn(&Path, &Path),
        |new, victim| symlink(victim, new).unwrap(),
        |new, victim| fs::hard_link(victim, new).unwrap(),
    ] {
        let _ = fs::remove_file(&new);
        leave(&new, &victim);
        folder.replace("file", b"newer").unwrap();
        assert_eq!(folder.read("file", 100).unwrap().as_deref(), Some(&b"newer"[..]));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!((names(&folder), mode(&folder.path().join("file"))), (vec!["file".to_owned()], 0o600));
    }
    fs::create_dir(&new).unwrap();
    assert!(folder.replace("file", b"x").unwrap_err().to_string().contains("cannot write"));
    assert_eq!(folder.read("file", 100).unwrap().as_deref(), Some(&b"newer"[..]));
}

#[test]
fn everything_that_is_made_is_its_owners_alone() {
    let (scratch, folder) = private();
    folder.replace("file", b"").unwrap();
    folder.open_in_place("lock").unwrap();
    for (name, expected) in [("", 0o700), ("..", 0o700), ("file", 0o600), ("lock", 0o600)] {
        assert_eq!(mode(&folder.path().join(name)), expected, "{name}");
    }
    // One of an older version.
    set_mode(&folder.path().join("file"), 0o644);
    set_mode(folder.path(), 0o755);
    assert!(folder.is_listed_by_others());
    folder.close_to_others().unwrap();
    folder.read("file", 0).unwrap();
    assert_eq!((mode(folder.path()), mode(&folder.path().join("file"))), (0o700, 0o600));
    drop(scratch);
}

#[test]
fn what_others_may_change_is_not_believed() {
    let (scratch, folder) = private();
    let file = folder.path().join("file");
    let reason = |name: &str| {
        let read = folder.read(name, 10).unwrap_err().to_string();
        let opened = folder.open_in_place(name).unwrap_err().to_string();
        assert_eq!(read, opened);
        read
    };
    fs::write(&file, "x").unwrap();
    for bad in [0o620, 0o602, 0o666] {
        set_mode(&file, bad);
        assert!(reason("file").contains(&format!("(mode {bad:o})")));
        assert!(reason("file").contains("then chmod 600"));
    }
    fs::rename(&file, scratch.path().join("elsewhere")).unwrap();
    set_mode(&scratch.path().join("elsewhere"), 0o600);
    symlink(scratch.path().join("elsewhere"), &file).unwrap();
    assert!(reason("file").contains("is a link"));
    fs::write(folder.path().join("long"), "more than ten bytes").unwrap();
    assert!(folder.read("long", 10).unwrap_err().to_string().contains("has more than 10 bytes"));
    if geteuid().is_root() {
        let foreign = folder.path().join("foreign");
        fs::write(&foreign, "").unwrap();
        std::os::unix::fs::chown(&foreign, Some(4711), None).unwrap();
        assert!(reason("foreign").contains("belongs to user 4711"));
    }
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let (scratch, folder) = private();
    let path = folder.path();
    for bad in [0o770, 0o707, 0o1777] {
        set_mode(path, bad);
        let error = PrivateFolder::make(path).unwrap_err().to_string();
        assert!(error.contains(&format!("(mode {bad:o})")) && error.contains("chmod 700"), "{error}");
    }
    set_mode(path, 0o755);
    PrivateFolder::open(path).expect("others may list it");
    let link = scratch.path().join("link");
    symlink(path, &link).unwrap();
    assert_eq!(PrivateFolder::make(&link).expect("a link of our own").path(), path);
    // Whose it is, for a user who is neither its owner nor root.
    let owner = fs::metadata(path).unwrap().uid();
    if owner == 0 {
        std::os::unix::fs::chown(path, Some(4711), None).unwrap();
        std::os::unix::fs::lchown(&link, Some(4711), None).unwrap();
    }
    for named in [path, &link] {
        let error = PrivateFolder::open_as(named, owner + 4712).unwrap_err().to_string();
        assert!(error.contains("belongs to user") && error.contains(&named.display().to_string()), "{error}");
    }
    fs::write(scratch.path().join("file"), "").unwrap();
    let error = PrivateFolder::make(&scratch.path().join("file")).unwrap_err().to_string();
    assert!(error.contains("is not a folder"), "{error}");
    assert!(PrivateFolder::open(&scratch.path().join("none")).unwrap_err().is_missing());
}
