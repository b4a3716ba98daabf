//! Name of the shared library for the dynamic linker, which is that of its installed file.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libselvedge.so.0");
}
