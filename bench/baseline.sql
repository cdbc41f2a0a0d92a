-- What dispatch is measured against: one dispatch in one function call, on the product's own tables
-- with their triggers on, and nothing that a dispatch could do without. No groups, no decisions, no
-- other locks than the rule's. Note, evidence and timeline entry are as large as the product's.

CREATE SEQUENCE bench_turn;

CREATE FUNCTION bench_dispatch(turn bigint) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
  r issue_wakeup;
  run_id uuid;
  seqs bigint[];
  facts jsonb;
  lines text;
BEGIN
  SELECT * INTO STRICT r FROM issue_wakeup w WHERE w.id = bench_id('9000', turn) FOR NO KEY UPDATE;

  SELECT array_agg(x.seq),
         jsonb_agg(jsonb_build_object('event_type', x.event_type, 'payload', x.payload)),
         string_agg(x.event_type || ' ' || x.payload, E'\n')
    INTO seqs, facts, lines
    FROM (SELECT y.seq, y.event_type, y.payload
            FROM issue_wakeup_receipt y
           WHERE y.wakeup_id = r.id AND y.processed_at IS NULL AND y.task_id IS NULL
           ORDER BY y.created_at, y.seq
           LIMIT 100) x;

  INSERT INTO agent_task_queue (
    agent_id, issue_id, runtime_id, priority, trigger_summary, handoff_note, context,
    originator_user_id, accountable_user_id, originator_source, trigger_evidence_kind,
    trigger_evidence_ref_id)
  SELECT r.agent_id, r.issue_id, a.runtime_id, priority_rank(i.priority),
         'Issue wakeup: ' || left(r.instruction, 160),
         concat_ws(
           E'\n', 'Wakeup ' || r.id || ' fired.', '', 'Instruction:', r.instruction, '',
           'What happened. These facts may be out of date: look up the current state before you '
           'decide.', lines),
         jsonb_build_object(
           'wakeup_id', r.id, 'wakeup_revision', r.revision,
           'wakeup_evidence', jsonb_build_object(
             'version', 1, 'instruction', r.instruction, 'facts', facts, 'legacy', '',
             'omitted', false)),
         r.created_by, r.created_by, 'trigger_owner', 'issue_wakeup', r.id
    FROM issue i JOIN agent a ON a.id = r.agent_id
   WHERE i.id = r.issue_id
  RETURNING id INTO STRICT run_id;

  UPDATE issue_wakeup_receipt x SET processed_at = wakeful_now(), task_id = run_id
   WHERE x.seq = ANY (seqs);

  UPDATE issue_wakeup w SET last_task_id = run_id, last_error = NULL, updated_at = wakeful_now()
   WHERE w.id = r.id;

  INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
  VALUES (
    r.workspace_id, r.issue_id, facts #>> '{0,payload,actor_type}',
    (facts #>> '{0,payload,actor_id}')::uuid, 'wakeup_triggered',
    jsonb_build_object(
      'wakeup', jsonb_build_object(
        'id', r.id, 'kind', r.kind, 'mode', r.mode, 'event_types', r.event_types,
        'agent_id', r.agent_id, 'created_by', r.created_by, 'source_task_id', r.source_task_id,
        'filter_agent_id', r.filter_agent_id, 'filter_task_id', r.filter_task_id,
        'filter_actor_type', r.filter_actor_type, 'filter_actor_id', r.filter_actor_id,
        'interval_seconds', r.interval_seconds, 'cron_expression', r.cron_expression,
        'timezone', r.timezone, 'next_fire_at', r.next_fire_at),
      'events', jsonb_build_array('comment.created'), 'count', 1,
      'actor_type', facts #> '{0,payload,actor_type}',
      'actor_id', facts #> '{0,payload,actor_id}', 'task_id', run_id));

  RETURN run_id;
END $$;
