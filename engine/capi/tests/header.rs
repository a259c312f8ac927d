//! The checked-in header is what the sources say. `TGEMM_BLESS=1` writes it.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_config(config).with_src(folder.join("src/lib.rs")).generate().unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    assert!(made.contains("tgemm_site_lookup") && made.contains("TGEMM_DTYPE_BF16 = 4"), "{made}");
    let header = folder.join("include/tgemm.h");
    if std::env::var_os("TGEMM_BLESS").is_some_and(|bless| bless == "1") {
        fs::write(&header, &made).unwrap();
    }
    let have = fs::read_to_string(&header).unwrap_or_default();
    let differs = have.lines().zip(made.lines()).position(|(have, made)| have != made);
    let line = differs.unwrap_or(have.lines().count().min(made.lines().count())) + 1;
    assert!(have == made, "include/tgemm.h:{line} is not what the sources say; TGEMM_BLESS=1 writes it anew");
}

/// Every exported function, type, field and constant has a text in the header.
#[test]
fn everything_in_the_header_is_documented() {
    let header = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/include/tgemm.h")).unwrap();
    let lines: Vec<&str> = header.lines().collect();
    let mut bare = Vec::new();
    let mut seen = 0;
    for (at, line) in lines.iter().enumerate().skip(1) {
        let inner = line.trim();
        let is_field =
            line.starts_with("  ") && (inner.ends_with(';') || inner.ends_with(',')) && !inner.starts_with('*');
        let is_continued = lines[at - 1].trim_end().ends_with([',', '(']) && line.starts_with("   ");
        let is_item = ["typedef struct ", "enum ", "struct "].iter().any(|start| line.starts_with(start))
            || (line.contains(" tgemm_") || line.contains("*tgemm_")) && !line.starts_with(' ');
        if (is_field || is_item) && !is_continued && !inner.starts_with("typedef int32_t") {
            seen += 1;
            if lines[at - 1].trim() != "*/" {
                bare.push(format!("{}: {line}", at + 1));
            }
        }
    }
    assert!(seen > 150, "only {seen} lines were looked at: is the scan still right?");
    assert!(bare.is_empty(), "no text above:\n{}", bare.join("\n"));
}
