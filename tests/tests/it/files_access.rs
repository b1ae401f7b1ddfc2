//! Files: whose they are, and who may change them.

use glassbox_shared::command::RunCommand;
use glassbox_shared::error::ErrorCode;
use glassbox_tests::{TestServer, hardened};

#[tokio::test]
async fn viewers_and_operators_read_and_only_who_is_in_control_writes() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let own = session.files();
    own.write("file", "content").await;
    let viewer = session.seen_by(&server.viewer_key().await).files();
    let operator = session.seen_by(&server.operator()).files();
    for (reader, refusal) in [(&viewer, ErrorCode::Forbidden), (&operator, ErrorCode::NotInControl)] {
        assert_eq!(reader.read("file").await.success().expect("reading is watching").text(), "content");
        assert_eq!(reader.names("").await, ["file"]);
        assert_eq!(reader.archive("").await.status, 200);
        assert!(!reader.watch("", None, 0.0).await.version.is_empty());
        let code = |result: Result<(), glassbox_tests::Refusal>| result.expect_err("writing is acting").code();
        assert_eq!(code(reader.try_write("file", "other", &[]).await.map(drop)), refusal);
        assert_eq!(code(reader.rename("file", "x", false).await.map(drop)), refusal);
        assert_eq!(code(reader.make_folder("x").await.map(drop)), refusal);
        assert_eq!(code(reader.copy("file", "x").await.map(drop)), refusal);
        assert_eq!(code(reader.delete("file", false).await.map(drop)), refusal);
        assert_eq!(code(reader.start_upload("x", 1).await.map(drop)), refusal);
    }
    let another = session.seen_by(&server.agent().await).files();
    another.write("file", "an agent of the same tenant").await;

    // In a session that a human made, the human writes and the agent watches.
    let humans = server.operator().create_session(hardened()).await;
    humans.files().write("file", "a human's").await;
    let seen = humans.seen_by(&agent).files();
    assert_eq!(seen.read("file").await.text(), "a human's");
    let refusal = seen.try_write("file", "other", &[]).await.expect_err("the human is in control");
    assert_eq!(refusal.code(), ErrorCode::NotInControl);
    let run = RunCommand { command: "true".to_owned(), ..RunCommand::default() };
    let run = humans.seen_by(&agent).try_run(&run).await.expect_err("as for commands");
    assert_eq!(refusal.body.detail, run.body.detail);
    assert_eq!(own.read("file").await.text(), "an agent of the same tenant");
}

#[tokio::test]
async fn another_tenants_files_are_out_of_reach() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session.files().write("file", "content").await;
    let foreign = session.seen_by(&server.other_operator()).files();
    assert_eq!(foreign.read("file").await.refusal().code(), ErrorCode::OtherTenant);
    assert_eq!(foreign.try_list("", "").await.expect_err("foreign").code(), ErrorCode::OtherTenant);
    assert_eq!(foreign.try_write("file", "x", &[]).await.expect_err("foreign").code(), ErrorCode::OtherTenant);
    assert_eq!(foreign.delete("file", true).await.expect_err("foreign").code(), ErrorCode::OtherTenant);
    let upload = session.files().start_upload("up", 3).await.expect("begun");
    assert_eq!(foreign.upload(&upload.upload_id).await.expect_err("foreign").code(), ErrorCode::OtherTenant);
    // An upload is its session's.
    let other = agent.create_session(hardened()).await.files();
    assert_eq!(other.upload(&upload.upload_id).await.expect_err("another session's").code(), ErrorCode::NotFound);
    assert_eq!(session.files().read("file").await.text(), "content");
}
