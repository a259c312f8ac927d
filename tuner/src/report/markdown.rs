//! A database as a page in Markdown: one table an environment, one line a problem, and what it comes to.

use tgemm_db::{Environment, Verdict, key};

use super::overview::{Line, Mean, Section};
use super::{percent, time_us};

/// The page.
pub fn page(sections: &[Section]) -> String {
    let one = |section: &Section| heading(&section.environment) + &table(section) + &totals(&section.means());
    sections.iter().map(one).collect()
}

/// Text within a table: a bar would end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn heading(environment: &Environment) -> String {
    let builds: Vec<String> = environment.builds.iter().map(ToString::to_string).collect();
    let mut text = format!("## {}\n\ndriver {}; {}", environment.device, environment.driver, builds.join(", "));
    for (name, value) in &environment.vars {
        text += &format!("; {name}={value}");
    }
    text + "\n\n"
}

fn table(section: &Section) -> String {
    let vias = section.vias();
    let mut text = String::from("| problem |");
    vias.iter().for_each(|via| text += &format!(" {} us |", cell(via)));
    text +=
        " best other us | choice us | ratio | 95 % interval | verdict | of roofline | right/tried | choice |\n|---|";
    text += &"---:|".repeat(vias.len() + 4);
    text += "---|---:|---:|---|\n";
    section.lines.iter().for_each(|line| text += &row(line, &vias));
    text + "\n"
}

fn row(line: &Line, vias: &[&str]) -> String {
    let choice = &line.choice;
    let mut text = format!("| {} |", cell(&key::short(&choice.problem)));
    for via in vias {
        let time = choice.baselines.iter().find(|b| b.via == *via).map(|b| time_us(b.time_us));
        text += &format!(" {} |", time.unwrap_or_else(|| "-".into()));
    }
    let other = line.best_other.as_ref().map_or("-".into(), |(us, _)| time_us(*us));
    let name = if choice.verdict == Verdict::Faster { choice.solution.to_string() } else { "baseline".into() };
    text + &format!(
        " {other} | {} | {:.3} | {:.3}–{:.3} | {} | {} | {}/{} | {} |\n",
        time_us(choice.time_us),
        choice.ratio.estimate,
        choice.ratio.low,
        choice.ratio.high,
        choice.verdict,
        percent(line.roofline_share()),
        line.right,
        line.candidates,
        cell(&name),
    )
}

fn totals(means: &[Mean]) -> String {
    let mut text = String::from(
        "| | problems | faster | geometric mean of ratios | best ratio | geometric mean of roofline shares |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for mean in means {
        text += &format!(
            "| {} | {} | {} | {:.3} | {:.3} | {} |\n",
            cell(&mean.name),
            mean.problems,
            mean.faster,
            mean.ratio,
            mean.best_ratio,
            percent(mean.roofline_share)
        );
    }
    text + "\n"
}
