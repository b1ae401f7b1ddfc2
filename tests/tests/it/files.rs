//! Files: what is told of them, and content out of a sandbox.

use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::FileType;
use glassbox_shared::files::path::display;
use glassbox_tests::files::name;
use glassbox_tests::{TestServer, eventually, hardened, open};
use reqwest::Method;

/// Names that break what treats names as text.
fn hostile_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "plain.txt",
        " leading and trailing ",
        "new\nline",
        "quotes ' \" ` $(id) \\",
        "<img src=x onerror=alert(1)>",
        "right\u{202e}gpj.exe",
        "percent%41%zz",
        "plus+and&amp;?#=",
        "-rf",
        "\u{1b}]0;title\u{7}",
        "emoji \u{1F980} é",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push(b"invalid \xff\xfe utf-8".to_vec());
    names.push(vec![b'n'; 255]);
    names
}

/// Case 21.
#[tokio::test]
async fn any_name_is_listed_opened_downloaded_renamed_and_deleted() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let files = session.files();
    let names = hostile_names();
    // Made inside, by the agent, not by us.
    let made: Vec<String> = names.iter().map(|name| format!("bytes({name:?})")).collect();
    session
        .sh(&format!(
            "python3 -c '\nimport os\nos.mkdir(b\"d\")\nfor n in [{}]:\n  open(b\"d/\" + n, \"wb\").write(b\"content of \" + n)'",
            made.join(", ")
        ))
        .await;
    let page = files.list("d", "").await;
    assert_eq!(page.total, names.len() as u64);
    let mut listed: Vec<String> = page.entries.iter().map(|entry| entry.path.clone()).collect();
    let mut expected: Vec<String> = names.iter().map(|bytes| format!("d/{}", name(bytes))).collect();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    for bytes in &names {
        let path = format!("d/{}", name(bytes));
        let entry = files.stat(&path).await;
        assert_eq!((entry.kind, entry.name.as_str()), (FileType::File, display(bytes).as_str()));
        assert!(!entry.name.chars().any(char::is_control), "{:?} can be shown", entry.name);
        let answer = files.read(&path).await.success().expect("it can be read");
        assert_eq!(answer.body, [b"content of ".as_slice(), bytes].concat());
        // Nothing that comes out may run, whatever it is called.
        assert_eq!(answer.header("content-type"), "application/octet-stream");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(answer.header("content-security-policy").contains("sandbox"));
        assert!(answer.header("content-disposition").starts_with("attachment; filename=\""));
        assert_eq!(answer.header("etag"), format!("\"{}\"", entry.version));
        let renamed = files.rename(&path, "d/renamed", false).await.expect("it can be renamed");
        assert_eq!((renamed.path.as_str(), renamed.size), ("d/renamed", entry.size));
        files.rename("d/renamed", &path, false).await.expect("and back");
        assert_eq!(files.delete(&path, false).await.expect("it can be deleted").done, 1);
        assert_eq!(files.try_stat(&path).await.expect_err("it is gone").code(), ErrorCode::NotFound);
    }
    assert_eq!(files.list("d", "").await.total, 0);
}

/// Case 22.
#[tokio::test]
async fn a_folder_of_65_000_entries_is_listed_within_2_seconds_and_pages() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session.sh("mkdir big && cd big && seq -f f%05g 1 65000 | xargs -n 2000 touch && echo data > f30000").await;
    let files = session.files();
    // The service is started by the first use.
    files.stat("big").await;
    let begun = Instant::now();
    let page = files.list("big", "").await;
    let took = begun.elapsed();
    assert_eq!((page.total, page.entries.len()), (65_000, 200));
    assert_eq!(page.entries[0].name, "f00001");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (mut next, mut seen) = (page.next, page.entries.len());
    let mut last = page.entries.last().expect("entries").name.clone();
    while let Some(cursor) = next {
        let page = files.list("big", &format!("&limit=1000&cursor={cursor}")).await;
        assert!(page.entries[0].name > last, "{} comes after {last}", page.entries[0].name);
        seen += page.entries.len();
        last.clone_from(&page.entries.last().expect("entries").name);
        next = page.next;
        // The pages in between are alike.
        if seen > 3_000 && next.is_some() {
            break;
        }
    }
    assert!(seen > 3_000);
    let found = files.list("big", "&filter=F3000").await;
    assert_eq!((found.total, found.entries[0].name.as_str()), (10, "f30000"));
    let largest = files.list("big", "&sort=size&order=desc&limit=1").await;
    assert_eq!((largest.entries[0].name.as_str(), largest.entries[0].size), ("f30000", 5));
    let newest = files.list("big", "&sort=modified&order=desc&limit=1").await;
    assert_eq!(newest.entries[0].name, "f30000");
}

/// Case 24, the server's half.
#[tokio::test]
async fn a_large_file_is_streamed_and_in_ranges() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    session.sh("head -c 209715200 /dev/zero > large; printf 0123456789 > small; sync").await;
    let files = session.files();
    let before = server.process().resident_bytes();
    let mut answer = files.stream("large").await;
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(answer.content_length(), Some(200 << 20));
    let mut length = 0;
    while let Some(piece) = answer.chunk().await.expect("it arrives") {
        assert!(piece.iter().all(|byte| *byte == 0));
        length += piece.len();
    }
    assert_eq!(length, 200 << 20);
    let grown = server.process().resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "the server grew by {} MiB", grown >> 20);

    let range = async |range| files.read_with(Method::GET, "small", ("range", range)).await;
    let part = range("bytes=2-4").await;
    assert_eq!((part.status, part.text().as_str(), part.header("content-range")), (206, "234", "bytes 2-4/10"));
    let end = range("bytes=-3").await;
    assert_eq!((end.status, end.text().as_str(), end.header("content-range")), (206, "789", "bytes 7-9/10"));
    let rest = range("bytes=8-").await;
    assert_eq!((rest.status, rest.text().as_str()), (206, "89"));
    let beyond = range("bytes=10-").await;
    assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */10"));
    assert_eq!(beyond.refusal().code(), ErrorCode::OffsetBeyondEnd);
    assert_eq!(range("bytes=0-1,4-5").await.status, 200, "several ranges are answered by all of it");
    let head = files.read_with(Method::HEAD, "large", ("accept", "*/*")).await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "209715200", 0));
    let version = files.stat("small").await.version;
    let same = files.read_with(Method::GET, "small", ("if-none-match", &format!("\"{version}\""))).await;
    assert_eq!((same.status, same.body.len()), (304, 0));
    // Ranges under conditions, as RFC 9110 has them.
    let get = async |headers: &[(&str, &str)]| {
        let request = agent.request(Method::GET, &files.address("content", "small", ""));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = agent.send(request).await;
        (answer.status, answer.text())
    };
    let (tag, weak) = (format!("\"{version}\""), format!("W/\"{version}\""));
    assert_eq!(get(&[("range", "bytes=2-4"), ("if-range", &tag)]).await, (206, "234".to_owned()));
    for other in ["\"another\"", &weak, "Mon, 30 Nov 2026 10:00:00 GMT"] {
        let (status, text) = get(&[("range", "bytes=2-4"), ("if-range", other)]).await;
        assert_eq!((status, text.as_str()), (200, "0123456789"), "of {other} all is wanted");
    }
    assert_eq!(get(&[("range", "bytes=99-"), ("if-range", "\"another\"")]).await.0, 200);
    assert_eq!(get(&[("range", "bytes=99-"), ("if-none-match", &weak)]).await.0, 304, "nothing is needed");
    assert_eq!(get(&[("range", "bytes=2-4"), ("if-none-match", "\"another\"")]).await, (206, "234".to_owned()));
    let head = files.read_with(Method::HEAD, "small", ("range", "bytes=99-")).await;
    assert_eq!((head.status, head.header("content-length")), (200, "10"), "a range is a matter of GET");
}

#[tokio::test]
async fn a_folder_comes_as_an_archive_that_tar_reads() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let long = "long".repeat(60);
    session
        .sh(&format!(
            "mkdir -p 'tree/a b/{long}' && cd tree && echo one > one && ln -s one link && mkfifo pipe && \
             head -c 300000 /dev/urandom > 'a b/{long}/data' && cd .. && tar c --exclude=pipe tree | md5sum > /dev/null; \
             md5sum 'tree/a b/{long}/data' | cut -d' ' -f1 > sum"
        ))
        .await;
    let files = session.files();
    let answer = files.archive("tree").await.success().expect("it is packed");
    assert_eq!(answer.header("content-type"), "application/gzip");
    assert!(answer.header("content-disposition").contains("tree.tar.gz"));
    // Unpacked by the sandbox's own tar.
    files.write("back.tar.gz", answer.body).await;
    let told = session
        .sh(&format!(
            "mkdir back && tar xzf back.tar.gz -C back && cd back && cat tree/one && readlink tree/link && \
             md5sum 'tree/a b/{long}/data' | cut -d' ' -f1 | cmp - ../sum && cat glassbox-skipped.txt"
        ))
        .await;
    assert!(told.starts_with("one\none\n"), "{told}");
    assert!(told.contains("tree/pipe") && told.contains("pipe"), "what is left out is named: {told}");
    assert_eq!(files.archive("tree/one").await.refusal().code(), ErrorCode::NotAFolder);
}

#[tokio::test]
async fn changes_that_the_agent_makes_are_seen() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session.sh("mkdir d && echo one > d/file").await;
    let files = session.files();
    let first = files.watch("d", None, 0.0).await;
    assert_eq!(first.version, files.list("d", "").await.version, "a listing says the same version");
    let same = files.watch("d", Some(&first.version), 0.0).await;
    assert!(!same.changed);
    // Content of the same length, a new name, a name that goes.
    let mut version = first.version;
    for change in ["echo two > d/file", "touch d/new", "rm d/new", "chmod 600 d/file"] {
        let (changed, _) = tokio::join!(files.watch("d", Some(&version), 30.0), session.sh(change));
        assert!(changed.changed, "{change}");
        version = changed.version;
    }
}

#[tokio::test]
async fn the_service_survives_the_death_of_its_sandbox_and_its_own() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let files = session.files();
    files.write("kept", "kept").await;
    // Its own, by the root of its sandbox.
    session.sh("pkill -KILL -f 'glassbox-inside files'").await;
    // Whoever comes before its end is noticed hears of it; the next one gets a new service.
    let again = eventually("a new one is started", Duration::from_secs(30), async || {
        match files.read("kept").await.success() {
            Ok(answer) => Some(answer),
            Err(refusal) => {
                assert_eq!((refusal.status, refusal.code()), (503, ErrorCode::FilesUnavailable));
                None
            }
        }
    });
    assert_eq!(again.await.text(), "kept");
    glassbox_tests::docker::run(&["kill", &glassbox_tests::docker::container_of(session.id().as_str())]);
    session.restarted(1).await;
    assert_eq!(files.read("kept").await.success().expect("on the next sandbox").text(), "kept");
    session.delete().await.success().expect("it ends");
    assert_eq!(files.read("kept").await.refusal().code(), ErrorCode::NotFound);
}
