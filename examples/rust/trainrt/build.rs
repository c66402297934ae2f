// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The examples find the library where it was when they were linked.
fn main() {
    let folder = std::env::var("DEP_TRAINRT_LIBDIR").expect("set by trainrt-sys");
    println!("cargo:rustc-link-arg-examples=-Wl,-rpath,{folder}");
}
