//! The double stays loaded once it is: it has state for the whole process, and its threads' storage outlives a `dlclose`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
