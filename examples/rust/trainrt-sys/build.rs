// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Finds libtrainrt by pkg-config, where PKG_CONFIG_PATH says or it is installed.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let found = Command::new("pkg-config")
        .args(["--variable=libdir", "trainrt"])
        .output()
        .expect("pkg-config is needed to find libtrainrt");
    let folder = String::from_utf8_lossy(&found.stdout).trim().to_string();
    assert!(
        found.status.success() && !folder.is_empty(),
        "pkg-config finds no trainrt: install libtrainrt-dev, or set PKG_CONFIG_PATH to the lib/pkgconfig of an archive"
    );
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=dylib=trainrt");
    // Read by the build script of the crate above as DEP_TRAINRT_LIBDIR.
    println!("cargo:libdir={folder}");
}
