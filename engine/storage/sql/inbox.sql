-- What asks for a person's attention. An item holds ids and the title of the issue at that time, and
-- nothing of what a comment says.

-- name: list
-- The items of a person ($2) in a workspace ($1), newest first; with $3 only those not read.
-- Index: inbox_item_recipient_idx.
SELECT count(*) OVER () AS total, n.id, n.workspace_id, n.recipient_id, n.type, n.severity,
       n.issue_id, n.title, n.body, n.actor_type, n.actor_id, n.details, n.read_at, n.created_at
  FROM inbox_item n
 WHERE n.recipient_id = $2 AND n.workspace_id = $1 AND (NOT $3 OR n.read_at IS NULL)
 ORDER BY n.created_at DESC, n.id DESC
 LIMIT $4 OFFSET $5;

-- name: place
-- In which workspace the item $1 of the person $2 is.
SELECT n.workspace_id FROM inbox_item n WHERE n.id = $1 AND n.recipient_id = $2;

-- name: read
-- The item $1 is read; a second time keeps the first time. Locks: the item.
UPDATE inbox_item n SET read_at = coalesce(n.read_at, wakeful_now()) WHERE n.id = $1
RETURNING n.id, n.workspace_id, n.recipient_id, n.type, n.severity, n.issue_id, n.title, n.body,
          n.actor_type, n.actor_id, n.details, n.read_at, n.created_at;

-- name: tell_of_assignment
-- An item for the person $4 to whom the actor ($2, $3) gave the issue $1.
-- Locks: workspace and user KEY SHARE, by their keys.
INSERT INTO inbox_item (workspace_id, recipient_id, type, severity, issue_id, title, actor_type,
                        actor_id)
SELECT i.workspace_id, $4, 'issue_assigned', 'action_required', i.id, i.title, $2, $3
  FROM issue i WHERE i.id = $1;

-- name: tell_of_comment
-- Items about the comment $2 on the issue $1, made by the actor $3, $4, whose person ($5) gets none.
-- At most one a member, of the most pressing sort: people mentioned by id ($6) or by name ($7), then
-- with $8 the person who is answered ($9), then whose issue it is. Not told: whom an earlier text
-- of the comment has mentioned ($10, $11), and who has an item about the comment.
-- Locks: workspace and users KEY SHARE, by their keys. Index: the unique one of member,
-- inbox_item_recipient_idx; names read the members of the workspace, and only if there are names.
WITH meant AS (
  SELECT u.id AS user_id, 1 AS rank FROM unnest($6::uuid[]) AS u (id)
   WHERE u.id <> ALL ($10::uuid[])
  UNION ALL
  SELECT m.user_id, 1
    FROM issue i
    JOIN member m ON m.workspace_id = i.workspace_id
    JOIN app_user u ON u.id = m.user_id
   WHERE i.id = $1 AND cardinality($7::text[]) > 0
     AND lower(u.name) IN (SELECT lower(n) FROM unnest($7::text[]) n)
     AND lower(u.name) NOT IN (SELECT lower(n) FROM unnest($11::text[]) n)
  UNION ALL
  SELECT $9::uuid, 2 WHERE $8
  UNION ALL
  SELECT i.assignee_id, 3 FROM issue i WHERE i.id = $1 AND $8 AND i.assignee_type = 'member'
  UNION ALL
  SELECT i.creator_id, 3 FROM issue i WHERE i.id = $1 AND $8 AND i.creator_type = 'member'
), told AS (
  SELECT w.user_id, min(w.rank) AS rank FROM meant w GROUP BY w.user_id
)
INSERT INTO inbox_item (workspace_id, recipient_id, type, severity, issue_id, title, actor_type,
                        actor_id, details)
SELECT i.workspace_id, m.user_id,
       CASE t.rank WHEN 1 THEN 'mentioned' WHEN 2 THEN 'comment_reply' ELSE 'new_comment' END,
       CASE t.rank WHEN 3 THEN 'info' ELSE 'attention' END,
       i.id, i.title, $3, $4, jsonb_build_object('comment_id', $2::uuid)
  FROM issue i
  JOIN told t ON t.user_id IS DISTINCT FROM $5::uuid
  JOIN member m ON m.workspace_id = i.workspace_id AND m.user_id = t.user_id
 WHERE i.id = $1
   AND ($8 OR NOT EXISTS (
     SELECT FROM inbox_item n
      WHERE n.recipient_id = m.user_id AND n.workspace_id = i.workspace_id AND n.issue_id = i.id
        AND n.details ->> 'comment_id' = ($2::uuid)::text));
