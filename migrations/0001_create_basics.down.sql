DROP FUNCTION wakeful_listening_key(uuid);
DROP FUNCTION wakeful_issue_key(uuid);
DROP FUNCTION wakeful_begin(text, uuid, uuid);
DROP FUNCTION wakeful_setting_uuid(text);
DROP FUNCTION wakeful_setting(text);
DROP FUNCTION wakeful_uuid7();
DROP FUNCTION wakeful_time(timestamptz);
DROP FUNCTION wakeful_now();
