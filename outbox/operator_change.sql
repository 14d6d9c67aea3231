-- Changes parked events that the transaction has locked. The revision tells the relay that what it had loaded is no longer so.
-- $1 changes, a JSON list. Rows affected: as many. Index: outbox_parked_pkey.
update {{schema}}.outbox_parked p
   set state = c.state,
       blocks = c.blocks,
       attempts = c.attempts,
       due_at = case when c.due_now then {{schema}}.clock() when c.state in ('scheduled', 'retrying') then p.due_at end,
       topic_override = c.topic_override,
       metadata_override = nullif(c.metadata_override, 'null'),
       owner = c.owner,
       revision = p.revision + 1,
       updated_at = {{schema}}.clock()
  from jsonb_to_recordset($1::jsonb) c(shard smallint, "position" bigint, state text, blocks boolean, attempts integer,
       due_now boolean, topic_override text, metadata_override jsonb, owner text)
 where p.shard = c.shard and p.position = c."position"
