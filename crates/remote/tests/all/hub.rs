//! The hub, played by a small server on the loopback interface.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mem_remote::{Error, Source};

use crate::support::{World, sha256, whole};

/// What the server shall do with the file's bytes.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Healthy,
    /// Breaks off after this many bytes, once.
    BreaksAfter(usize),
    Refuses,
}

struct Hub {
    endpoint: String,
    /// The first byte of each answer that was more than a look.
    starts: Arc<Mutex<Vec<usize>>>,
}

impl Hub {
    fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let starts = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&starts);
        thread::spawn(move || {
            let mut mood = mood;
            for stream in listener.incoming() {
                let _ = answer(stream.unwrap(), &mut mood, &seen);
            }
        });
        Self { endpoint, starts }
    }
}

fn answer(
    mut stream: TcpStream,
    mood: &mut Mood,
    starts: &Mutex<Vec<usize>>,
) -> std::io::Result<()> {
    let (mut target, mut range) = (String::new(), String::new());
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("range: bytes=") {
            range = value.to_owned();
        } else if let Some(rest) = line.strip_prefix("GET ") {
            target = rest.to_owned();
        }
    }
    if *mood == Mood::Refuses {
        return write!(
            stream,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        );
    }
    if target.starts_with("/api/") {
        let body = r#"{"sha":"abc","siblings":[{"rfilename":"model.gguf"},{"rfilename":"x.bin"}]}"#;
        let length = body.len();
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
    }
    let content = whole();
    let (start, end) = range.split_once('-').unwrap();
    let start: usize = start.parse().unwrap();
    let end = end.parse().map_or(content.len(), |end: usize| end + 1);
    if start >= content.len() {
        return write!(
            stream,
            "HTTP/1.1 416 Range Not Satisfiable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
    }
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nConnection: close\r\nx-repo-commit: abc\r\n\
         etag: \"{}\"\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{}\r\n\r\n",
        sha256(&content),
        end - start,
        end - 1,
        content.len()
    )?;
    let mut body = &content[start..end];
    if end == content.len() {
        starts.lock().unwrap().push(start);
        if let Mood::BreaksAfter(bytes) = *mood {
            body = &body[..bytes];
            *mood = Mood::Healthy;
        }
    }
    stream.write_all(body)
}

fn world(mood: Mood) -> (World, Hub) {
    let hub = Hub::start(mood);
    let mut world = World::new();
    world.places.hub_endpoint = hub.endpoint.clone();
    (world, hub)
}

#[test]
fn a_file_is_downloaded_checked_and_moved_out() {
    let (world, _hub) = world(Mood::Healthy);
    world.fetch(Source::Hub).unwrap();
    world.assert_whole(Source::Hub);
}

#[test]
fn a_broken_download_goes_on_at_its_last_byte() {
    let (world, hub) = world(Mood::BreaksAfter(10));
    world.fetch(Source::Hub).unwrap();
    world.assert_whole(Source::Hub);
    assert_eq!(*hub.starts.lock().unwrap(), [0, 10]);
}

#[test]
fn a_download_killed_before_its_renaming_is_mended() {
    let (world, _hub) = world(Mood::Healthy);
    let blobs = world.partial().join("hub/models--owner--tiny/blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(blobs.join(format!("{}.part", sha256(&whole()))), whole()).unwrap();
    world.fetch(Source::Hub).unwrap();
    world.assert_whole(Source::Hub);
}

#[test]
fn without_a_file_list_the_repository_s_own_is_used_and_the_etag_is_the_hash() {
    let (mut world, _hub) = world(Mood::Healthy);
    world.model.files.clear();
    world.model.pip = None;
    let fetched = world.fetch(Source::Hub).unwrap();
    assert_eq!(fetched.manifest.files.len(), 1, "`x.bin` is of no use");
    world.assert_whole(Source::Hub);
}

#[test]
fn a_refusal_names_the_file_and_is_not_repeated() {
    let (world, _hub) = world(Mood::Refuses);
    let error = world.fetch(Source::Hub).unwrap_err();
    assert!(matches!(error, Error::Hub { .. }), "{error}");
    let line = mem_remote::chain(&error);
    assert!(
        line.starts_with("`owner/tiny/model.gguf` from http://127.0.0.1"),
        "{line}"
    );
    assert!(line.contains("404"), "{line}");
}

#[test]
fn a_hub_that_says_nothing_costs_seconds() {
    // Accepts connections into its backlog and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut world = World::new();
    world.places.hub_endpoint = format!("http://{}", listener.local_addr().unwrap());
    let start = Instant::now();
    let error = world.fetch(Source::Hub).unwrap_err();
    assert!(matches!(error, Error::HubSilent { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
}
