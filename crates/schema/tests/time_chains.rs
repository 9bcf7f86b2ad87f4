//! Long chains of time expressions: what is found in them, and what it costs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use mem_schema::{
    moment::Moment,
    time::resolve::{Found, Language, Options, resolve},
};

/// Counts the bytes that each thread allocates, which tell more of work and memory than a clock does.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: all calls are passed on to the system's allocator; counting in cells without a destructor allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        HELD.set(HELD.get() + layout.size() as isize);
        MOST.set(MOST.get().max(HELD.get()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn read(text: &str) -> Vec<Found> {
    let at: Moment = "2024-06-15T10:30:00".parse().unwrap();
    let options = Options {
        language: Some(Language::English),
        ..Options::default()
    };
    resolve(text, Some(&at), &options)
}

/// Bytes that were allocated, and the most that were held, while `link` was read `count` times in a row.
fn cost(link: &str, count: usize) -> (usize, usize) {
    let text = link.repeat(count);
    let (allocated, held) = (ALLOCATED.get(), HELD.get());
    MOST.set(held);
    drop(read(&text));
    (ALLOCATED.get() - allocated, (MOST.get() - held) as usize)
}

/// Chains whose links go together with each other.
const MIXED: [&str; 6] = [
    "yesterday morning, last week, ",
    "today, this week, ",
    "in May, 2024, ",
    "from today to tomorrow, ",
    "every Monday and ",
    "Monday to Friday until ",
];

#[test]
fn the_same_words_in_a_row_are_each_found() {
    for (link, words) in [
        ("yesterday, ", "yesterday"),
        ("yesterday ", "yesterday"),
        ("last week, ", "last week"),
        ("5/5 ", "5/5"),
    ] {
        for count in [1, 2, 3, 95, 4000] {
            let found = read(&link.repeat(count));
            assert_eq!(found.len(), count, "{link}");
            assert!(found.iter().all(|of| of.words == words), "{link}");
        }
    }
}

#[test]
fn no_expression_swallows_a_chain() {
    for link in MIXED {
        let text = link.repeat(400);
        let found = read(&text);
        let longest = found.iter().map(|of| of.range.len()).max().unwrap();
        assert!(longest <= 12 * link.len(), "{link}: {longest}");
        // Only what joins two of them is left out.
        let covered: usize = found.iter().map(|of| of.range.len()).sum();
        assert!(covered * 10 >= text.len() * 6, "{link}: {covered}");
    }
}

#[test]
fn the_longest_expressions_that_people_say_are_one() {
    for text in [
        "on Mondays and Wednesdays from January 8, 2024 from half past three to half past five",
        "Wednesdays from 18:30 to 19:30, starting on Wednesday 20 June 2018",
        "from 15 June to Sunday, 6 July 2025, starting at nine o'clock",
    ] {
        let found = read(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(text.ends_with(&found[0].words), "{found:?}");
    }
}

#[test]
fn a_chain_costs_what_its_length_asks_for() {
    read("tables are read once");
    let links = MIXED.iter().chain(&["yesterday, ", "yesterday "]);
    for &link in links {
        let (short, long) = (cost(link, 250), cost(link, 1000));
        println!("{link}: {long:?} bytes");
        assert!(long.0 <= short.0 * 5, "{link}: {short:?}, {long:?}");
        assert!(long.1 <= short.1 * 5, "{link}: {short:?}, {long:?}");
        assert!(long.1 <= 1000 * 50_000, "{link}: {long:?}");
    }
    // Not much more than the same words as sentences of their own.
    let (sentences, chain) = (cost("Yesterday. ", 1000), cost("yesterday, ", 1000));
    assert!(chain.0 <= sentences.0 * 3, "{chain:?}, {sentences:?}");
    assert!(chain.1 <= sentences.1 * 3, "{chain:?}, {sentences:?}");
}
