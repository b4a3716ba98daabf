//! The library for C: files that programs need to run with it, and files to compile them. It keeps out how packages are named and
//! laid out.

use crate::contents::{Contents, read};
use crate::program::Program;
use crate::release::Release;

/// Name by which programs load it (SONAME), which build.rs of `c_library` writes into it.
pub(crate) const SONAME: &str = "libselvedge.so.0";

/// The library itself, in the folder of the system's libraries.
pub(crate) fn runtime(release: &Release, library: &Program, folder: &str) -> Result<Contents, String> {
    let mut contents = Contents::default();
    let file = format!("{SONAME}.{}", release.version);
    contents.file(&format!("{folder}/{file}"), 0o644, read(&library.path)?);
    contents.link(&format!("{folder}/{SONAME}"), &file);
    Ok(contents)
}

/// Header, link for the linker, pkg-config file and examples. The engine for fio is a source: each version of fio loads only what
/// was compiled with its own headers.
pub(crate) fn development(release: &Release, folder: &str, documents: &str) -> Result<Contents, String> {
    let mut contents = Contents::default();
    contents.link(&format!("{folder}/libselvedge.so"), SONAME);
    contents.file(&format!("{folder}/pkgconfig/selvedge.pc"), 0o644, pkg_config(release, folder)?);
    let source = |path: &str| release.file(&format!("crates/c_library/{path}"));
    contents.file("usr/include/selvedge.h", 0o644, source("include/selvedge.h")?);
    contents.file(&format!("{documents}/c-library.md"), 0o644, release.file("docs/c-library.md")?);
    contents.file(&format!("{documents}/examples/volume.py"), 0o644, source("examples/volume.py")?);
    contents.file(&format!("{documents}/examples/fio/selvedge.c"), 0o644, source("fio/selvedge.c")?);
    Ok(contents)
}

fn pkg_config(release: &Release, folder: &str) -> Result<Vec<u8>, String> {
    let text = String::from_utf8(release.file("crates/c_library/selvedge.pc.in")?);
    let text = text.map_err(|_| "selvedge.pc.in is not text".to_owned())?;
    let text = text.replace("@PREFIX@", "/usr").replace("@LIBDIR@", &format!("/{folder}"));
    Ok(text.replace("@INCLUDEDIR@", "/usr/include").replace("@VERSION@", &release.version).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::Kind;

    fn paths(contents: &Contents) -> Vec<String> {
        contents
            .entries()
            .filter(|entry| !matches!(entry.kind, Kind::Folder))
            .map(|entry| entry.path.clone())
            .collect()
    }

    #[test]
    fn programs_are_linked_with_the_name_that_they_load() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let release =
            Release { version: "1.2.3".into(), revision: "1", commit: String::new(), date: 0, root };
        let contents = development(&release, "usr/lib64", "usr/share/doc/x").expect("files of the checkout");
        let expected = [
            "usr/include/selvedge.h",
            "usr/lib64/libselvedge.so",
            "usr/lib64/pkgconfig/selvedge.pc",
            "usr/share/doc/x/c-library.md",
            "usr/share/doc/x/examples/fio/selvedge.c",
            "usr/share/doc/x/examples/volume.py",
        ];
        assert_eq!(paths(&contents), expected);
        let text = String::from_utf8(pkg_config(&release, "usr/lib64").expect("the template")).expect("text");
        assert!(text.contains("libdir=/usr/lib64\n") && text.contains("Version: 1.2.3\n"), "{text}");
        assert!(!text.contains('@'), "{text}");
        let build = release.file("crates/c_library/build.rs").expect("the build script");
        assert!(String::from_utf8_lossy(&build).contains(&format!("-soname,{SONAME}\"")));
    }
}
