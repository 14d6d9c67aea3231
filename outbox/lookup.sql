-- Where an event is. $1 event_id. At most one row. Index: outbox_pkey.
select position, shard, topic, created_at
  from {{schema}}.outbox
 where event_id = $1
