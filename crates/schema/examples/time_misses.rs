//! Lists what a table of time words misses, for those who write tables.
//!
//! `cargo run --release -p mem-schema --example time_misses -- <code> [dates|scenarios|TEXT AT]`. The table is read from
//! `crates/schema/time/<code>.toml` when the program starts: a changed table needs no build.

#[path = "../tests/time_data/mod.rs"]
mod time_data;

use std::{env, error::Error, fs};

use mem_schema::{
    moment::Moment,
    time::resolve::{Hemisphere, Table},
};
use time_data::percent;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let code = arguments.first().ok_or("which language?")?;
    let file = format!("{}/time/{code}.toml", env!("CARGO_MANIFEST_DIR"));
    let table = Table::parse(&fs::read_to_string(&file)?)?;
    let resolve = |text: &str, at: &Moment| table.resolve(text, Some(at), Hemisphere::Northern);
    let what = arguments.get(1).map_or("", String::as_str);
    if let Some(at) = arguments.get(2) {
        for found in resolve(what, &at.parse()?) {
            println!("{:?} {:?} sure={}", found.words, show(&found), found.sure);
        }
        return Ok(());
    }
    if what != "scenarios" {
        let outcomes = time_data::sentences(code, &resolve);
        let hits = outcomes.iter().filter(|of| of.is_hit()).count();
        for of in outcomes.iter().filter(|of| !of.is_hit()) {
            println!(
                "{} | {} | {} | want {:?} | got {:?} {:?}",
                of.line.reference,
                of.line.input,
                of.line.phrase,
                of.wanted(),
                of.words,
                of.got
            );
        }
        println!(
            "{code} dates: {hits} of {} ({:.1} %)",
            outcomes.len(),
            percent(hits, outcomes.len())
        );
    }
    if what != "dates" {
        let labelled = time_data::labelled(code, &resolve);
        for of in labelled.iter().filter(|of| of.origin().is_none()) {
            let found = of.said.iter().flat_map(|turn| &turn.found);
            let found: Vec<_> = found.map(|of| (of.words.as_str(), show(of))).collect();
            let at: Vec<_> = of.said.iter().filter_map(|turn| turn.at).collect();
            println!(
                "{} {} | want {} | at {} | {} | got {found:?}",
                of.scenario,
                of.record,
                of.time,
                at.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
                of.texts.join(" || ").replace('\n', " ")
            );
        }
        let said = labelled.iter().filter(|of| of.is_said()).count();
        let allowed = labelled.iter().filter(|of| of.origin().is_some()).count();
        println!(
            "{code} scenarios: of {} by words {said} ({:.1} %), by all evidence {allowed} ({:.1} %)",
            labelled.len(),
            percent(said, labelled.len()),
            percent(allowed, labelled.len())
        );
    }
    Ok(())
}

fn show(found: &mem_schema::time::resolve::Found) -> Vec<String> {
    found.candidates.iter().map(ToString::to_string).collect()
}
