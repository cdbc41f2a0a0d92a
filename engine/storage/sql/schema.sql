-- What the committed description of the schema is made of.

-- name: functions
-- The current text of each function of ours, those of an extension left out; an overloaded name
-- has several. Aggregates have no text of their own.
SELECT coalesce(json_object_agg(name, text), '{}') FROM (
  SELECT p.proname AS name,
         string_agg(pg_get_functiondef(p.oid), E';\n\n' ORDER BY p.oid::regprocedure::text)
           || E';\n' AS text
  FROM pg_proc p
  WHERE p.pronamespace = 'public'::regnamespace AND p.prokind <> 'a'
    AND NOT EXISTS (
      SELECT FROM pg_depend d
      WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
  GROUP BY p.proname
) AS f;
