//! What says who or where: home folders, names of users and hosts, network addresses. None of it goes into a bundle.

use std::net::Ipv6Addr;

use serde_json::Value;
use tgemm_db::{Build, Choice, Environment, Params, Recorded, Solution, Trial};

/// Names of accounts that many machines have: they say nothing about a person, and stand in folders and library names.
const COMMON_ACCOUNTS: [&str; 14] = [
    "root", "admin", "user", "ubuntu", "ec2-user", "jovyan", "runner", "build", "test", "rocm", "hip", "amd", "cuda",
    "nvidia",
];

/// Hosts that are no particular one.
const COMMON_HOSTS: [&str; 2] = ["localhost", "localdomain"];

/// Takes personal data out of texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// Home folders, longest first.
    homes: Vec<String>,
    /// Words with what stands in their place, longest first.
    words: Vec<(String, &'static str)>,
}

impl Redactor {
    /// For these home folders, users and hosts.
    pub fn new(homes: &[String], users: &[String], hosts: &[String]) -> Redactor {
        let mut homes: Vec<String> =
            homes.iter().map(|home| home.trim_end_matches('/').to_owned()).filter(|home| home.len() > 1).collect();
        let names_of_homes = homes.iter().filter_map(|home| home.rsplit('/').next()).map(str::to_owned);
        let users = users.iter().cloned().chain(names_of_homes).map(|user| (user, "<user>"));
        let users = users.filter(|(user, _)| !COMMON_ACCOUNTS.contains(&user.to_ascii_lowercase().as_str()));
        let labels = hosts.iter().filter_map(|host| host.split('.').next()).map(str::to_owned);
        let hosts = hosts.iter().cloned().chain(labels).map(|host| (host, "<host>"));
        let hosts = hosts.filter(|(host, _)| !COMMON_HOSTS.contains(&host.to_ascii_lowercase().as_str()));
        // A single letter would be found everywhere.
        let mut words: Vec<_> = users.chain(hosts).filter(|(word, _)| word.len() > 1).collect();
        homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        Redactor { homes, words }
    }

    /// For whoever runs this, on this machine.
    pub fn here() -> Redactor {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let all = |names: &[&str]| names.iter().filter_map(|name| var(name)).collect::<Vec<String>>();
        let mut hosts = all(&["HOSTNAME", "HOST"]);
        hosts.push(rustix::system::uname().nodename().to_string_lossy().into_owned());
        hosts.extend(std::fs::read_to_string("/etc/hostname").ok().map(|name| name.trim().to_owned()));
        Redactor::new(&all(&["HOME"]), &all(&["USER", "LOGNAME", "SUDO_USER"]), &hosts)
    }

    /// `text` without personal data.
    pub fn text(&self, text: &str) -> String {
        let mut text = self.homes.iter().fold(text.to_owned(), |text, home| replace_word(&text, home, "~"));
        for root in ["/home/", "/Users/"] {
            text = replace_homes(&text, root);
        }
        text = replace_word(&text, "/root", "~");
        text = self.words.iter().fold(text, |text, (word, instead)| replace_word(&text, word, instead));
        replace_addresses(&text)
    }

    /// Every text in a JSON value without personal data.
    pub fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.json(value)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (self.text(&name), self.json(value))).collect()
            }
            other => other,
        }
    }

    /// A solution without personal data: its names might be anything.
    pub fn solution(&self, solution: &Solution) -> Solution {
        let params = solution.params.iter().fold(Params::new(), |all, (name, value)| all.with(name, self.text(value)));
        let name: String = self.text(&solution.name);
        Solution { build: self.build(&solution.build).into(), name: name.into(), params, ..solution.clone() }
    }

    fn build(&self, build: &Build) -> Build {
        Build {
            library: self.text(&build.library),
            version: self.text(&build.version),
            revision: self.text(&build.revision),
        }
    }

    /// An environment without personal data.
    pub fn environment(&self, environment: &Environment) -> Environment {
        Environment {
            device: environment.device.clone(),
            builds: environment.builds.iter().map(|build| self.build(build)).collect(),
            driver: self.text(&environment.driver),
            vars: environment.vars.iter().map(|(name, value)| (name.clone(), self.text(value))).collect(),
        }
    }

    /// A recorded problem without personal data, and without the file that it was read from.
    pub fn recorded(&self, row: &Recorded) -> Recorded {
        let (library_file, library_build) = (self.text(&row.library_file), self.text(&row.library_build));
        Recorded { library_file, library_build, origin: None, ..row.clone() }
    }

    /// A trial without personal data: its reason may hold a worker's last words.
    pub fn trial(&self, trial: &Trial) -> Trial {
        let mut clean = Trial { solution: self.solution(&trial.solution), ..trial.clone() };
        clean.outcome.detail = self.text(&trial.outcome.detail);
        clean.baseline_via = trial.baseline_via.as_deref().map(|via| self.text(via));
        clean
    }

    /// A choice without personal data, and without the file that it came from.
    pub fn choice(&self, choice: &Choice) -> Choice {
        let mut clean = Choice { solution: self.solution(&choice.solution), origin: None, ..choice.clone() };
        for baseline in &mut clean.baselines {
            baseline.solution = self.solution(&baseline.solution);
            baseline.via = self.text(&baseline.via);
        }
        clean
    }
}

/// Replaces `word` wherever it stands alone: no letter or digit before or behind it. Case does not matter.
fn replace_word(text: &str, word: &str, instead: &str) -> String {
    let (lower, word) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let starts_with_letter = word.starts_with(char::is_alphanumeric);
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in lower.match_indices(&word) {
        let end = at + word.len();
        let before = starts_with_letter && lower[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let behind = lower[end..].chars().next().is_some_and(char::is_alphanumeric);
        if !before && !behind && at >= from {
            out += &text[from..at];
            out += instead;
            from = end;
        }
    }
    out + &text[from..]
}

/// Replaces the home folders below `root` (`/home/`), whoever's they are.
fn replace_homes(text: &str, root: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(root) {
        let name = &rest[at + root.len()..];
        let end = name.find(|c: char| c == '/' || c.is_whitespace() || "\"':,;()[]{}<>|\\".contains(c));
        let end = end.unwrap_or(name.len());
        out += &rest[..at];
        out += if end > 0 { "~" } else { root };
        rest = &name[end..];
    }
    out + rest
}

/// Replaces IPv4, IPv6 and hardware addresses. A file's version (`libx.so.13.0.2.14`) is none.
fn replace_addresses(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let is_inner = before.is_some_and(|c: char| c.is_alphanumeric() || c == '_');
        let end = if is_part(first) {
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        } else {
            rest.find(is_part).unwrap_or(rest.len())
        };
        let token = &rest[..end];
        let behind = rest[end..].chars().next();
        let goes_on = behind.is_some_and(|c| c.is_alphanumeric() || c == '_');
        // A sentence may end behind an address, and a port may follow it.
        let bare = token.trim_matches('.').trim_end_matches(':');
        if is_part(first) && !is_inner && !goes_on && is_address(bare) {
            out += &token.replacen(bare, "<address>", 1);
        } else {
            out += token;
        }
        before = token.chars().next_back();
        rest = &rest[end..];
    }
    out
}

fn is_address(token: &str) -> bool {
    let host = token.split_once(':').map_or(token, |(host, port)| if port.contains(':') { token } else { host });
    let hardware: Vec<&str> = token.split(':').collect();
    let is_hardware = hardware.len() == 6 && hardware.iter().all(|part| part.len() == 2);
    let is_v4 = host.split('.').count() == 4 && host.split('.').all(|part| part.parse::<u8>().is_ok());
    is_v4 || is_hardware || (token.len() > 2 && token.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let own = |text: &str| vec![text.to_owned()];
        Redactor::new(&own("/scratch/people/zoe/"), &own("zoe.q"), &own("gpu-node7.lab.example.org"))
    }

    #[test]
    fn who_and_where_is_gone_and_the_rest_stays() {
        let cases = [
            ("/scratch/people/zoe/lib/libx.so", "~/lib/libx.so"),
            ("/home/ann/rocm/lib: bad", "~/rocm/lib: bad"),
            ("'/home/ann', /Users/bob", "'~', ~"),
            ("/root/.cache and /rooted", "~/.cache and /rooted"),
            ("Zoe.Q on GPU-NODE7", "<user> on <host>"),
            ("zoe_data of zoelogy", "<user>_data of zoelogy"),
            ("gpu-node7.lab.example.org:80", "<host>:80"),
            ("at 10.1.2.3:8080, fe80::1.", "at <address>, <address>."),
            ("de:ad:be:ef:00:01", "<address>"),
            ("hipBLASLt 1.2.1 (a1b2) 100201 std::sync 05:14:33", "hipBLASLt 1.2.1 (a1b2) 100201 std::sync 05:14:33"),
            ("libcublasLt.so.13.0.2.14 0000:c1:00.0 1.5e3", "libcublasLt.so.13.0.2.14 0000:c1:00.0 1.5e3"),
            ("/opt/rocm/lib", "/opt/rocm/lib"),
            ("Ünïcode ж /home/жук/x", "Ünïcode ж ~/x"),
        ];
        for (text, want) in cases {
            assert_eq!(redactor().text(text), want);
        }
    }

    #[test]
    fn common_accounts_and_letters_are_no_persons() {
        let names = ["rocm", "root", "x"].map(str::to_owned);
        let redactor = Redactor::new(&["/root".into(), "/".into()], &names, &["localhost".into()]);
        assert_eq!(redactor.text("root x /opt/rocm localhost ~ /lib"), "root x /opt/rocm localhost ~ /lib");
    }

    #[test]
    fn in_json_a_line_end_does_not_hide_a_name() {
        let value = serde_json::json!([{ "why": "died:\nzoe at\tgpu-node7" }, 1.5, null]);
        let clean = redactor().json(value).to_string();
        assert_eq!(clean, r#"[{"why":"died:\n<user> at\t<host>"},1.5,null]"#);
    }

    #[test]
    fn what_is_redacted_already_stays_so() {
        let text = redactor().text("/scratch/people/zoe/x on gpu-node7 by zoe at 10.0.0.1 with fe80::2");
        assert_eq!(redactor().text(&text), text);
    }
}
