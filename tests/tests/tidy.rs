//! What a reviewer would otherwise have to look for: sizes, stray marks, links, and which way crates point.
//!
//! Each rule lists all its offenders at once. Nothing here compiles or runs our code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this holds more than one idea.
const FILE_LINES_MAX: usize = 500;

/// Which of our crates a crate may depend on (docs/ARCHITECTURE.md). `?` marks what must be optional.
const ARROWS: &[(&str, &[&str])] = &[
    ("tgemm-db", &[]),
    ("tgemm-vendor", &["tgemm-db"]),
    ("tgemm-kernels", &["tgemm-db", "tgemm-vendor"]),
    ("tgemm-configs", &[]),
    ("tgemm-lookup", &["tgemm-db", "tgemm-configs", "?tgemm-kernels"]),
    ("tgemm-recorder", &["tgemm-db"]),
    ("tgemm-shim", &["tgemm-db", "tgemm-vendor", "tgemm-kernels", "tgemm-lookup", "tgemm-recorder"]),
    ("tgemm-decode", &["tgemm-db", "tgemm-configs", "tgemm-kernels", "tgemm-lookup", "tgemm-recorder"]),
    ("tgemm-capi", &["tgemm-db", "tgemm-kernels", "tgemm-lookup", "tgemm-recorder"]),
    (
        "tgemm-tuner",
        &[
            "tgemm-db",
            "tgemm-configs",
            "tgemm-vendor",
            "tgemm-kernels",
            "tgemm-lookup",
            "tgemm-recorder",
            "tgemm-decode",
        ],
    ),
    ("tgemm-python", &["tgemm-db", "tgemm-vendor", "tgemm-kernels", "tgemm-lookup", "tgemm-recorder"]),
    ("tgemm-tests", &[]),
    ("tgemm-rocm-double", &[]),
    ("tgemm-fuzz", &["tgemm-capi", "tgemm-db", "tgemm-lookup"]),
    ("tgemm-hip-versions", &[]),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Every file of the repository whose name ends in `ending`, with its path from the root.
fn files(ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let hidden = name.starts_with('.') && name != ".ci";
            if path.is_symlink() || hidden || name == "target" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(ending) {
                let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                found.push((path.strip_prefix(root()).unwrap().to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {ending} files below {}", root().display());
    found
}

fn none(rule: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

#[test]
fn no_source_file_is_too_long() {
    let long = |(path, text): &(String, String)| {
        let lines = text.lines().count();
        (lines > FILE_LINES_MAX).then(|| format!("{path}: {lines} lines"))
    };
    let offenders: Vec<_> = files(".rs").iter().filter_map(long).collect();
    none(&format!("files over {FILE_LINES_MAX} lines"), &offenders);
}

/// Is this a file that only tests compile: in a `tests` or `benches` folder, or named as tests are?
fn is_test_file(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let (name, folders) = parts.split_last().unwrap();
    folders.iter().any(|folder| *folder == "tests" || *folder == "benches")
        || *name == "tests.rs"
        || name.ends_with("_tests.rs")
}

/// The lines of a source file that are not comments and not under `#[cfg(test)]`, with their 1-based numbers.
///
/// rustfmt makes this sound without a parser: the item under the attribute ends on its own first line (`mod tests;`),
/// or at the first `}` that stands as far in as the attribute.
fn shipped_lines(text: &str) -> Vec<(usize, &str)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().enumerate();
    let mut shipped = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            for (_, item) in lines.by_ref() {
                let begins = indent(item) == indent(line) && !item.trim().is_empty() && !item.trim().starts_with("#[");
                let ends = ['}', ';'].iter().any(|end| item.trim_end().ends_with(*end));
                if begins && ends {
                    break;
                }
            }
        } else if !line.trim_start().starts_with("//") {
            shipped.push((number + 1, line));
        }
    }
    shipped
}

#[test]
fn shipped_code_does_not_unwrap() {
    let marks = [".unwrap()", ".expect(", ".unwrap_err()", ".expect_err("];
    let mut offenders = Vec::new();
    for (path, text) in files(".rs") {
        if is_test_file(&path) || path.starts_with("tests/") {
            continue;
        }
        for (number, line) in shipped_lines(&text) {
            if marks.iter().any(|mark| line.contains(mark)) {
                offenders.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    none("a panic that input may reach; return a typed error", &offenders);
}

#[test]
fn test_modules_are_told_from_shipped_code() {
    let source = "fn a() {\n    b\n}\n#[cfg(test)]\n#[path = \"x\"]\nmod t {\n    fn c() {}\n}\nfn d() {}\n#[cfg(test)]\nmod u;\n// e\nf\n";
    let numbers: Vec<_> = shipped_lines(source).iter().map(|line| line.0).collect();
    assert_eq!(numbers, [1, 2, 3, 9, 13]);
    assert!(is_test_file("tuner/src/models/tests/real.rs") && is_test_file("tuner/src/race_tests.rs"));
    assert!(!is_test_file("tuner/src/filter.rs"));
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file does not find itself.
    let marks =
        [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["todo", "!("].concat(), ["unimplemented", "!("].concat()];
    let mut offenders = Vec::new();
    let ours = [".rs", ".md", ".toml", "run"].into_iter().flat_map(files);
    for (path, text) in ours {
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark.as_str())) {
                offenders.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none("unfinished work; finish it or file an issue", &offenders);
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text outside of code blocks and `code`.
fn prose(markdown: &str) -> String {
    let mut in_block = false;
    let mut text = String::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            text.extend(line.split('`').step_by(2));
        }
        text.push('\n');
    }
    text
}

/// GitHub's anchors of a page's headings.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let headings = markdown.lines().filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#'));
    let slug = |heading: &str| {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(slug).collect()
}

#[test]
fn links_between_pages_resolve() {
    let mut offenders = Vec::new();
    let mut links = 0;
    for (path, text) in files(".md") {
        let folder = Path::new(&path).parent().unwrap();
        let page = prose(&text);
        for (number, line) in page.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
                    continue;
                }
                links += 1;
                let (file, anchor) =
                    target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
                let aim: PathBuf = if file.is_empty() { root().join(&path) } else { root().join(folder).join(file) };
                let found = aim.exists()
                    && anchor.is_none_or(|anchor| {
                        fs::read_to_string(&aim).is_ok_and(|page| anchors(&page).contains(anchor))
                    });
                if !found {
                    offenders.push(format!("{path}:{}: {target}", number + 1));
                }
            }
        }
    }
    none("links that lead nowhere", &offenders);
    assert!(links > 0, "no links between pages were found: is the scan still right?");
}

/// A manifest's lines by section, and the name of its package.
fn manifest(text: &str) -> (String, BTreeMap<String, Vec<&str>>) {
    let mut sections: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => section = name.to_owned(),
            None => sections.entry(section.clone()).or_default().push(line),
        }
    }
    let name = sections.get("package").into_iter().flatten().find_map(|line| line.strip_prefix("name = "));
    (name.unwrap_or("").trim_matches('"').to_owned(), sections)
}

#[test]
fn crates_point_one_way() {
    let arrows: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut offenders = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, text) in files("Cargo.toml") {
        let (name, sections) = manifest(&text);
        if name.is_empty() {
            continue;
        }
        let Some(allowed) = arrows.get(name.as_str()) else {
            offenders.push(format!("{path}: crate {name} has no place in the arrows"));
            continue;
        };
        if sections.get("lints").is_none_or(|lines| !lines.contains(&"workspace = true")) {
            offenders.push(format!("{path}: does not take the workspace's lints"));
        }
        let shipped = |section: &str| section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
        for line in sections.iter().filter(|(section, _)| shipped(section)).flat_map(|(_, lines)| lines) {
            let on = line.split(['.', ' ', '=']).next().unwrap();
            let optional = format!("?{on}");
            let fits =
                allowed.contains(&on) || (line.contains("optional = true") && allowed.contains(&optional.as_str()));
            if on.starts_with("tgemm-") && !fits {
                offenders.push(format!("{path}: {name} may not depend on {on} here"));
            }
        }
        seen.insert(name);
    }
    offenders
        .extend(arrows.keys().filter(|name| !seen.contains(**name)).map(|name| format!("{name} is not in the tree")));
    none("arrows between crates", &offenders);
}

#[test]
fn the_changelog_is_kept() {
    let changelog = read("CHANGELOG.md");
    let unreleased = changelog.split_once("\n## Unreleased\n").expect("CHANGELOG.md has a section '## Unreleased'").1;
    let unreleased = unreleased.split("\n## ").next().unwrap();
    for section in ["Features", "Changes", "Bugfixes", "Formats and ABI"] {
        assert!(unreleased.contains(&format!("\n### {section}\n")), "Unreleased has no section '### {section}'");
    }
}

#[test]
fn the_readme_and_ci_run_the_same_commands() {
    let (readme, ci) = (read("README.md"), read(".ci/run"));
    for (shown, run) in [
        ("cargo test --workspace", "cargo test --locked --workspace"),
        // CI has it built already, for the tests, with the kernels optimised.
        ("cargo run --release --bin tune -- demo", "cargo run --locked --bin tune -- demo"),
    ] {
        assert!(readme.contains(shown), "README.md does not show `{shown}`");
        assert!(ci.contains(run), ".ci/run does not run `{run}`");
    }
}
