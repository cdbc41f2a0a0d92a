DO $$
BEGIN
  IF EXISTS (SELECT FROM issue i JOIN issue_status s USING (workspace_id) WHERE i.status = s.key) THEN
    RAISE EXCEPTION 'issues have statuses of their workspace; move them to built-in ones first';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION status_category(workspace_id uuid, status text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE status
    WHEN 'backlog' THEN 'backlog'
    WHEN 'todo' THEN 'todo'
    WHEN 'in_progress' THEN 'in_progress'
    WHEN 'in_review' THEN 'in_progress'
    WHEN 'blocked' THEN 'in_progress'
    WHEN 'done' THEN 'done'
    WHEN 'cancelled' THEN 'closed'
  END
$$;
ALTER TABLE issue DROP CONSTRAINT issue_project_id_fkey;
DROP INDEX issue_project_idx;
DROP TABLE inbox_item, attachment_content, attachment, comment_reaction, issue_reaction,
  issue_property, issue_to_label, issue_label, project, squad_member, squad, issue_status;
