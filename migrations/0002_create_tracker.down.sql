DO $$
BEGIN
  IF EXISTS (SELECT FROM issue) THEN
    RAISE EXCEPTION '% issues exist: undoing this step would delete them',
      (SELECT count(*) FROM issue);
  END IF;
END $$;
DROP FUNCTION may_invoke(uuid, agent);
DROP FUNCTION priority_rank(text);
DROP FUNCTION comment_thread_root(uuid);
DROP FUNCTION status_is_closed(uuid, text);
DROP FUNCTION status_category(uuid, text);
DROP TABLE activity_log, comment, issue, agent_invocation_target, agent, agent_runtime, daemon,
  access_token, member, app_user, workspace;
