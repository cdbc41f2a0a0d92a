CREATE OR REPLACE FUNCTION public.wakeup_changed_keys(old jsonb, new jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT jsonb_build_object(
           'changed_fields',
           coalesce(jsonb_agg(k.key ORDER BY k.key) FILTER (WHERE k.place <= 100), '[]'))
      || CASE WHEN count(*) FILTER (WHERE k.place IS NULL OR k.place > 100) > 0
              THEN '{"changed_fields_more": true}' ELSE '{}' END::jsonb
    FROM (
      SELECT d.key, CASE WHEN length(d.key) <= 200 THEN
               row_number() OVER (PARTITION BY length(d.key) <= 200 ORDER BY d.key) END AS place
        FROM (
          SELECT key
            FROM jsonb_each(CASE WHEN jsonb_typeof(old) = 'object' THEN old ELSE '{}' END) o
            FULL JOIN jsonb_each(CASE WHEN jsonb_typeof(new) = 'object' THEN new ELSE '{}' END) n
            USING (key)
           WHERE o.value IS DISTINCT FROM n.value) d) k
$function$
;
